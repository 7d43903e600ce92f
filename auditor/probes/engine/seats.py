"""Where probes run: one seat for the server, one for each GPU, one that sees all GPUs; who sits there may change."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Dict, List, Optional

from .colleague import Colleague
from .crew import Crew
from .gpu_facts import GpuFacts

READY_SECONDS = 180.0
"""Importing torch takes 3-5 s; from a network disk it has been seen to take a minute."""


@dataclass
class Seat:
    """A place with its environment. `barred` says why no probe but `only` may run here."""

    name: str
    subject: str
    rank: int = 0
    gpu: Optional[GpuFacts] = None
    environment: Dict[str, str] = field(default_factory=dict)
    barred: Optional[str] = None
    only: Optional[str] = None
    colleague: Optional[Colleague] = None
    pending: int = 0
    problem: Optional[str] = None
    problem_kind: str = "failed"
    torch: bool = False
    served: int = 0

    @property
    def ready(self) -> bool:
        """Whether somebody sits here who can start at once."""
        return self.colleague is not None and self.pending == 0

    def bars(self, key: str) -> Optional[str]:
        """Why this probe may not run here."""
        return self.barred if self.barred and key != self.only else None


class Seats:
    """Fills seats and keeps them filled."""

    def __init__(self, crew: Crew, device: str, gpus: List[GpuFacts]) -> None:
        self._crew, self._device = crew, device
        self.server = Seat("server", "server", environment={})
        usable = [gpu for gpu in gpus if gpu.fault is None]
        if device == "cuda":
            self.gpus = [
                Seat(gpu.subject, gpu.subject, rank, gpu, _seeing([gpu.visible or gpu.uuid]))
                for rank, gpu in enumerate(usable)
            ]
            for gpu in gpus:
                if gpu.fault is not None:
                    self.gpus.append(Seat(gpu.subject, gpu.subject, 0, gpu, barred="the driver says %s" % gpu.fault))
            self.all = self.gpus
        else:
            self.gpus = [Seat("cpu", "server", environment=_without_gpus())]
            self.all = [*self.gpus, Seat("cpu1", "server", rank=1, environment=_without_gpus())]
        self.pair = Seat("pair", "server", environment={})

    @property
    def everyone(self) -> List[Seat]:
        """All seats there are."""
        return list({seat.name: seat for seat in [self.server, *self.gpus, *self.all, self.pair]}.values())

    def of(self, scope: str) -> List[Seat]:
        """The seats a probe of this scope runs at."""
        if scope == "pair":
            free = [seat.gpu for seat in self.gpus if seat.gpu is not None and seat.barred is None]
            self.pair.environment = _seeing([gpu.visible or gpu.uuid for gpu in free])
        return {"server": [self.server], "gpu": self.gpus, "all": self.all, "pair": [self.pair]}[scope]

    def fill(self, seat: Seat, torch: bool) -> None:
        """Let somebody sit here and fetch torch if it is needed; ready when that is done."""
        if seat.colleague is None:
            seat.served += 1
            name = seat.name if seat.served == 1 else "%s.%d" % (seat.name, seat.served)
            seat.colleague = self._crew.hire(name, "worker", seat.environment)
            seat.pending, seat.torch, seat.problem = 0, False, None
        if torch and not seat.torch:
            seat.pending, seat.torch = seat.pending + 1, True
            device = self._device if seat.gpu is not None or seat is self.pair else "cpu"
            seat.colleague.send({"do": "prepare", "device": device})

    def empty(self, seat: Seat) -> None:
        """End who sits here, with all that was started."""
        if seat.colleague is not None:
            self._crew.dismiss(seat.colleague)
            seat.colleague = None

    def find(self, colleague: Colleague) -> Optional[Seat]:
        """Whose seat it is."""
        return next((seat for seat in self.everyone if seat.colleague is colleague), None)

    @staticmethod
    def late(seat: Seat) -> bool:
        """Whether it takes too long to get ready."""
        return seat.colleague is not None and time.monotonic() - seat.colleague.started > READY_SECONDS


def _seeing(gpus: List[Optional[str]]) -> Dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": ",".join(name for name in gpus if name)}


def _without_gpus() -> Dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": ""}


def environment() -> Dict[str, str]:
    """What all our processes inherit: loopback only, nothing listens, hangs end."""
    ours = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
        "TP_SOCKET_IFNAME": "lo",
        "NCCL_RAS_ENABLE": "0",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",
        "TORCH_NCCL_ENABLE_MONITORING": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    return {**os.environ, **ours}
