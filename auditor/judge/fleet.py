"""The servers of a run among themselves: only what fleet comparison needs is kept of each record.

Servers are compared within a group: the same model, the same count of GPUs, the same device. Readings
that were taken by another method of a probe never meet (the method is part of a figure's name here).
"""

from __future__ import annotations

import bisect
import statistics as plain
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from auditor.finding import Evidence
from auditor.judge import figures, statistics
from auditor.judge.case import Case
from auditor.judge.policy import Policy
from auditor.judge.statistics import Peers
from auditor.judge.view import says_something

_SMALL_GROUP = 24


class Figure(msgspec.Struct, frozen=True):
    """One figure of a server as the fleet sees it, with the reading that stands for it."""

    value: float
    spread: float | None
    n: int | None
    evidence: Evidence


class Identifier(msgspec.Struct, frozen=True):
    """A UUID or serial as one source gave it for one GPU."""

    kind: str
    value: str
    subject: str
    evidence: Evidence


class Digest(msgspec.Struct, frozen=True):
    """What is kept of one server until all are read."""

    server: str
    group: tuple[str, int, str]
    figures: dict[str, Figure]
    identifiers: tuple[Identifier, ...]


class Fleet:
    """All digests of a run, with the medians of every group."""

    def __init__(self, digests: Iterable[Digest], policy: Policy) -> None:
        self.policy = policy
        self.owners: dict[tuple[str, str], dict[tuple[str, str], None]] = defaultdict(dict)  # a set in order
        self._values: dict[tuple[tuple[str, int, str], str], list[float]] = defaultdict(list)
        for digest in digests:
            for name, figure in digest.figures.items():
                self._values[digest.group, name].append(figure.value)
            for one in digest.identifiers:
                self.owners[one.kind, one.value][digest.server, one.subject] = None
        self._whole: dict[tuple[tuple[str, int, str], str], Peers] = {}
        for key, values in self._values.items():
            values.sort()
            if len(values) > _SMALL_GROUP:
                self._whole[key] = statistics.peers(values)

    def others(self, group: tuple[str, int, str], name: str, value: float) -> Peers | None:
        """The other servers of the group; None when there is none with the figure."""
        key = (group, name)
        if key in self._whole:
            return self._whole[key]
        values = list(self._values[key])
        values.pop(bisect.bisect_left(values, value))
        return statistics.peers(values) if values else None

    def size(self, group: tuple[str, int, str], name: str) -> int:
        """How many servers of the group have the figure."""
        return len(self._values[group, name])


_PER_GPU = {
    "matmul_bf16_sustained": ("matmul_sustained_flops_per_second", {"dtype": "bf16"}),
    "matmul_fp32_sustained": ("matmul_sustained_flops_per_second", {"dtype": "fp32"}),
    "memory_read": ("memory_bandwidth_bytes_per_second", {"op": "read"}),
    "h2d": ("host_copy_bytes_per_second", {"direction": "h2d", "memory": "pinned"}),
    "d2h": ("host_copy_bytes_per_second", {"direction": "d2h", "memory": "pinned"}),
}


def digest(case: Case) -> Digest:
    """What the fleet keeps of one server."""
    found: dict[str, Figure] = {}
    for name, (metric, conditions) in _PER_GPU.items():
        readings = list(case.per_gpu(metric, **conditions).values())
        if readings:
            middle = plain.median_low([figures.figure(r) for r in readings])
            stands = next(r for r in readings if r.value == middle)
            found[name] = Figure(middle, stands.spread, stands.n, case.view.evidence(stands))
    reduced = figures.reference_allreduce(case.view, "collectives_busbw_bytes_per_second")
    if reduced is not None:
        size = f"{reduced.conditions.get('bytes')}:{reduced.conditions.get('dtype')}:{reduced.conditions.get('ranks')}"
        found[f"allreduce_busbw:{size}"] = Figure(
            figures.figure(reduced), reduced.spread, reduced.n, case.view.evidence(reduced)
        )
    named = {f"{name}@{figure.evidence.method}": figure for name, figure in found.items()}
    group = (case.model.name if case.model else "?", case.count, case.device or "?")
    return Digest(case.server, group, named, tuple(_identifiers(case)))


def _identifiers(case: Case) -> Iterable[Identifier]:
    for kind in ("uuid", "serial"):
        for reading in case.view.all(f"gpu_identity_{kind}"):
            if isinstance(reading.value, str) and _telling(reading.value):
                yield Identifier(kind, reading.value, reading.subject, case.view.evidence(reading))


def _telling(value: str) -> bool:
    """Zero, blank or N/A serials are normal on AWS and GeForce; masked values name nobody."""
    bare = value.strip().strip("0")
    return bool(bare) and says_something(bare) and not bare.startswith("<")
