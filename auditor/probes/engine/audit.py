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
import traceback
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Optional, Tuple

import auditor
from auditor.records import ProbeRow, Seconds, Tool

from . import budget, lookout, occupancy, torch_files, tree
from .budget import Budget
from .catalogue import Probe
from .channel import Message
from .colleague import Colleague
from .crew import Crew
from .gpu_facts import GpuFacts, same_address
from .guest import Scratch
from .ledger import Ledger
from .lookout import Lookout
from .progress import Progress, now
from .seats import Seat, Seats, environment
from .stage import Stage
from .task import Task
from .worker import one_line

LISTING_SECONDS = 60.0
CUDA_SECONDS = 45.0
_LOOK_SECONDS = 1.0
_FINISH_SECONDS = 5.0
_STOPPED_FINISH_SECONDS = 4.0
"""Who asked us to stop waits half a minute before he kills (module gpu_probe)."""


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
        self._started, self._seed = now(), _seed(wishes.nonce)
        self._crew = Crew(environment(), scratch.path)
        self._ledger = Ledger()
        self._lookout = Lookout(self._crew, progress, began)
        self._seats = Seats(self._crew)
        self._stage = Stage(self._seats, self._lookout, self._ledger, progress, self._hear)
        self._stage.answers = {"cuda": lambda: self._cuda, "first_look": self._first_look}
        self._budget = Budget(wishes.budget, began)
        self._plan = {p.key: budget.wanted(p, wishes.profile, wishes.soak_seconds) for p in wishes.probes}
        self._planned, self._behind = sum(self._plan.values()), 0.0
        self._cuda: Optional[Message] = None
        self._stopped: Optional[str] = None
        self._second_halves: List[Tuple[Probe, Seat, int]] = []
        self._fixed: Optional[float] = None
        self._measuring = 0.0
        self._device = "cpu"

    # --- the whole --------------------------------------------------------------------------------------------

    def run(self) -> bytes:
        """Do everything; returns the record."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._asked_to_stop)
        try:
            self._ask_the_driver()
            self._device = self._choose_device()
            self._seats.furnish(self._device, self._gpus)
            self._leave_alone_what_is_used()
            self._let_workers_start()
            for probe in self._wishes.probes:
                self._take(probe)
            self._second_half()
        except Exception as error:  # noqa: BLE001  # a fault of the engine costs what was not measured yet, no more
            self._fault(error)
        finally:
            self._crew.dismiss_all()
        return self._record()

    def _fault(self, error: Exception) -> None:
        self._ledger.attach("trace-engine.txt", traceback.format_exc(limit=-20))
        self._progress.event("note", text="the engine failed: %s" % one_line(error))
        told = {row.probe for row in self._ledger.rows}
        for probe in self._wishes.probes:
            if probe.key not in told:
                self._row(probe, "server", "failed", "the engine failed: %s" % one_line(error))

    def _asked_to_stop(self, number: int, frame: Any) -> None:
        self._stopped = self._stopped or "stopped by %s" % signal.Signals(number).name

    def _ask_the_driver(self) -> None:
        self._lookout.start()
        self._cuda_door = self._crew.hire("cuda", "cuda")
        limit = min(LISTING_SECONDS, self._budget.left)
        self._wait(lambda: self._lookout.gpus is not None, limit)
        if self._lookout.gpus is None:
            self._lookout.give_up(self._stopped or "no answer within %.0f s" % limit)
        refusal = self._lookout.refusal
        if refusal not in (None, "library_not_found", "no_binding"):
            self._progress.event("note", text="the GPU driver: %s" % refusal)

    @property
    def _gpus(self) -> List[GpuFacts]:
        return self._lookout.gpus or []

    def _choose_device(self) -> str:
        """A server with a GPU on its bus is a GPU server, also when its driver does not work."""
        self._on_bus = sum(function.is_gpu for function in tree.pci_functions("/"))
        nodes = [path for path in tree.found("/", "dev/nvidia[0-9]*") if path[len("/dev/nvidia") :].isdigit()]
        if self._wishes.device != "auto":
            return self._wishes.device
        return "cuda" if self._gpus or self._on_bus or nodes else "cpu"

    def _first_look(self) -> Message:
        return {str(index): look for index, look in self._lookout.first_look.items()}

    def _leave_alone_what_is_used(self) -> None:
        if os.environ.get("CUDA_VISIBLE_DEVICES"):
            self._wait(lambda: self._cuda is not None, CUDA_SECONDS)
        for seat in self._seats.gpus:
            if seat.gpu is None or seat.barred is not None:
                continue
            if os.environ.get("CUDA_VISIBLE_DEVICES") and not self._visible(seat.gpu):
                seat.barred = "not in CUDA_VISIBLE_DEVICES=%s" % os.environ["CUDA_VISIBLE_DEVICES"]
            elif not self._wishes.allow_busy:
                look = self._lookout.first_look.get(seat.gpu.index, {})
                owner = lookout.owners({0: look}).get(0)
                doubt = occupancy.hidden(look.get("memory"), [])
                if owner is not None:
                    seat.barred = "in use by %s" % owner
                elif doubt is not None:
                    seat.barred, seat.only = doubt, "time_slicing"

    def _visible(self, gpu: GpuFacts) -> bool:
        devices = (self._cuda or {}).get("devices", [])
        return not devices or any(same_address(device["pci"], gpu.pci) for device in devices)

    def _let_workers_start(self) -> None:
        """All at once and now, while the facts are read: importing torch is the fixed cost."""
        for probe in self._wishes.probes:
            if self._obstacle(probe) is None and probe.scope in ("gpu", "all") and probe.workers:
                for seat in self._seats.of(probe.scope):
                    if seat.bars(probe.key) is None:
                        self._seats.fill(seat, "torch" in probe.needs)

    def _let_the_server_have_torch(self) -> None:
        """The facts are read: who measures the host later can import torch while the workers do."""
        later = [probe for probe in self._wishes.probes if probe.key in self._plan and self._obstacle(probe) is None]
        if any(probe.scope == "server" and "torch" in probe.needs for probe in later):
            self._seats.fill(self._seats.server, torch=True)

    # --- one probe --------------------------------------------------------------------------------------------

    def _take(self, probe: Probe) -> None:
        """Run one probe, or say in its rows why not."""
        self._wanted = self._plan.pop(probe.key)
        self._progress.step(probe.key, self._percent())
        obstacle = self._obstacle(probe)
        if obstacle is not None:
            self._row(probe, "server", *obstacle)
        else:
            self._run(probe)
        self._behind += self._wanted

    def _obstacle(self, probe: Probe) -> Optional[Tuple[str, str]]:
        """Why this probe cannot run anywhere here: status and reason."""
        if self._stopped:
            return "timed_out", self._stopped
        if self._device not in probe.devices:
            return "not_applicable", "needs an NVIDIA GPU" if self._device == "cpu" else "not for a GPU server"
        if self._device == "cuda" and not self._gpus and probe.devices != ("cuda", "cpu"):
            return self._no_gpu()
        if self._device == "cuda" and not self._gpus and probe.scope != "server":
            return self._no_gpu()
        if "torch" in probe.needs:
            version, cuda = torch_files.build()
            if version is None:
                return "skipped", "no torch in %s: install it there, or start the probe with a Python that has it" % (
                    sys.executable
                )
            if cuda is None and self._device == "cuda" and probe.scope != "server":
                return "skipped", "torch %s in %s is built without CUDA" % (version, sys.executable)
        if probe.scope == "pair" and len(self._gpus) < 2:
            return "not_applicable", "needs two GPUs"
        if self._device == "cuda" and (probe.scope in ("all", "pair") or (probe.scope == "server" and probe.heavy)):
            for seat in self._seats.gpus:
                bar = seat.bars(probe.key)
                if bar is not None and (probe.scope != "server" or bar.startswith("in use")):
                    return "skipped", "%s: %s" % (seat.subject, bar)
        return None

    def _no_gpu(self) -> Tuple[str, str]:
        refusal = self._lookout.refusal or "it lists none"
        if self._on_bus:
            return "failed", "%d NVIDIA GPUs on the bus, but the driver cannot be used: %s" % (self._on_bus, refusal)
        return "failed", "no NVIDIA GPU can be used here: %s" % refusal

    def _run(self, probe: Probe) -> None:
        if not probe.workers:
            self._lookout.suspended = True  # a diagnostic's own processes may be on the GPUs
            for seat in self._seats.everyone:
                if seat is not self._seats.server:
                    self._seats.empty(seat)
        seats = self._ready_seats(probe)
        share = self._budget.share(self._wanted, self._wanted + sum(self._plan.values()))
        if seats and (share <= 0 or self._stopped):
            status, reason = self._no_time()
            for seat in seats:
                self._row(probe, _subject(probe, seat), status, reason)
        elif seats:
            self._perform(probe, "run", seats, share, share + budget.grace(probe, share))
        if not probe.workers:
            self._lookout.suspended = False

    def _ready_seats(self, probe: Probe) -> List[Seat]:
        """The seats that can run it now; each that cannot gets its row."""
        torch = "torch" in probe.needs
        seats = [seat for seat in self._seats.of(probe.scope) if not self._barred(probe, seat)]
        for seat in seats:
            self._seats.fill(seat, torch)
        if probe.heavy and self._lookout.at_rest:
            self._let_the_server_have_torch()
        self._wait(lambda: all(seat.ready or seat.colleague is None for seat in seats), None, seats)
        if probe.heavy:
            self._doubt(seats)
        able = [seat for seat in seats if not self._barred(probe, seat) and not self._unready(probe, seat, torch)]
        if probe.scope == "all" and len(able) < len(self._seats.all):
            self._row(probe, "server", "failed", "not all workers are there")
            return []
        return able

    def _barred(self, probe: Probe, seat: Seat) -> bool:
        reason = seat.bars(probe.key)
        if reason is not None:
            self._row(probe, _subject(probe, seat), seat.barred_status, reason)
        return reason is not None

    def _unready(self, probe: Probe, seat: Seat, torch: bool) -> bool:
        if self._stopped:
            self._row(probe, _subject(probe, seat), "timed_out", self._stopped)
        elif seat.colleague is None or (torch and seat.problem is not None):
            self._row(probe, _subject(probe, seat), seat.problem_status, seat.problem or "its worker has gone")
        else:
            return False
        return True

    def _doubt(self, seats: List[Seat]) -> None:
        """Before each load: was there load while our workers started, has memory gone that is not ours?"""
        on_gpus = [seat for seat in seats if seat.gpu is not None and seat.barred is None]
        if self._wishes.allow_busy or not on_gpus:
            return
        before = self._lookout.ask_for_a_look()
        self._wait(lambda: self._lookout.looks > before, _LOOK_SECONDS)
        for seat in on_gpus:
            if seat.gpu is not None and seat.barred is None:
                loads = self._lookout.load_at_rest(seat.gpu.index) if self._lookout.at_rest else []
                doubt = occupancy.hidden(
                    self._lookout.memory_of_others(seat.gpu.index, self._seats.gpu_processes), loads
                )
                if doubt is not None:
                    seat.barred, seat.only = doubt, "time_slicing"

    def _no_time(self) -> Tuple[str, str]:
        if self._stopped:
            return "timed_out", self._stopped
        total = self._budget.total or 0.0
        if self._measuring > 0.0:
            return "skipped", "the budget of %g s was used up" % total
        took = time.monotonic() - self._began
        reason = "the budget of %g s is shorter than the start, which took %.1f s: give more" % (total, took)
        if not self._too_short:
            self._too_short = True
            self._progress.sentence(reason)
        return "skipped", reason

    _too_short = False

    def _perform(self, probe: Probe, hook: str, seats: List[Seat], share: float, limit: float) -> None:
        """`share` is the probe's own time, `limit` when its workers are taken for hung."""
        begun = time.monotonic()
        if self._fixed is None and (probe.heavy or not any(seat.pending for seat in self._seats.everyone)):
            self._fixed = begun - self._began
        if probe.heavy:
            self._lookout.measuring()
        task = Task(probe, hook, begun + share, begun + limit)
        task.start(seats, [_subject(probe, seat) for seat in seats])
        if hook == "run":
            for subject in dict.fromkeys(part.subject for part in task.parts.values()):
                self._progress.event(
                    "probe", probe=probe.key, subject=subject, status="running", percent=round(self._percent())
                )
        self._step_began = begun
        self._stage.run(task, self._commands(task, seats), lambda: self._stopped)
        if self._fixed is not None:
            self._measuring += time.monotonic() - begun
        for row in task.rows():
            self._tell(probe, hook, row)
        if hook == "run" and probe.finishes and any(part.status == "measured" for part in task.parts.values()):
            self._second_halves += [(probe, seat, seat.served) for seat in seats[:1]]

    def _commands(self, task: Task, seats: List[Seat]) -> Dict[str, Message]:
        probe = task.probe
        common = {
            "key": probe.key,
            "scope": probe.scope,
            "profile": self._wishes.profile,
            "device": self._device,
            "deadline": task.deadline,
            "seed": self._seed,
            "gpus": [gpu.wire() for gpu in self._shown(probe)],
            "ranks": len(seats),
            "path": self._wishes.path,
            "soak_seconds": self._wishes.soak_seconds,
            "rendezvous": os.path.join(self._scratch.fresh("rendezvous"), "store") if probe.scope == "all" else None,
            "known": self._known(),
        }
        commands = {}
        for rank, seat in enumerate(seats):
            assignment = {
                **common,
                "subject": _subject(probe, seat),
                "directory": self._scratch.fresh("probe-%s" % seat.name),
                "gpu": seat.gpu.index if seat.gpu else None,
                "rank": rank,
            }
            commands[seat.name] = {"do": "run", "hook": task.hook, "assignment": assignment}
        return commands

    def _shown(self, probe: Probe) -> List[GpuFacts]:
        """All GPUs; for the process that sees several only those it may use."""
        if probe.scope != "pair":
            return self._gpus
        return [seat.gpu for seat in self._seats.gpus if seat.gpu is not None and seat.barred is None]

    def _second_half(self) -> None:
        """After all probes: the hooks that compare with the beginning, by the processes that saw it."""
        stopped, self._stopped = self._stopped, None
        for probe, seat, served in self._second_halves:
            if seat.colleague is None or seat.served != served:
                self._amend(probe.key, "its process was replaced: nothing to compare with")
            elif self._stopped:
                self._amend(probe.key, self._stopped)
            else:
                share = _FINISH_SECONDS + probe.seconds.get(self._wishes.profile, 0.0)
                limit = _STOPPED_FINISH_SECONDS if stopped else share + budget.grace(probe, share)
                self._perform(probe, "finish", [seat], min(share, limit), limit)
        self._stopped = self._stopped or stopped
        if self._fixed is None:
            self._fixed = time.monotonic() - self._began

    # --- hearing ----------------------------------------------------------------------------------------------

    def _wait(self, done: Callable[[], bool], limit: Optional[float], seats: Optional[List[Seat]] = None) -> None:
        """Hear until `done`; at most `limit` seconds. A seat that is late for too long is given up."""
        until = None if limit is None else time.monotonic() + limit
        while not done() and not self._stopped and (until is None or time.monotonic() < until):
            self._hear(0.2)
            for seat in seats or []:
                if seat.late:
                    self._seats.false_start(seat, "torch was not ready in time", "timed_out")

    def _hear(self, timeout: float) -> None:
        for colleague, message in self._crew.hear(timeout):
            if message is None:
                self._lost(colleague)
            else:
                self._understand(colleague, message)
        waited = time.monotonic() - self._began
        if self._cuda is None and (waited > CUDA_SECONDS or self._budget.left < 0):
            self._no_cuda("no answer within %.0f s" % waited)
        self._progress.step(None, self._percent())

    def _understand(self, colleague: Colleague, message: Message) -> None:
        if self._lookout.is_mine(colleague):
            alarm = self._lookout.understand(message, self._seats.gpu_processes)
            if alarm is not None and not (self._wishes.allow_busy and alarm.status == "skipped"):
                self._stage.alarm(alarm)
        elif message.get("say") == "cuda":
            self._cuda = message
        elif message.get("say") == "ready":
            seat = self._seats.find(colleague)
            if seat is not None:
                self._seats.prepared(seat, message["problem"], message.get("kind", "failed"))
        else:
            self._stage.understand(colleague, message)

    def _no_cuda(self, why: str) -> None:
        self._cuda = {"say": "cuda", "refusal": why, "version": None, "devices": [], "peers": []}
        self._crew.dismiss(self._cuda_door)

    def _lost(self, colleague: Colleague) -> None:
        """A process has ended by itself."""
        if colleague is self._cuda_door:
            if self._cuda is None:
                self._no_cuda("its process died: %s" % colleague.last_words())
            else:
                self._crew.dismiss(colleague)
        elif self._lookout.is_mine(colleague):
            self._lookout.lost(colleague)
        elif not self._stage.lost(colleague):
            seat = self._seats.find(colleague)
            if seat is not None:
                self._seats.false_start(seat, "its worker died: %s" % colleague.last_words(), "failed")
            else:
                self._crew.dismiss(colleague)

    # --- writing down -----------------------------------------------------------------------------------------

    def _row(self, probe: Probe, subject: str, status: str, reason: Optional[str]) -> None:
        if not any(row.probe == probe.key and row.subject == subject for row in self._ledger.rows):
            self._tell(probe, "run", ProbeRow(probe.key, probe.method, subject, status, reason))

    def _tell(self, probe: Probe, hook: str, row: ProbeRow) -> None:
        if hook == "finish":
            if row.status != "measured":
                self._amend(probe.key, row.reason or row.status)
            return
        self._ledger.rows.append(row)
        self._progress.event(
            "probe", probe=row.probe, subject=row.subject, status=row.status, reason=row.reason, seconds=row.seconds,
            percent=round(self._percent()),
        )  # fmt: skip

    def _amend(self, key: str, what: str) -> None:
        """Add to the last row of a probe what its second half could not do."""
        rows = self._ledger.rows
        place = max(place for place, row in enumerate(rows) if row.probe == key)
        rows[place] = replace(rows[place], cut=(*rows[place].cut, "over the audit: %s" % what))

    def _known(self) -> str:
        path = os.path.join(self._scratch.path, "facts.json")
        if self._ledger.changed or not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(self._ledger.facts())
        return path

    def _percent(self) -> float:
        running = min(self._wanted, max(0.0, time.monotonic() - self._step_began))
        return 100.0 * min(1.0, (self._behind + running) / self._planned) if self._planned else 100.0

    _wanted = 0.0
    _step_began = float("inf")

    def _record(self) -> bytes:
        total = time.monotonic() - self._began
        return self._ledger.document(
            self._gpus,
            tool=Tool("auditor-probe", auditor.__version__),
            run=self._wishes.run,
            server=self._wishes.server,
            profile=self._wishes.profile,
            device=self._device,
            started=self._started,
            nonce=self._wishes.nonce,
            seconds=Seconds(round(total, 3), round(self._fixed or 0.0, 3), round(self._measuring, 3)),
        )


def _subject(probe: Probe, seat: Seat) -> str:
    return seat.subject if probe.scope == "gpu" else "server"


def _seed(nonce: Optional[str]) -> int:
    """From the controller's nonce, so that results depend on it; else from the system."""
    text = nonce.encode() if nonce else secrets.token_bytes(16)
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1
