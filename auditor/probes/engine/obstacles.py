"""Why a probe cannot run, decided before it does: on the whole server, on one GPU, or for want of time."""

from __future__ import annotations

import os
import sys
from typing import List, Optional, Tuple

from . import occupancy, torch_files, tree
from .catalogue import Probe
from .gpu_facts import GpuFacts, same_address
from .seats import Seat
from .switchboard import CUDA_SECONDS, Switchboard

_LOOK_SECONDS = 1.0

Verdict = Tuple[str, str]  # status, reason


class Obstacles:
    """Looks at device, driver, torch, and at who uses the GPUs."""

    def __init__(self, board: Switchboard, allow_busy: bool) -> None:
        self._board, self._allow_busy = board, allow_busy
        self._on_bus = sum(function.is_gpu for function in tree.pci_functions("/"))
        self.device = "cpu"

    def choose_device(self, wish: str) -> str:
        """A server with a GPU on its bus is a GPU server, also when its driver does not work."""
        nodes = [path for path in tree.found("/", "dev/nvidia[0-9]*") if path[len("/dev/nvidia") :].isdigit()]
        auto = "cuda" if self._board.gpus or self._on_bus or nodes else "cpu"
        self.device = auto if wish == "auto" else wish
        return self.device

    def of(self, probe: Probe) -> Optional[Verdict]:
        """Why this probe cannot run anywhere here."""
        if self._board.stopped:
            return "timed_out", self._board.stopped
        if self.device not in probe.devices:
            return "not_applicable", "needs an NVIDIA GPU" if self.device == "cpu" else "not for a GPU server"
        if self.device == "cuda" and not self._board.gpus and (probe.on_gpus or "cpu" not in probe.devices):
            return self._no_gpu()
        lack = self._no_torch(probe) if "torch" in probe.needs else None
        if lack is not None:
            return lack
        if probe.scope == "pair" and len(self._board.gpus) < 2:
            return "not_applicable", "needs two GPUs"
        return self._in_the_way(probe) if self.device == "cuda" else None

    def _no_gpu(self) -> Verdict:
        refusal = self._board.lookout.refusal or "it lists none"
        if self._on_bus:
            return "failed", "%d NVIDIA GPUs on the bus, but the driver cannot be used: %s" % (self._on_bus, refusal)
        return "failed", "no NVIDIA GPU can be used here: %s" % refusal

    def _no_torch(self, probe: Probe) -> Optional[Verdict]:
        version, cuda = torch_files.build()
        if version is None:
            advice = "install it there, or start the probe with a Python that has it"
            return "skipped", "no torch in %s: %s" % (sys.executable, advice)
        if cuda is None and self.device == "cuda" and probe.on_gpus:
            return "skipped", "torch %s in %s is built without CUDA" % (version, sys.executable)
        return None

    def _in_the_way(self, probe: Probe) -> Optional[Verdict]:
        """What needs all GPUs needs all of them free; what loads the host would disturb whoever uses a GPU."""
        for seat in self._board.seats.gpus if probe.scope != "gpu" else ():
            bar = seat.bars(probe.key)
            if bar is not None and (probe.on_gpus or (probe.heavy and bar.startswith("in use"))):
                return "skipped", "%s: %s" % (seat.subject, bar)
        return None

    # --- GPUs that are somebody's -----------------------------------------------------------------------------

    def leave_alone_what_is_used(self) -> None:
        """By the first look, before any process of ours is on a GPU."""
        granted = os.environ.get("CUDA_VISIBLE_DEVICES")
        if granted:
            self._board.wait(lambda: self._board.cuda is not None, CUDA_SECONDS)
        for seat in self._board.seats.gpus:
            if seat.gpu is None or seat.barred is not None:
                continue
            look = self._board.lookout.first_look.get(seat.gpu.index, {})
            owner, doubt = occupancy.owner(look), occupancy.hidden(look.get("memory"), [])
            if granted and not self._visible(seat.gpu):
                seat.barred = "not in CUDA_VISIBLE_DEVICES=%s" % granted
            elif owner is not None and not self._allow_busy:
                seat.barred = "in use by %s" % owner
            elif doubt is not None and not self._allow_busy:
                seat.barred, seat.only = doubt, "time_slicing"

    def _visible(self, gpu: GpuFacts) -> bool:
        devices = (self._board.cuda or {}).get("devices", [])
        return not devices or any(same_address(device["pci"], gpu.pci) for device in devices)

    def doubt(self, seats: List[Seat]) -> None:
        """Before each load: was there load while our workers started, has memory gone that is not ours?"""
        lookout = self._board.lookout
        on_gpus = [seat for seat in seats if seat.gpu is not None and seat.barred is None]
        if self._allow_busy or not on_gpus:
            return
        before = lookout.ask_for_a_look()
        self._board.wait(lambda: lookout.looks > before, _LOOK_SECONDS)
        for seat in on_gpus:
            if seat.gpu is not None and seat.barred is None:
                loads = lookout.load_at_rest(seat.gpu.index) if lookout.at_rest else []
                memory = lookout.memory_of_others(seat.gpu.index, self._board.seats.gpu_processes)
                reason = occupancy.hidden(memory, loads)
                if reason is not None:
                    seat.barred, seat.only = reason, "time_slicing"
