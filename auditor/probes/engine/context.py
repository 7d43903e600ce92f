"""What a probe sees of the engine: its subject, its time, the doors to driver and kernels, and its colleagues."""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from auditor.records import Reading, Value

from .channel import Channel
from .gpu_facts import GpuFacts
from .kernels import Kernels
from .nvml import Nvml


class Sample(NamedTuple):
    """One look at a GPU; None where the driver does not tell.

    `t` is CLOCK_MONOTONIC (`time.monotonic()`). `pcie_rx`, `pcie_tx` are bytes per second over the driver's last
    20 ms, read about twice a second; `nvlink_bytes` counts both directions of all links since the driver was loaded.
    """

    t: float
    gpu_celsius: Optional[float] = None
    memory_celsius: Optional[float] = None
    watts: Optional[float] = None
    sm_clock_hertz: Optional[float] = None
    memory_clock_hertz: Optional[float] = None
    event_reasons: Optional[int] = None
    gpu_use_ratio: Optional[float] = None
    memory_use_ratio: Optional[float] = None
    pcie_rx: Optional[float] = None
    pcie_tx: Optional[float] = None
    nvlink_bytes: Optional[float] = None


@dataclass
class Samples:
    """A window of samples; filled when the window closes."""

    rows: List[Sample] = field(default_factory=list)
    hertz: float = 0.0


@dataclass(frozen=True)
class Assignment:
    """One command of the parent to a worker: which probe, on what, until when."""

    key: str
    scope: str
    profile: str
    device: str
    subject: str
    deadline: float
    directory: str
    seed: int = 0
    gpu: Optional[int] = None
    gpus: Tuple[GpuFacts, ...] = ()
    rank: int = 0
    ranks: int = 1
    path: Optional[str] = None
    soak_seconds: float = 0.0
    rendezvous: Optional[str] = None
    known: Optional[str] = None


