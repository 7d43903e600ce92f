"""The audit of one server: starts the processes, runs the probes in order, keeps what they tell, ends everything.

A single loop in the parent hears all processes. Whatever happens to one of them becomes a row; the record is
written in any case, also after SIGTERM.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Set, Tuple

import auditor
from auditor.records import ProbeRow, Tool

from . import budget, occupancy
from .budget import Budget
from .catalogue import Probe
from .channel import Message
from .colleague import Colleague
from .context import reading_on_the_wire
from .crew import Crew
from .gpu_facts import GpuFacts
from .guest import Scratch
from .ledger import Ledger
from .progress import Progress, now
from .samples import Windows
from .seats import Seat, Seats, environment
from .task import Part, Task

LISTING_SECONDS = 60.0
CUDA_SECONDS = 45.0
STOP_GRACE = 6.0
_TOO_HOT_MARGIN = 2.0


@dataclass(frozen=True)
class Wishes:
    """The command line, understood."""

    server: str
    profile: str
    run: str
    device: str
    probes: Tuple[Probe, ...]
    path: Optional[str]
    soak_seconds: float
    nonce: Optional[str]
    budget: Optional[float]
    allow_busy: bool


class Audit:
    """One run over one server."""

    def __init__(self, wishes: Wishes, scratch: Scratch, progress: Progress, began: float) -> None:
        self._wishes, self._scratch, self._progress, self._began = wishes, scratch, progress, began
        self._started = now()
        self._ledger, self._windows = Ledger(), Windows()
        self._crew = Crew(environment(), scratch.path)
        self._budget = Budget(wishes.budget, began)
        self._seed = _seed(wishes.nonce)
        self._gpus: Optional[List[GpuFacts]] = None
        self._usage: Dict[int, Dict[str, Any]] = {}
        self._first_look: Dict[int, Dict[str, Any]] = {}
        self._loads: Dict[int, List[float]] = {}
        self._baseline: Dict[int, Set[int]] = {}
        self._limits: Dict[int, float] = {}
        self._cuda: Optional[Message] = None
        self._cuda_waiting: List[Colleague] = []
        self._task: Optional[Task] = None
        self._seats: Optional[Seats] = None
        self._device = "cpu"
        self._stopped: Optional[str] = None
        self._finished: Dict[str, Tuple[Probe, str]] = {}
        self._fixed: Optional[float] = None
        self._measuring = 0.0
        self._behind = 0.0
        self._plan = {p.key: budget.wanted(p, wishes.profile, wishes.soak_seconds) for p in wishes.probes}
        self._planned = sum(self._plan.values())

    # --- the whole --------------------------------------------------------------------------------------------

    def run(self) -> bytes:
        """Do everything; returns the record."""
        signal.signal(signal.SIGTERM, self._asked_to_stop)
        signal.signal(signal.SIGINT, self._asked_to_stop)
        signal.signal(signal.SIGHUP, self._asked_to_stop)
        try:
            self._open()
            for probe in self._wishes.probes:
                self._take(probe)
            self._close()
        finally:
            self._crew.dismiss_all()
        return self._record()

    def _asked_to_stop(self, number: int, frame: Any) -> None:
        self._stopped = self._stopped or "stopped by %s" % signal.Signals(number).name

    def _open(self) -> None:
        """Ask the driver what there is, and let the workers start."""
        self._watcher = self._crew.hire("watcher", "watcher")
        self._cuda_door = self._crew.hire("cuda", "cuda")
        self._wait(lambda: self._gpus is not None, LISTING_SECONDS)
        if self._gpus is None:
            self._say("the GPU driver did not answer within %.0f s" % LISTING_SECONDS)
            self._crew.dismiss(self._watcher)
            self._gpus = []
        wanted = self._wishes.device
        self._device = ("cuda" if self._gpus else "cpu") if wanted == "auto" else wanted
        self._seats = Seats(self._crew, self._device, self._gpus)
        if not self._wishes.allow_busy:
            self._leave_alone_what_is_used()
        for probe in self._wishes.probes:
            if self._device in probe.devices and probe.scope in ("gpu", "all") and probe.workers:
                for seat in self._seats.of(probe.scope):
                    if not seat.bars(probe.key) and not self._lacks(probe):
                        self._seats.fill(seat, "torch" in probe.needs)

    def _leave_alone_what_is_used(self) -> None:
        for seat in self._every_gpu_seat():
            usage = self._usage.get(seat.gpu.index, {}) if seat.gpu else {}
            user = occupancy.owner(usage)
            if user is not None:
                seat.barred = "in use by %s" % user
                continue
            doubt = occupancy.hidden(usage.get("memory"), [])
            if doubt is not None:
                seat.barred, seat.only = doubt, "time_slicing"

    def _every_gpu_seat(self) -> List[Seat]:
        return [seat for seat in self._the_seats.gpus if seat.gpu is not None and seat.barred is None]

    @property
    def _the_seats(self) -> Seats:
        if self._seats is None:
            raise RuntimeError("no seats before the GPUs are listed")
        return self._seats

    # --- one probe --------------------------------------------------------------------------------------------

    def _take(self, probe: Probe) -> None:
        """Run one probe, or say in its rows why not."""
        wanted = self._plan.pop(probe.key)
        self._progress.step(probe.key, self._percent())
        for status, reason in self._obstacles(probe):
            self._row(probe, "server", status, reason)
            break
        else:
            seats = self._ready_seats(probe)
            if seats:
                share = self._budget.share(wanted, wanted + sum(self._plan.values()))
                if share <= 0 or self._stopped:
                    for seat in seats:
                        self._row(probe, self._subject(probe, seat), *self._no_time())
                else:
                    self._execute(probe, "run", seats, share)
        self._behind += wanted

    def _obstacles(self, probe: Probe) -> List[Tuple[str, str]]:
        if self._stopped:
            return [("timed_out", self._stopped)]
        if self._device not in probe.devices:
            return [("not_applicable", "needs an NVIDIA GPU" if self._device == "cpu" else "not for a GPU server")]
        lack = self._lacks(probe)
        if lack:
            return [("skipped", lack)]
        if self._device == "cuda" and not self._gpus and probe.scope != "server":
            return [("skipped", "the driver lists no GPU")]
        if probe.scope == "pair" and len(self._gpus or ()) < 2:
            return [("not_applicable", "needs two GPUs")]
        if probe.scope in ("all", "pair") or (probe.scope == "server" and probe.heavy):
            for seat in self._the_seats.gpus:
                if seat.bars(probe.key) and self._device == "cuda":
                    return [("skipped", "%s: %s" % (seat.subject, seat.bars(probe.key)))]
        return []

    def _lacks(self, probe: Probe) -> Optional[str]:
        if "torch" in probe.needs and not _has_torch():
            return "no torch in %s: name a Python that has it, or install torch" % sys.executable
        return None

    def _no_time(self) -> Tuple[str, str]:
        if self._stopped:
            return "timed_out", self._stopped
        if self._fixed is None or self._measuring == 0.0:
            return "skipped", "the budget of %g s was over after the start of %.1f s" % (
                self._budget.total or 0,
                time.monotonic() - self._began,
            )
        return "skipped", "the budget of %g s was over" % (self._budget.total or 0)

    def _subject(self, probe: Probe, seat: Seat) -> str:
        return seat.subject if probe.scope == "gpu" else "server"

    def _ready_seats(self, probe: Probe) -> List[Seat]:
        """The seats that can run it now; each that cannot gets its row."""
        seats = []
        torch = "torch" in probe.needs
        if not probe.workers:
            for seat in self._the_seats.everyone:
                if seat is not self._the_seats.server:
                    self._the_seats.empty(seat)
        for seat in self._the_seats.of(probe.scope):
            reason = seat.bars(probe.key)
            if reason:
                self._row(probe, self._subject(probe, seat), "skipped", reason)
            else:
                self._the_seats.fill(seat, torch)
                seats.append(seat)
        self._wait(lambda: all(seat.ready or seat.colleague is None for seat in seats), None, seats)
        if probe.heavy:
            seats = self._look_again(probe, seats)
        able = []
        for seat in seats:
            if torch and seat.problem is not None:
                self._row(probe, self._subject(probe, seat), seat.problem_kind, seat.problem)
            elif seat.ready:
                able.append(seat)
            else:
                self._row(
                    probe,
                    self._subject(probe, seat),
                    *(("timed_out", self._stopped) if self._stopped else ("failed", seat.problem or "no worker")),
                )
        if probe.scope == "all" and len(able) < len(self._the_seats.of("all")):
            done = {row.subject for row in self._ledger.rows if row.probe == probe.key}
            if not done:
                self._row(probe, "server", "failed", "not all workers are there")
            return []
        return able

    def _look_again(self, probe: Probe, seats: List[Seat]) -> List[Seat]:
        """Before a heavy command: has anybody come to a GPU meanwhile, was there load while we started?"""
        if self._wishes.allow_busy or self._fixed is not None:
            return seats
        for seat in seats:
            if seat.gpu is not None and seat.barred is None:
                doubt = occupancy.hidden(None, self._loads.get(seat.gpu.index, []))
                if doubt is not None:
                    seat.barred, seat.only = doubt, "time_slicing"
        free = []
        for seat in seats:
            if seat.bars(probe.key):
                self._row(probe, self._subject(probe, seat), "skipped", seat.bars(probe.key))
            else:
                free.append(seat)
        return free

    def _execute(self, probe: Probe, hook: str, seats: List[Seat], share: float) -> None:
        begun = time.monotonic()
        if self._fixed is None and (probe.heavy or not self._starting()):
            self._fixed = begun - self._began
        deadline = begun + share
        task = Task(probe, hook, deadline, deadline + budget.grace(share))
        task.start(seats, [self._subject(probe, seat) for seat in seats])
        self._task = task
        rendezvous = os.path.join(self._scratch.fresh("rendezvous"), "store") if probe.scope == "all" else None
        known = self._known()
        for rank, seat in enumerate(seats):
            if hook == "run":
                self._progress.event(
                    "probe", probe=probe.key, subject=self._subject(probe, seat), status="running",
                    percent=round(self._percent()),
                )  # fmt: skip
            assignment = {
                "key": probe.key,
                "scope": probe.scope,
                "profile": self._wishes.profile,
                "device": self._device,
                "subject": self._subject(probe, seat),
                "deadline": deadline,
                "directory": self._scratch.fresh("probe-%s" % seat.name),
                "seed": self._seed,
                "gpu": seat.gpu.index if seat.gpu else None,
                "gpus": [gpu.wire() for gpu in self._gpus or []],
                "rank": rank,
                "ranks": len(seats),
                "path": self._wishes.path,
                "soak_seconds": self._wishes.soak_seconds,
                "rendezvous": rendezvous,
                "known": known,
            }
            if seat.colleague is not None:
                seat.colleague.send({"do": "run", "hook": hook, "assignment": assignment})
        self._see_through(task)
        self._task = None
        if self._fixed is not None:
            self._measuring += time.monotonic() - begun
        for row in task.rows():
            self._finish_row(probe, hook, row)
        if hook == "run" and probe.finishes and any(part.status == "measured" for part in task.parts.values()):
            seat = seats[0]
            if seat.colleague is not None:
                self._finished[probe.key] = (probe, seat.colleague.name)

    def _see_through(self, task: Task) -> None:
        asked = None
        while task.running:
            self._hear(0.2)
            moment = time.monotonic()
            if self._stopped and asked is None:
                asked = moment
                for part in task.running:
                    if part.seat.colleague is not None:
                        part.seat.colleague.ask_to_end()
            if task.running and moment > task.hard:
                self._abandon(
                    task,
                    task.running,
                    "timed_out",
                    "did not end within %.0f s: its worker was ended"
                    % (task.hard - min(part.began for part in task.running)),
                )
            elif task.running and asked is not None and moment > asked + STOP_GRACE:
                self._abandon(task, task.running, "timed_out", self._stopped)
        if asked is not None:
            for part in task.parts.values():
                if part.status == "measured":
                    part.end("timed_out", self._stopped)

    def _abandon(self, task: Task, parts: List[Part], status: str, reason: Optional[str]) -> None:
        """End the workers of these parts; a collective cannot go on without any of them."""
        if task.probe.scope == "all":
            parts = task.running
        for part in parts:
            self._windows.close(part.seat.name)
            self._the_seats.empty(part.seat)
            part.end(status, reason)
        for part in parts:
            self._answer(task.meeting.leave(part.seat.name))
        if not self._stopped:
            for part in parts:  # the next probe finds a fresh worker that started meanwhile
                if part.seat.barred is None:
                    self._the_seats.fill(part.seat, "torch" in task.probe.needs)
        self._pace()

    def _close(self) -> None:
        """After all probes: the hooks that compare with the beginning."""
        for probe, name in list(self._finished.values()):
            seat = self._the_seats.of(probe.scope)[0]
            if seat.colleague is None or seat.colleague.name != name:
                self._amend(probe.key, "its process was replaced: nothing to compare with")
            elif self._stopped is None or probe.scope == "server":
                stopped, self._stopped = self._stopped, None
                self._execute(probe, "finish", [seat], max(5.0, budget.wanted(probe, self._wishes.profile, 0)))
                self._stopped = self._stopped or stopped
        if self._fixed is None:
            self._fixed = time.monotonic() - self._began

    # --- hearing ----------------------------------------------------------------------------------------------

    def _wait(self, done: Any, limit: Optional[float], seats: Optional[List[Seat]] = None) -> None:
        """Hear until `done`; at most `limit` seconds, or until late seats have been given up."""
        until = None if limit is None else time.monotonic() + limit
        while not done() and not self._stopped and (until is None or time.monotonic() < until):
            self._hear(0.2)
            for seat in seats or []:
                if not seat.ready and self._the_seats.late(seat):
                    seat.problem, seat.problem_kind = "torch was not ready in time", "timed_out"
                    problem = seat.problem
                    self._the_seats.empty(seat)
                    seat.problem = problem

    def _hear(self, timeout: float) -> None:
        for colleague, message in self._crew.hear(timeout):
            if message is None:
                self._lost(colleague)
            else:
                self._understand(colleague, message)
        if self._cuda is None and time.monotonic() - self._began > CUDA_SECONDS:
            self._no_cuda("did not answer within %.0f s" % CUDA_SECONDS)
            self._crew.dismiss(self._cuda_door)
        self._progress.write()

    def _understand(self, colleague: Colleague, message: Message) -> None:
        say = message.get("say")
        if colleague is self._watcher:
            self._watched(say, message)
        elif say == "cuda":
            self._cuda = message
            for asking in self._cuda_waiting:
                asking.send({"answer": message})
            self._cuda_waiting.clear()
        elif say == "ready":
            seat = self._the_seats.find(colleague)
            if seat is not None:
                seat.pending -= 1
                seat.problem, seat.problem_kind = message["problem"], message.get("kind", "failed")
        elif self._task is not None:
            seat = self._the_seats.find(colleague)
            part = self._task.parts.get(seat.name) if seat is not None else None
            if part is not None and part.running:
                self._from_probe(self._task, part, colleague, message)

    def _no_cuda(self, why: str) -> None:
        nothing: Message = {"say": "cuda", "refusal": why, "version": None, "devices": [], "peers": []}
        self._understand(self._cuda_door, nothing)

    def _from_probe(self, task: Task, part: Part, colleague: Colleague, message: Message) -> None:
        say = message["say"]
        if say == "reading":
            self._keep(part, message["reading"])
        elif say == "series":
            self._ledger.add_series(message["metric"], message["subject"], message["t"], message["v"])
        elif say == "attach":
            self._ledger.attach(message["name"], message["text"])
        elif say == "cut":
            part.cut.append(message["what"])
        elif say == "note":
            part.notes.append(message["text"])
        elif say == "trace":
            self._ledger.attach("trace-%s-%s.txt" % (task.probe.key, part.seat.name), message["text"])
        elif say == "ask":
            self._asked(task, part, colleague, message)
        elif say == "end":
            part.end(message["status"], message["reason"])
            self._windows.close(part.seat.name)
            self._answer(task.meeting.leave(part.seat.name))

    def _keep(self, part: Part, wire: Dict[str, Any]) -> None:
        part.readings += 1
        reading = self._ledger.add(wire)
        self._progress.event("reading", **reading_on_the_wire(reading))
        if reading.source == "measured" and isinstance(reading.value, float):
            self._progress.figure(reading.metric, reading.value)

    def _asked(self, task: Task, part: Part, colleague: Colleague, message: Message) -> None:
        what, name = message["what"], part.seat.name
        if what in ("barrier", "agree"):
            self._answer(task.meeting.arrive(name, message["value"]))
        elif what == "turn":
            self._answer(task.meeting.want_turn(name))
        elif what == "turn_end":
            self._answer(task.meeting.end_turn(name))
        elif what == "sampling":
            self._windows.open(name, part.seat.gpu.index if part.seat.gpu else None)
            self._pace()
            colleague.send({"answer": None})
        elif what == "sampling_end":
            colleague.send({"answer": self._windows.close(name)})
            self._pace()
        elif what == "first_look":
            colleague.send({"answer": {str(index): usage for index, usage in self._first_look.items()}})
        elif what == "cuda":
            if self._cuda is None:
                self._cuda_waiting.append(colleague)
            else:
                colleague.send({"answer": self._cuda})

    def _answer(self, released: List[Tuple[str, Any]]) -> None:
        for name, answer in released:
            part = self._task.parts.get(name) if self._task else None
            if part is not None and part.seat.colleague is not None:
                part.seat.colleague.send({"answer": answer})

    def _pace(self) -> None:
        self._watcher.send({"do": "pace", "fast": sorted(self._windows.watched)})

    def _watched(self, say: Optional[str], message: Message) -> None:
        if say == "gpus":
            self._gpus = [GpuFacts(**gpu) for gpu in message["gpus"]]
            self._first_look = {int(index): usage for index, usage in message["usage"].items()}
            self._usage = dict(self._first_look)
            if message["refusal"] and message["refusal"] not in ("library_not_found", "no_binding"):
                self._say("the GPU driver says %s" % message["refusal"])
        elif say == "sample":
            self._sampled(message["gpu"], message["row"])
        elif say == "usage":
            self._usage[message["gpu"]] = message["usage"]
            self._somebody_came(message["gpu"], message["usage"])

    def _sampled(self, gpu: int, row: List[Optional[float]]) -> None:
        self._windows.add(gpu, row)
        load = row[7]
        if self._fixed is None and load is not None:
            self._loads.setdefault(gpu, []).append(load)

    def _somebody_came(self, gpu: int, usage: Dict[str, Any]) -> None:
        """A stranger on a GPU that we measure: make room at once."""

    def _lost(self, colleague: Colleague) -> None:
        """A process has ended by itself."""
        words = colleague.last_words()
        if colleague is self._cuda_door:
            if self._cuda is None:
                self._no_cuda(words)
            self._crew.dismiss(colleague)
            return
        if colleague is self._watcher:
            self._crew.dismiss(colleague)
            if self._gpus is None:
                self._gpus = []
            return
        seat = self._the_seats.find(colleague)
        part = self._task.parts.get(seat.name) if seat is not None and self._task is not None else None
        if part is not None and part.running and self._task is not None:
            self._abandon(self._task, [part], "failed", "the worker died: %s" % words)
        elif seat is not None:
            self._the_seats.empty(seat)
            seat.problem, seat.problem_kind = "the worker died: %s" % words, "failed"
        else:
            self._crew.dismiss(colleague)

    # --- writing down -----------------------------------------------------------------------------------------

    def _row(self, probe: Probe, subject: str, status: str, reason: Optional[str]) -> None:
        row = ProbeRow(probe.key, probe.method, subject, status, reason)
        self._finish_row(probe, "run", row)

    def _finish_row(self, probe: Probe, hook: str, row: ProbeRow) -> None:
        if hook == "finish":
            if row.status != "measured":
                self._amend(probe.key, row.reason or row.status)
            return
        self._ledger.rows.append(row)
        self._progress.event(
            "probe", probe=row.probe, subject=row.subject, status=row.status, reason=row.reason,
            seconds=row.seconds, percent=round(self._percent()),
        )  # fmt: skip

    def _amend(self, key: str, what: str) -> None:
        """Add to the last row of a probe what its second half could not do."""
        rows = self._ledger.rows
        for place in range(len(rows) - 1, -1, -1):
            if rows[place].probe == key:
                row = rows[place]
                cut = (*row.cut, "over the audit: %s" % what)
                rows[place] = ProbeRow(row.probe, row.method, row.subject, row.status, row.reason, row.seconds, cut)
                return

    def _known(self) -> str:
        path = os.path.join(self._scratch.path, "facts.json")
        if self._ledger.changed or not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(self._ledger.facts())
        return path

    def _percent(self) -> float:
        return 100.0 * min(1.0, self._behind / self._planned) if self._planned else 100.0

    def _starting(self) -> bool:
        return any(seat.pending for seat in self._the_seats.everyone)

    def _say(self, sentence: str) -> None:
        self._progress.event("note", text=sentence)

    def _record(self) -> bytes:
        total = time.monotonic() - self._began
        return self._ledger.document(
            self._gpus or [],
            tool=Tool("auditor-probe", auditor.__version__),
            run=self._wishes.run,
            server=self._wishes.server,
            profile=self._wishes.profile,
            device=self._device,
            started=self._started,
            nonce=self._wishes.nonce,
            seconds=_seconds(total, self._fixed or 0.0, self._measuring),
        )


def _seconds(total: float, fixed: float, measuring: float) -> Any:
    from auditor.records import Seconds

    return Seconds(round(total, 3), round(fixed, 3), round(measuring, 3))


def _seed(nonce: Optional[str]) -> int:
    """From the controller's nonce, so that results depend on it; else from the system."""
    text = nonce.encode() if nonce else secrets.token_bytes(16)
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1


def _has_torch() -> bool:
    import importlib.util

    return importlib.util.find_spec("torch") is not None
