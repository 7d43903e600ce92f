"""The audit of one server: starts the processes, runs the probes in order, keeps what they tell, ends everything.

Whatever happens to a process becomes a row; the record is written in any case, also after SIGTERM.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
import traceback
from dataclasses import dataclass, replace
from typing import Dict, List, Optional, Tuple

import auditor
from auditor.records import ProbeRow, Seconds, Tool

from . import budget
from .budget import Budget
from .catalogue import Probe
from .channel import Message
from .crew import Crew
from .guest import Scratch
from .ledger import Ledger
from .obstacles import Obstacles
from .progress import Progress, now
from .seats import Seat, environment
from .switchboard import Switchboard
from .task import Task
from .worker import one_line

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
        self._started, self._seed = now(), seed(wishes.nonce)
        self._ledger, self._budget = Ledger(), Budget(wishes.budget, began)
        crew = Crew(environment(), scratch.path)
        self._board = Switchboard(crew, self._ledger, progress, began, self._budget.ends, wishes.allow_busy)
        self._board.each_round = self._show
        self._obstacles = Obstacles(self._board, wishes.allow_busy)
        self._plan = {p.key: budget.wanted(p, wishes.profile, wishes.soak_seconds) for p in wishes.probes}
        self._planned, self._behind, self._wanted = sum(self._plan.values()), 0.0, 0.0
        self._second_halves: List[Tuple[Probe, Seat, int]] = []
        self._fixed: Optional[float] = None
        self._measuring = 0.0
        self._step_began: Optional[float] = None
        self._too_short = False

    # --- the whole --------------------------------------------------------------------------------------------

    def run(self) -> bytes:
        """Do everything; returns the record."""
        board = self._board
        board.listen_to_signals()
        try:
            board.ask_the_driver()
            board.seats.furnish(self._obstacles.choose_device(self._wishes.device), board.gpus)
            self._obstacles.leave_alone_what_is_used()
            self._let_workers_start()
            for probe in self._wishes.probes:
                self._take(probe)
            self._second_half()
        except Exception as error:  # noqa: BLE001  # a fault of the engine costs what was not measured yet, no more
            self._fault(error)
        finally:
            board.crew.dismiss_all()
        return self._record()

    def _fault(self, error: Exception) -> None:
        self._ledger.attach("trace-engine.txt", traceback.format_exc(limit=-20))
        self._progress.event("note", text="the engine failed: %s" % one_line(error))
        told = {row.probe for row in self._ledger.rows}
        for probe in self._wishes.probes:
            if probe.key not in told:
                self._row(probe, "server", "failed", "the engine failed: %s" % one_line(error))

    def _let_workers_start(self) -> None:
        """All at once and now, while the facts are read: importing torch is the fixed cost."""
        for probe in self._wishes.probes:
            if self._obstacles.of(probe) is None and probe.scope in ("gpu", "all") and probe.workers:
                for seat in self._board.seats.of(probe.scope):
                    if seat.bars(probe.key) is None:
                        self._board.seats.fill(seat, "torch" in probe.needs)

    def _let_the_server_have_torch(self) -> None:
        """The facts are read: who measures the host later can import torch while the workers do."""
        seats = self._board.seats
        later = [p for p in self._wishes.probes if p.key in self._plan and not p.on_gpus and "torch" in p.needs]
        if any(seats.of(probe.scope) == [seats.server] and self._obstacles.of(probe) is None for probe in later):
            seats.fill(seats.server, torch=True)

    # --- one probe --------------------------------------------------------------------------------------------

    def _take(self, probe: Probe) -> None:
        """Run one probe, or say in its rows why not."""
        self._wanted, self._step_began = self._plan.pop(probe.key), None
        self._progress.step(probe.key, self._percent())
        obstacle = self._obstacles.of(probe)
        if obstacle is not None:
            self._row(probe, "server", *obstacle)
        else:
            self._run(probe)
        self._behind += self._wanted

    def _run(self, probe: Probe) -> None:
        if not probe.workers:
            self._board.lookout.suspended = True  # a diagnostic's own processes may be on the GPUs
            self._board.seats.empty_all_but_the_server()
        seats = self._able_seats(probe)
        share = self._budget.share(self._wanted, self._wanted + sum(self._plan.values()))
        if seats and (share <= 0 or self._board.stopped):
            status, reason = self._no_time()
            for seat in seats:
                self._row(probe, _subject(probe, seat), status, reason)
        elif seats:
            self._perform(probe, "run", seats, share, share + budget.grace(probe, share))
        if not probe.workers:
            self._board.lookout.suspended = False

    def _able_seats(self, probe: Probe) -> List[Seat]:
        """The seats that can run it now; each that cannot gets its row."""
        torch = "torch" in probe.needs
        seats = [seat for seat in self._board.seats.of(probe.scope) if not self._barred(probe, seat)]
        for seat in seats:
            self._board.seats.fill(seat, torch)
        if probe.heavy and self._board.lookout.at_rest:
            self._let_the_server_have_torch()
        self._board.wait(lambda: all(seat.ready or seat.colleague is None for seat in seats), None, seats)
        if probe.heavy and probe.on_gpus:
            self._obstacles.doubt(seats)
        able = [seat for seat in seats if not self._barred(probe, seat) and not self._unready(probe, seat, torch)]
        if probe.scope == "all" and len(able) < len(self._board.seats.all):
            self._row(probe, "server", "failed", "not all workers are there")
            return []
        return able

    def _barred(self, probe: Probe, seat: Seat) -> bool:
        reason = seat.bars(probe.key)
        if reason is not None:
            self._row(probe, _subject(probe, seat), seat.barred_status, reason)
        return reason is not None

    def _unready(self, probe: Probe, seat: Seat, torch: bool) -> bool:
        if self._board.stopped:
            self._row(probe, _subject(probe, seat), "timed_out", self._board.stopped)
        elif seat.colleague is None or (torch and seat.problem is not None):
            self._row(probe, _subject(probe, seat), seat.problem_status, seat.problem or "its worker has gone")
        else:
            return False
        return True

    def _no_time(self) -> Tuple[str, str]:
        if self._board.stopped:
            return "timed_out", self._board.stopped
        total = self._budget.total or 0.0
        if self._measuring > 0.0:
            return "skipped", "the budget of %g s was used up" % total
        took = time.monotonic() - self._began
        reason = "the budget of %g s is shorter than the start, which took %.1f s: give more" % (total, took)
        if not self._too_short:
            self._too_short = True
            self._progress.sentence(reason)
        return "skipped", reason

    def _perform(self, probe: Probe, hook: str, seats: List[Seat], share: float, limit: float) -> None:
        """`share` is the probe's own time, `limit` when its workers are taken for hung."""
        begun = self._step_began = time.monotonic()
        if self._fixed is None and (probe.heavy or not self._board.seats.starting):
            self._fixed = begun - self._began
        if probe.heavy:
            self._board.lookout.measuring()
        task = Task(probe, hook, begun + share, begun + limit)
        task.start(seats, [_subject(probe, seat) for seat in seats])
        if hook == "run":
            for subject in dict.fromkeys(part.subject for part in task.parts.values()):
                self._progress.event(
                    "probe", probe=probe.key, subject=subject, status="running", percent=round(self._percent())
                )
        self._board.stage.run(task, self._commands(task, seats), lambda: self._board.stopped)
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
            "device": self._obstacles.device,
            "deadline": task.deadline,
            "seed": self._seed,
            # The process that sees several GPUs is told of those it may use.
            "gpus": [gpu.wire() for gpu in (self._board.seats.free if probe.scope == "pair" else self._board.gpus)],
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

    def _second_half(self) -> None:
        """After all probes: the hooks that compare with the beginning, by the processes that saw it."""
        stopped, self._board.stopped = self._board.stopped, None
        for probe, seat, served in self._second_halves:
            if seat.colleague is None or seat.served != served:
                self._amend(probe.key, "its process was replaced: nothing to compare with")
            elif self._board.stopped:
                self._amend(probe.key, self._board.stopped)
            else:
                share = _FINISH_SECONDS + probe.seconds.get(self._wishes.profile, 0.0)
                limit = _STOPPED_FINISH_SECONDS if stopped else share + budget.grace(probe, share)
                self._perform(probe, "finish", [seat], min(share, limit), limit)
        self._board.stopped = self._board.stopped or stopped
        if self._fixed is None:
            self._fixed = time.monotonic() - self._began

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

    def _show(self) -> None:
        self._progress.step(None, self._percent())

    def _percent(self) -> float:
        """Of the planned seconds, how many are behind us."""
        running = 0.0 if self._step_began is None else min(self._wanted, time.monotonic() - self._step_began)
        return 100.0 * min(1.0, (self._behind + running) / self._planned) if self._planned else 100.0

    def _record(self) -> bytes:
        total = time.monotonic() - self._began
        return self._ledger.document(
            self._board.gpus,
            tool=Tool("auditor-probe", auditor.__version__),
            run=self._wishes.run,
            server=self._wishes.server,
            profile=self._wishes.profile,
            device=self._obstacles.device,
            started=self._started,
            nonce=self._wishes.nonce,
            seconds=Seconds(round(total, 3), round(self._fixed or 0.0, 3), round(self._measuring, 3)),
        )


def _subject(probe: Probe, seat: Seat) -> str:
    return seat.subject if probe.scope == "gpu" else "server"


def seed(nonce: Optional[str]) -> int:
    """From the controller's nonce, so that results depend on it; else from the system."""
    text = nonce.encode() if nonce else secrets.token_bytes(16)
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1