class Context:
    """Handed to `applies`, `run` and `finish` of every probe."""

    def __init__(self, assignment: Assignment, channel: Channel, nvml: Nvml, kernels: Kernels) -> None:
        self._assignment, self._channel = assignment, channel
        self.nvml, self.kernels = nvml, kernels
        self.key, self.profile, self.device = assignment.key, assignment.profile, assignment.device
        self.subject, self.deadline, self.directory = assignment.subject, assignment.deadline, assignment.directory
        self.gpus = assignment.gpus
        self.gpu: Optional[GpuFacts] = next((g for g in self.gpus if g.index == assignment.gpu), None)
        self.rank, self.ranks, self.seed = assignment.rank, assignment.ranks, assignment.seed
        self.path, self.soak_seconds = assignment.path, assignment.soak_seconds
        self.rendezvous = assignment.rendezvous
        self._stopped = threading.Event()
        self._facts: Optional[Dict[Tuple[str, str, str], Value]] = None

    # --- what is told -----------------------------------------------------------------------------------------

    def reading(
        self,
        quantity: str,
        value: Value,
        spread: Optional[float] = None,
        n: Optional[int] = None,
        stable: Optional[bool] = None,
        source: str = "measured",
        subject: Optional[str] = None,
        **conditions: Any,
    ) -> Reading:
        """A reading of this probe; `from_` is `from` on the wire. What is no number becomes null and a note."""
        if isinstance(value, float) and not math.isfinite(value):
            self.note("%s was %s" % (quantity, value))
            value = None
        if spread is not None and not math.isfinite(spread):
            spread = None
        named = {name.rstrip("_"): given for name, given in conditions.items() if given is not None}
        return Reading(
            probe=self.key,
            metric="%s_%s" % (self.key, quantity),
            subject=subject or self.subject,
            value=value,
            source=source,
            conditions=named,
            spread=spread,
            n=n,
            stable=stable,
        )

    def series(self, quantity: str, t: Any, v: Any, subject: Optional[str] = None) -> None:
        """A figure over time; thinned to what a record may hold."""
        self._channel.send(
            {
                "say": "series",
                "metric": "%s_%s" % (self.key, quantity),
                "subject": subject or self.subject,
                "t": [float(x) for x in t],
                "v": [None if x is None or not math.isfinite(x) else x for x in v],
            }
        )

    def attach(self, name: str, text: str) -> None:
        """Keep another tool's raw output; a reader on the controller understands it."""
        self._channel.send({"say": "attach", "name": name, "text": text})

    def cut(self, what: str) -> None:
        """Name what the budget, the profile or the hardware left out."""
        self._channel.send({"say": "cut", "what": what})

    def note(self, text: str) -> None:
        """One line for the probe's row: why a value is null."""
        self._channel.send({"say": "note", "text": text})

    # --- time -------------------------------------------------------------------------------------------------

    def remaining(self) -> float:
        """Seconds left of this probe's share of the budget; none once the audit is asked to end."""
        return 0.0 if self._stopped.is_set() else self.deadline - time.monotonic()

    def stop(self) -> None:
        """The audit is asked to end: whoever looks at `remaining` ends early and keeps what it has."""
        self._stopped.set()

    # --- colleagues -------------------------------------------------------------------------------------------

    def barrier(self) -> None:
        """All live workers of this probe meet; dead and finished ones are not waited for."""
        self._channel.ask("barrier")

    def agree(self, flag: bool) -> bool:
        """Whether any live worker of this probe says yes; all get the same answer."""
        return bool(self._channel.ask("agree", bool(flag)))

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """One worker at a time, in order of index."""
        self._channel.ask("turn")
        try:
            yield
        finally:
            self._channel.ask("turn_end")

    @contextlib.contextmanager
    def sampling(self) -> Iterator[Samples]:
        """This GPU's samples at 10 Hz or more, taken by another process, while open; none for a server."""
        samples = Samples()
        self._channel.ask("sampling")
        try:
            yield samples
        finally:
            answer = self._channel.ask("sampling_end") or {}
            samples.rows = [Sample(*row) for row in answer.get("rows", [])]
            samples.hertz = answer.get("hertz", 0.0)

    def cuda(self) -> Dict[str, Any]:
        """CUDA's own view of the GPUs (see `cuda_door.ask`), taken once by a process of its own."""
        answer: Dict[str, Any] = self._channel.ask("cuda")
        return answer

    def first_look(self) -> Dict[int, Dict[str, Any]]:
        """Who used each GPU before any process of ours did: `processes`, `memory`, `use` (see `watcher.Usage`)."""
        answer: Dict[str, Dict[str, Any]] = self._channel.ask("first_look")
        return {int(index): usage for index, usage in answer.items()}

    # --- what is known ----------------------------------------------------------------------------------------

    @property
    def facts(self) -> Dict[Tuple[str, str, str], Value]:
        """All readings so far: (metric, subject, conditions as sorted JSON) -> value."""
        if self._facts is None:
            self._facts = _facts(self._assignment.known)
        return self._facts

    def known(self, metric: str, subject: Optional[str] = None, **conditions: Any) -> Value:
        """An earlier reading's value; None where there is none. Conditions not given may be anything."""
        named = {name.rstrip("_"): value for name, value in conditions.items()}.items()
        for (name, about, given), value in self.facts.items():
            if name == metric and about == (subject or self.subject) and named <= json.loads(given).items():
                return value
        return None


def _facts(path: Optional[str]) -> Dict[Tuple[str, str, str], Value]:
    if path is None:
        return {}
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)
    return {(row["metric"], row["subject"], json.dumps(row["with"], sort_keys=True)): row["value"] for row in rows}


def reading_on_the_wire(reading: Reading) -> Dict[str, Any]:
    """A reading as it stands in the record."""
    return {
        "probe": reading.probe,
        "metric": reading.metric,
        "subject": reading.subject,
        "with": reading.conditions,
        "value": reading.value,
        "spread": reading.spread,
        "n": reading.n,
        "stable": reading.stable,
        "source": reading.source,
    }
