"""One probe on stage: its workers run it, ask, wait for each other, and end, by themselves or because they must."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from .channel import Message
from .colleague import Colleague
from .context import reading_on_the_wire
from .ledger import Ledger
from .lookout import Alarm, Lookout
from .progress import Progress
from .seats import Seats
from .task import Part, Task

STOP_GRACE = 6.0


class Stage:
    """Runs one task at a time. `hear` lets the parent's loop go round once."""

    def __init__(
        self, seats: Seats, lookout: Lookout, ledger: Ledger, progress: Progress, hear: Callable[[float], None]
    ) -> None:
        self._seats, self._lookout, self._ledger, self._progress = seats, lookout, ledger, progress
        self._hear = hear
        self._task: Optional[Task] = None
        self.answers: Dict[str, Callable[[], Optional[Message]]] = {}
        self._waiting: List[Tuple[Colleague, str]] = []
        self.began = False

    def run(self, task: Task, commands: Dict[str, Message], stopped: Callable[[], Optional[str]]) -> None:
        """Give each seat its command and see the task through."""
        self._task, self.began = task, True
        for name, command in commands.items():
            colleague = task.parts[name].seat.colleague
            if colleague is not None:
                colleague.send(command)
        asked = None
        while task.running:
            self._hear(0.2)
            self._answer_late()
            moment = time.monotonic()
            if stopped() and asked is None:
                asked = moment
                for part in task.running:
                    if part.seat.colleague is not None:
                        part.seat.colleague.ask_to_end()
            if asked is not None and moment > asked + STOP_GRACE:
                self._abandon(task.running, "timed_out", stopped(), refill=False)
            elif moment > task.hard and task.running:
                limit = task.hard - min(part.began for part in task.running)
                self._abandon(task.running, "timed_out", "did not end within %.0f s: its worker was ended" % limit)
        if asked is not None:
            for part in task.parts.values():
                if part.status == "measured":
                    part.end("timed_out", stopped())
        self._task = None
        self._waiting.clear()
        self._replace_the_shaken(task)

    def _replace_the_shaken(self, task: Task) -> None:
        """A CUDA error stays with its process: after a failure the next probe gets a fresh one."""
        for part in task.parts.values():
            shaken = part.status == "failed" and part.seat.served == part.served and part.seat.barred is None
            if shaken and part.seat.gpu is not None and "torch" in task.probe.needs:
                self._seats.empty(part.seat)
                self._lookout.workers_changed()
                self._seats.fill(part.seat, torch=True)

    def _abandon(self, parts: List[Part], status: str, reason: Optional[str], refill: bool = True) -> None:
        """End the workers of these parts; a collective cannot go on without any of them."""
        task = self._task
        if task is None:
            return
        if task.probe.scope == "all":
            parts = task.running
        for part in parts:
            part.end(status, reason)
            self._lookout.windows.close(part.seat.name)
            stuck = self._seats.empty(part.seat)
            if stuck is not None:
                part.reason = "%s; %s" % (reason, stuck)
        self._lookout.workers_changed()
        for part in parts:
            self._release(task.meeting.leave(part.seat.name))
        for part in parts if refill else ():  # the next probe finds a fresh worker that started meanwhile
            if part.seat.barred is None:
                self._seats.fill(part.seat, "torch" in task.probe.needs)
        self._lookout.pace()

    def lost(self, colleague: Colleague) -> bool:
        """A worker has ended by itself; False where it had nothing to do on stage."""
        part = self._part(colleague)
        if part is None:
            return False
        self._abandon([part], "failed", "the worker died: %s" % colleague.last_words())
        return True

    def alarm(self, alarm: Alarm) -> None:
        """A GPU is unfit from now on: whatever runs on it ends at once, and no process of ours stays there."""
        task = self._task
        hit = [part for part in task.running if _is_on(alarm.gpu, task, part)] if task is not None else []
        for seat in self._seats.gpus:
            if seat.gpu is not None and seat.gpu.index == alarm.gpu and (seat.barred is None or seat.only):
                seat.barred, seat.barred_status, seat.only = alarm.reason, alarm.status, None
                if not any(part.seat is seat for part in hit):
                    self._seats.empty(seat)
        self._seats.empty_pair_unless_running(bool(hit))
        if hit:
            self._abandon(hit, alarm.status, alarm.reason)

    def understand(self, colleague: Colleague, message: Message) -> None:
        """What a worker says while it runs."""
        part, task = self._part(colleague), self._task
        if part is None or task is None:
            return
        say = message.get("say")
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
            self._lookout.windows.close(part.seat.name)
            self._release(task.meeting.leave(part.seat.name))

    def _part(self, colleague: Colleague) -> Optional[Part]:
        """The running part of a worker."""
        for part in self._task.running if self._task is not None else []:
            if part.seat.colleague is colleague:
                return part
        return None

    def _keep(self, part: Part, wire: Message) -> None:
        part.readings += 1
        reading = self._ledger.add(wire)
        self._progress.event("reading", **reading_on_the_wire(reading))
        if reading.source == "measured" and isinstance(reading.value, float):
            self._progress.figure(reading.metric, reading.value)

    def _asked(self, task: Task, part: Part, colleague: Colleague, message: Message) -> None:
        what, name = message["what"], part.seat.name
        if what in ("barrier", "agree"):
            self._release(task.meeting.arrive(name, message["value"]))
        elif what == "turn":
            self._release(task.meeting.want_turn(name))
        elif what == "turn_end":
            self._release(task.meeting.end_turn(name))
        elif what == "sampling":
            self._lookout.windows.open(name, part.seat.gpu.index if part.seat.gpu else None)
            self._lookout.pace()
            colleague.send({"answer": None})
        elif what == "sampling_end":
            colleague.send({"answer": self._lookout.windows.close(name)})
            self._lookout.pace()
        else:
            self._waiting.append((colleague, what))
            self._answer_late()

    def _answer_late(self) -> None:
        """Questions about what is not known yet (CUDA's view) wait here."""
        for colleague, what in list(self._waiting):
            known = self.answers.get(what)
            answer: Any = {} if known is None else known()
            if answer is not None:
                colleague.send({"answer": answer})
                self._waiting.remove((colleague, what))

    def _release(self, released: List[Tuple[str, Any]]) -> None:
        for name, answer in released:
            part = self._task.parts.get(name) if self._task is not None else None
            if part is not None and part.seat.colleague is not None:
                part.seat.colleague.send({"answer": answer})


def _is_on(gpu: int, task: Task, part: Part) -> bool:
    """Whether this part has a process on that GPU: its own worker, or the process that sees all GPUs."""
    return task.probe.on_gpus if part.seat.gpu is None else part.seat.gpu.index == gpu
