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
_MOST_FALSE_STARTS = 2


@dataclass
class Seat:
    """A place with its environment. `barred` says why no probe but `only` may run here."""

    name: str
    subject: str
    device: str
    rank: int = 0
    gpu: Optional[GpuFacts] = None
    environment: Dict[str, str] = field(default_factory=dict)
    barred: Optional[str] = None
    barred_status: str = "skipped"
    only: Optional[str] = None
    colleague: Optional[Colleague] = None
    pending: int = 0
    asked: float = 0.0
    torch: bool = False
    problem: Optional[str] = None
    problem_status: str = "failed"
    served: int = 0
    false_starts: int = 0

    @property
    def ready(self) -> bool:
        """Whether somebody sits here who can start at once."""
        return self.colleague is not None and self.pending == 0

    @property
    def late(self) -> bool:
        """Whether torch takes too long."""
        return self.pending > 0 and time.monotonic() - self.asked > READY_SECONDS

    def bars(self, key: str) -> Optional[str]:
        """Why this probe may not run here."""
        return self.barred if self.barred and key != self.only else None


class Seats:
    """Fills seats and keeps them filled."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.server = Seat("server", "server", "cpu")
        self.pair = Seat("pair", "server", "cuda")
        self.gpus: List[Seat] = []
        self.all: List[Seat] = []

    def furnish(self, device: str, gpus: List[GpuFacts]) -> None:
        """Once it is known what there is: one seat for each GPU, or two on a CPU for what needs two."""
        if device == "cuda":
            self.all = self.gpus = [Seat(gpu.subject, gpu.subject, device, rank, gpu) for rank, gpu in enumerate(gpus)]
            for seat in self.gpus:
                seat.environment = _seeing([seat])
                if seat.gpu is not None and seat.gpu.fault is not None:
                    seat.barred, seat.barred_status = "the driver says %s" % seat.gpu.fault, "failed"
        else:
            self.gpus = [Seat("cpu", "server", device, environment=_seeing([]))]
            self.all = [*self.gpus, Seat("cpu1", "server", device, rank=1, environment=_seeing([]))]

    @property
    def everyone(self) -> List[Seat]:
        """All seats there are."""
        return list({seat.name: seat for seat in [self.server, *self.gpus, *self.all, self.pair]}.values())

    @property
    def free(self) -> List[GpuFacts]:
        """GPUs that may be used."""
        return [seat.gpu for seat in self.gpus if seat.gpu is not None and seat.barred is None]

    @property
    def starting(self) -> bool:
        """Whether anybody still fetches torch."""
        return any(seat.pending for seat in self.everyone)

    def of(self, scope: str) -> List[Seat]:
        """The seats a probe of this scope runs at."""
        if scope == "pair" and self.pair.colleague is None:
            self.pair.environment = _seeing([seat for seat in self.gpus if seat.barred is None])
        if scope == "any":
            return [self._who_has_torch()]
        return {"server": [self.server], "gpu": self.gpus, "all": self.all, "pair": [self.pair]}[scope]

    def _who_has_torch(self) -> Seat:
        """A worker that serves anyway; the server's own process where no GPU has one (all lost, no CUDA)."""
        able = (seat for seat in self.gpus if seat.colleague and seat.torch and not seat.problem and not seat.barred)
        return next(able, self.server)

    def fill(self, seat: Seat, torch: bool) -> None:
        """Let somebody sit here and fetch torch if it is needed; ready when that is done."""
        if seat.colleague is None:
            seat.served += 1
            name = seat.name if seat.served == 1 else "%s.%d" % (seat.name, seat.served)
            seat.colleague = self._crew.hire(name, "worker", seat.environment)
            seat.pending, seat.torch, seat.problem = 0, False, None
        if torch and not seat.torch:
            seat.pending, seat.torch, seat.asked = seat.pending + 1, True, time.monotonic()
            seat.colleague.send({"do": "prepare", "device": seat.device})

    def empty(self, seat: Seat) -> Optional[str]:
        """End who sits here, with all that was started; says which process would not end."""
        if seat.colleague is None:
            return None
        colleague, seat.colleague, seat.pending = seat.colleague, None, 0
        stuck = self._crew.dismiss(colleague)
        return ", ".join("process %d (%s, state %s) cannot be ended" % (p.pid, p.name, p.state) for p in stuck) or None

    def empty_all_but_the_server(self) -> None:
        """What measures now wants whole GPUs."""
        for seat in self.everyone:
            if seat is not self.server:
                self.empty(seat)

    def empty_pair_unless_running(self, running: bool) -> None:
        """The process that sees all GPUs sees too many now."""
        if not running:
            self.empty(self.pair)

    def find(self, colleague: Colleague) -> Optional[Seat]:
        """Whose seat it is."""
        return next((seat for seat in self.everyone if seat.colleague is colleague), None)

    def prepared(self, seat: Seat, problem: Optional[str], status: str) -> None:
        """What came of fetching torch."""
        seat.pending -= 1
        seat.problem, seat.problem_status = problem, status
        seat.false_starts = 0 if problem is None else seat.false_starts

    def false_start(self, seat: Seat, problem: str, status: str) -> None:
        """Who sat here died or hung while starting; after the second time nobody is sent any more."""
        self.empty(seat)
        seat.problem, seat.problem_status = problem, status
        seat.false_starts += 1
        if seat.false_starts >= _MOST_FALSE_STARTS:
            seat.barred, seat.barred_status = problem, status

    @property
    def gpu_processes(self) -> int:
        """How many processes of ours may be on one GPU: its worker, and the one that sees all."""
        return 1 + (self.pair.colleague is not None)


def _seeing(seats: List[Seat]) -> Dict[str, str]:
    names = [seat.gpu.visible or seat.gpu.uuid for seat in seats if seat.gpu is not None]
    return {"CUDA_VISIBLE_DEVICES": ",".join(name for name in names if name)}


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
