"""Hears all processes of the audit and hands on what they say: one loop, in the parent, that never blocks for long."""

from __future__ import annotations

import signal
import time
from typing import Any, Callable, List, Optional

from . import stop
from .channel import Message
from .colleague import Colleague
from .crew import Crew
from .gpu_facts import GpuFacts
from .ledger import Ledger
from .lookout import Lookout
from .progress import Progress
from .seats import Seat, Seats
from .stage import Stage

LISTING_SECONDS = 60.0
CUDA_SECONDS = 45.0


class Switchboard:
    """The processes, by what they are for: lookout, seats, stage, and CUDA's door."""

    def __init__(
        self, crew: Crew, ledger: Ledger, progress: Progress, began: float, ends: float, allow_busy: bool
    ) -> None:
        self.crew = crew
        self.lookout = Lookout(crew, progress, began)
        self.seats = Seats(crew)
        self.stage = Stage(self.seats, self.lookout, ledger, progress, self.hear)
        self.stage.answers = {"cuda": lambda: self.cuda, "first_look": self._first_look}
        self.cuda: Optional[Message] = None
        self.stopped: Optional[str] = None
        self.each_round: Callable[[], None] = lambda: None
        self._progress, self._began, self._ends, self._allow_busy = progress, began, ends, allow_busy

    @property
    def gpus(self) -> List[GpuFacts]:
        """The GPUs the driver lists."""
        return self.lookout.gpus or []

    def listen_to_signals(self) -> None:
        """From now on a signal asks the audit to end, with a record."""
        for number in stop.SIGNALS:
            signal.signal(number, self._asked_to_stop)
        earlier = stop.heard()
        if earlier is not None:
            self._asked_to_stop(earlier, None)

    def _asked_to_stop(self, number: int, frame: Any) -> None:
        when = "" if self.stage.began else " before anything was measured"
        self.stopped = self.stopped or "stopped by %s%s" % (signal.Signals(number).name, when)

    def ask_the_driver(self) -> None:
        """Which GPUs there are, by NVML now and by CUDA when it has answered."""
        if self.stopped:
            self.lookout.give_up(self.stopped)
            return
        self.lookout.start()
        self._cuda_door = self.crew.hire("cuda", "cuda")
        limit = min(LISTING_SECONDS, self._ends - time.monotonic())
        self.wait(lambda: self.lookout.gpus is not None, limit)
        if self.lookout.gpus is None:
            self.lookout.give_up(self.stopped or "no answer within %.0f s" % limit)
        refusal = self.lookout.refusal
        if refusal not in (None, "library_not_found", "no_binding"):
            self._progress.event("note", text="the GPU driver: %s" % refusal)

    def _first_look(self) -> Message:
        return {str(index): look for index, look in self.lookout.first_look.items()}

    def wait(self, done: Callable[[], bool], limit: Optional[float], seats: Optional[List[Seat]] = None) -> None:
        """Hear until `done`; at most `limit` seconds. A seat that is late for too long is given up."""
        until = None if limit is None else time.monotonic() + limit
        while not done() and not self.stopped and (until is None or time.monotonic() < until):
            self.hear(0.2)
            for seat in seats or []:
                if seat.late:
                    self.seats.false_start(seat, "torch was not ready in time", "timed_out")

    def hear(self, timeout: float) -> None:
        """One round: what was said within `timeout` seconds."""
        for colleague, message in self.crew.hear(timeout):
            if message is None:
                self._lost(colleague)
            else:
                self._understand(colleague, message)
        moment = time.monotonic()
        if self.cuda is None and (moment > self._began + CUDA_SECONDS or moment > self._ends):
            self._no_cuda("no answer within %.0f s" % (moment - self._began))
        self.each_round()

    def _understand(self, colleague: Colleague, message: Message) -> None:
        if self.lookout.is_mine(colleague):
            alarm = self.lookout.understand(message, self.seats.gpu_processes)
            if alarm is not None and not (self._allow_busy and alarm.status == "skipped"):
                self.stage.alarm(alarm)
        elif message.get("say") == "cuda":
            self.cuda = message
        elif message.get("say") == "ready":
            seat = self.seats.find(colleague)
            if seat is not None:
                self.seats.prepared(seat, message["problem"], message.get("kind", "failed"))
        else:
            self.stage.understand(colleague, message)

    def _no_cuda(self, why: str) -> None:
        self.cuda = {"say": "cuda", "refusal": why, "version": None, "devices": [], "peers": []}
        self.crew.dismiss(self._cuda_door)

    def _lost(self, colleague: Colleague) -> None:
        """A process has ended by itself."""
        if colleague is self._cuda_door:
            if self.cuda is None:
                self._no_cuda("its process died: %s" % colleague.last_words())
            else:
                self.crew.dismiss(colleague)
        elif self.lookout.is_mine(colleague):
            self.lookout.lost(colleague)
        elif not self.stage.lost(colleague):
            seat = self.seats.find(colleague)
            if seat is not None:
                self.seats.false_start(seat, "its worker died: %s" % colleague.last_words(), "failed")
            else:
                self.crew.dismiss(colleague)
