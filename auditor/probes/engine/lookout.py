"""The parent's view of the GPUs through the watcher: which there are, their samples, who uses them, when to stop.

Whatever makes a GPU unfit while we measure (it was lost, somebody came, it gets too hot) is an alarm.
"""

from __future__ import annotations

import os
import time
from typing import Dict, List, NamedTuple, Optional, Set

from . import container, occupancy, process_tree
from .channel import Message
from .colleague import Colleague
from .crew import Crew
from .gpu_facts import GpuFacts
from .occupancy import Tenants
from .progress import Progress
from .samples import Windows

_TOO_HOT_MARGIN = 2.0
_MOST_WATCHERS = 3
_ON_THEIR_WAY_OUT = 5.0


class Alarm(NamedTuple):
    """This GPU is not measured any further; `status` and `reason` are for the rows."""

    gpu: int
    status: str
    reason: str


class Lookout:
    """Knows the GPUs once the watcher has listed them."""

    def __init__(self, crew: Crew, progress: Progress, began: float) -> None:
        self._crew, self._progress, self._began = crew, progress, began
        self.gpus: Optional[List[GpuFacts]] = None
        self.refusal: Optional[str] = None
        self.first_look: Dict[int, Message] = {}
        self.windows = Windows()
        self.suspended = False
        self.looks = 0
        self._memory: Dict[int, Optional[float]] = {}
        self._limits: Dict[int, float] = {}
        self._loads: Dict[int, List[float]] = {}
        self._tenants: Dict[int, Tenants] = {}
        self._told: Dict[int, float] = {}
        self._watcher: Optional[Colleague] = None
        self._watchers = 0
        self.at_rest = True
        self._last_leave = float("-inf")
        self._aliens: Set[int] = set()
        self._own: Set[int] = set()
        self._exact = container.first_pid_namespace("/")

    def start(self) -> None:
        """Send a watcher out; a new one where the last has died, but not for ever."""
        if self._watchers < _MOST_WATCHERS:
            self._watchers += 1
            name = "watcher" if self._watchers == 1 else "watcher.%d" % self._watchers
            self._watcher = self._crew.hire(name, "watcher")

    def give_up(self, why: str) -> None:
        """The driver does not list its GPUs; the audit goes on without."""
        self.gpus, self.refusal = [], why
        if self._watcher is not None:
            self._crew.dismiss(self._watcher)
            self._watcher = None

    def is_mine(self, colleague: Colleague) -> bool:
        """Whether this process is the watcher."""
        return colleague is self._watcher

    def lost(self, colleague: Colleague) -> None:
        """The watcher has died."""
        words = colleague.last_words()
        self._crew.dismiss(colleague)
        self._watcher = None
        if self.gpus is None:
            self.give_up("the watcher died: %s" % words)
        else:
            self.start()
            self.pace()

    def pace(self) -> None:
        """Fast where somebody looks at the samples."""
        if self._watcher is not None:
            self._watcher.send({"do": "pace", "fast": sorted(self.windows.watched)})

    def ask_for_a_look(self) -> int:
        """Have the watcher look at all GPUs now; `looks` grows when it has."""
        if self._watcher is not None:
            self._watcher.send({"do": "look"})
        return self.looks if self._watcher is not None else self.looks - 1

    def memory_of_others(self, gpu: int, contexts: int) -> Optional[float]:
        """Bytes in use now beyond what was before us and what idle workers of ours may hold."""
        used, before = self._memory.get(gpu), self.first_look.get(gpu, {}).get("memory")
        if used is None or before is None:
            return None
        return max(0.0, float(used) - float(before) - contexts * occupancy.IDLE_WORKER_BYTES)

    def workers_changed(self) -> None:
        """One of ours was ended: it may stay on a GPU's list for a moment."""
        self._last_leave = time.monotonic()

    def load_at_rest(self, gpu: int) -> List[float]:
        """Samples of load taken while no probe ran."""
        return self._loads.get(gpu, [])

    def measuring(self) -> None:
        """From now on load on the GPUs is ours."""
        self.at_rest = False

    def understand(self, message: Message, contexts: int) -> Optional[Alarm]:
        """Take in what the watcher says; `contexts` is how many processes of ours may be on a GPU."""
        say = message.get("say")
        if say == "gpus" and self.gpus is None:
            self.gpus = [GpuFacts(**gpu) for gpu in message["gpus"]]
            self.refusal = message["refusal"]
            self.first_look = {int(index): look for index, look in message["usage"].items()}
            self._limits = {int(index): celsius for index, celsius in message["limits"].items()}
        elif say == "sample":
            return self._sampled(message["gpu"], message["row"])
        elif say == "looked":
            self.looks += 1
        elif say == "usage":
            self._memory[message["gpu"]] = message["usage"]["memory"]
            return self._used(message["gpu"], message["usage"], contexts)
        return None

    def _sampled(self, gpu: int, row: List[Optional[float]]) -> Optional[Alarm]:
        self.windows.add(gpu, row)
        _, celsius, _, watts, hertz, *_ = row
        load = row[7]
        if self.at_rest and load is not None:
            self._loads.setdefault(gpu, []).append(load)
        if not self.at_rest and time.monotonic() - self._told.get(gpu, float("-inf")) >= 1.0:
            self._told[gpu] = time.monotonic()
            self._progress.event("sample", subject="gpu%d" % gpu, watts=watts, celsius=celsius, hertz=hertz)
        limit = self._limits.get(gpu)
        if celsius is not None and limit and celsius >= limit - _TOO_HOT_MARGIN:
            return Alarm(gpu, "failed", "stopped at %g °C: this GPU shuts down at %g °C" % (celsius, limit))
        return None

    def _used(self, gpu: int, usage: Message, contexts: int) -> Optional[Alarm]:
        second = time.monotonic() - self._began
        if usage["fault"] is not None:
            return Alarm(gpu, "failed", "the driver says %s since second %.0f" % (usage["fault"], second))
        if self.suspended:
            return None
        if time.monotonic() - self._last_leave < _ON_THEIR_WAY_OUT:
            contexts += 1
        stranger = self._tenants.setdefault(gpu, Tenants(self._exact)).look(
            usage["processes"], self._ours(usage["processes"] or []), contexts
        )
        if stranger is not None:
            return Alarm(gpu, "skipped", "in use by %s since second %.0f" % (stranger, second))
        return None

    def _ours(self, processes: List[Message]) -> Set[int]:
        """Our process numbers. /proc is walked only when a number is new."""
        listed = {process["pid"] for process in processes}
        self._own |= self._crew.pids
        if listed - self._own - self._aliens:
            self._own |= {process.pid for process in process_tree.descendants(os.getpid())}
            self._aliens |= listed - self._own
        return self._own
