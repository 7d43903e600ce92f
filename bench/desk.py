"""A probe's context for the bench: one GPU, no engine, all the time in the world."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from auditor.probes.engine.gpu_facts import GpuFacts, pci_address
from auditor.probes.engine.kernels import Kernels
from auditor.probes.engine.nvml import Nvml
from auditor.records import Reading


class Desk:
    """What probes ask of their context, answered for a single process."""

    def __init__(self, key: str, profile: str = "quick", seed: int = 20261201) -> None:
        self.key, self.profile, self.device, self.seed = key, profile, "cuda", seed
        self.rank, self.ranks, self.subject = 0, 1, "gpu0"
        self.kernels, self.nvml = Kernels(), Nvml()
        handle = self.nvml.handle(0)
        bus = self.nvml.call("nvmlDeviceGetPciInfo", handle)
        uuid = self.nvml.call("nvmlDeviceGetUUID", handle)
        bus_id = bus.busId if isinstance(bus.busId, str) else bus.busId.decode()
        self.gpu = GpuFacts(0, uuid if isinstance(uuid, str) else uuid.decode(), pci_address(bus_id))
        self.gpus = (self.gpu,)
        self.left_out: list[str] = []

    def remaining(self) -> float:
        """No deadline."""
        return math.inf

    def cut(self, what: str) -> None:
        """Kept, so that the bench can say it."""
        self.left_out.append(what)

    def barrier(self) -> None:
        """Nobody to meet."""

    def agree(self, flag: bool) -> bool:
        """Alone one always agrees."""
        return flag

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Always this one's turn."""
        yield

    @contextlib.contextmanager
    def sampling(self) -> Iterator[Any]:
        """No samples: the bench measures without a sampler beside it."""
        yield SimpleNamespace(rows=[], hertz=0.0)

    def reading(
        self,
        quantity: str,
        value: Any,
        spread: float | None = None,
        n: int | None = None,
        stable: bool | None = None,
        source: str = "measured",
        **conditions: Any,
    ) -> Reading:
        """A reading as the engine makes it."""
        named = {name.rstrip("_"): given for name, given in conditions.items()}
        return Reading(self.key, f"{self.key}_{quantity}", self.subject, value, source, named, spread, n, stable)
