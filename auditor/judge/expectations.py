"""What a healthy server of this kind was seen to reach, with the context it was seen in.

A row of achievable.yaml is used only where model, count, interconnect, NVLS, element type and message size
fit; without a fitting row there is no expectation. The lowest fitting figure is taken: an expectation must
hold for every healthy machine, not for the best one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from auditor.catalog import Catalog
from auditor.catalog.achievable import AllReduce, low
from auditor.catalog.model import Model
from auditor.finding import Basis

# gpu-fryer multiplies integers cast to float, which draw less power than our normal data: on H200 the same loop read
# 8 % (bf16) and 19 % (fp8) higher with its data than with ours (measured for this project).
_DATA = {"bf16": 1 / 1.08, "fp16": 1 / 1.08, "fp8": 1 / 1.19}
_HONEST = ("sustained", "best_shape", "unstated", "sustained_other_data")
_ALIASES = {"fp64": ("fp64_tensor", "fp64"), "fp8": ("fp8", "fp8_e4m3"), "tf32": ("tf32", "fp32_tf32_path")}
_SIZE_SLACK = 1.3


class Expectation(msgspec.Struct, frozen=True):
    """A level in base units, what kind of level it is, and who says so."""

    value: float
    basis: Basis
    source: str


def matmul(catalog: Catalog, model: Model, dtype: str) -> Expectation | None:
    """The lowest sustained rate published for a model under our conditions, else a share of its dense peak.

    The share is the lowest any healthy card of any model was published with in this dtype: low-watt cards
    hold 58 % of their peak, so a tighter line against spec would fail good cards.
    """
    return _matmul(_Key(catalog), model.name, dtype)


@lru_cache(maxsize=512)
def _matmul(key: _Key, name: str, dtype: str) -> Expectation | None:
    catalog = key.catalog
    words = _ALIASES.get(dtype, (dtype,))
    rows = catalog.achievable.matmul
    own = [
        (low(r.tflops) * factor, r)
        for r in rows
        if r.gpu == name and r.dtype in words and (factor := _factor(r.kind, dtype)) is not None
    ]
    if own:
        rate, row = min(own, key=lambda pair: pair[0])
        cited = f"{catalog.achievable.sources[row.source]} ({row.conditions})"
        if row.kind != "sustained":
            cited += f", less {1 - rate / low(row.tflops):.0%} for its data"
        return Expectation(rate * 1e12, "achievable", cited)
    model = catalog.get(name)
    peak = model.peak(dtype) if model else None
    shares = [
        (low(r.tflops) * 1e12 / other, r)
        for r in rows
        if r.dtype in words and r.kind in _HONEST and (other := _peak(catalog, r.gpu, dtype))
    ]
    if peak is None or model is None or not shares:
        return None
    share, row = min(shares, key=lambda pair: pair[0])
    lowest = f"lowest published share {share:.0%} ({row.gpu}, {row.source})"
    cited = f"{model.sources[0]}: {peak / 1e12:g} TFLOPS dense; {lowest}"
    return Expectation(peak * share, "spec", cited)


def _factor(kind: str, dtype: str) -> float | None:
    """By what a row must be multiplied to compare with our sustained figure; None = it does not compare."""
    if kind == "sustained":
        return 1.0
    return _DATA.get(dtype) if kind == "sustained_other_data" else None


def memory(catalog: Catalog, model: Model, op: str) -> Expectation | None:
    """The lowest published rate of a model for one kind of traffic, else the lowest published share of its spec."""
    return _memory(_Key(catalog), model.name, op)


@lru_cache(maxsize=512)
def _memory(key: _Key, name: str, op: str) -> Expectation | None:
    catalog = key.catalog
    rows = [r for r in catalog.achievable.memory_bandwidth if r.comparable and r.op == op]
    own = [r for r in rows if r.gpu == name]
    if own:
        row = min(own, key=lambda r: low(r.gb_s))
        cited = f"{catalog.achievable.sources[row.source]} ({row.kind}, {row.conditions})"
        return Expectation(low(row.gb_s) * 1e9, "achievable", cited)
    model = catalog.get(name)
    shares = [
        (low(r.gb_s) * 1e9 / other.bandwidth, r)
        for r in rows
        if (other := catalog.get(r.gpu)) is not None and other.bandwidth
    ]
    if model is None or not model.bandwidth or not shares:
        return None
    share, row = min(shares, key=lambda pair: pair[0])
    lowest = f"lowest published share {share:.0%} ({row.gpu}, {row.source})"
    cited = f"{model.sources[0]}: {model.bandwidth / 1e9:g} GB/s; {lowest}"
    return Expectation(model.bandwidth * share, "spec", cited)


class Context(msgspec.Struct, frozen=True):
    """Under which conditions an all-reduce was measured."""

    model: str
    gpus: int
    interconnect: str
    nvls: bool | None
    element: str
    bytes: float


def all_reduce(catalog: Catalog, context: Context) -> Expectation | None:
    """The lowest published bus bandwidth in this context, between the two published sizes next to ours.

    Where NVLS is unknown or off, rows without it are used; A100 and older have none. float16 and float32 rows
    serve each other when the own type has none: at one message size the wire carries the same bytes.
    """
    return _all_reduce(_Key(catalog), context)


@lru_cache(maxsize=2048)
def _all_reduce(key: _Key, context: Context) -> Expectation | None:
    catalog = key.catalog
    rows = [
        r
        for r in catalog.achievable.nccl_all_reduce
        if r.comparable
        and context.model in r.models
        and r.gpus == context.gpus
        and r.interconnect == context.interconnect
    ]
    without = [r for r in rows if not r.nvls_on]
    rows = [r for r in rows if r.nvls_on] if context.nvls else without
    same = [r for r in rows if r.element == context.element]
    rows = same or [r for r in rows if r.element in ("float32", "float16")]
    levels = [level for group in _by_system(rows) if (level := _at(group, context.bytes)) is not None]
    if not levels:
        return None
    value, row = min(levels, key=lambda pair: pair[0])
    cited = f"{catalog.achievable.sources[row.source]} ({row.system}, {row.dtype}, NCCL {row.nccl}, NVLS {row.nvls})"
    return Expectation(value, "achievable", cited)


def _by_system(rows: Sequence[AllReduce]) -> list[list[AllReduce]]:
    groups: dict[tuple[str, str, str], list[AllReduce]] = {}
    for row in rows:
        groups.setdefault((row.source, row.system, row.dtype), []).append(row)
    return [sorted(group, key=lambda r: r.bytes or 0) for group in groups.values()]


def _at(group: Sequence[AllReduce], size: float) -> tuple[float, AllReduce] | None:
    """Bus bandwidth at a size, between neighbours on a log scale; None where the published sizes do not reach."""
    first, last = group[0], group[-1]
    if size < (first.bytes or 0) / _SIZE_SLACK or size > (last.bytes or 0) * _SIZE_SLACK:
        return None
    below = max((r for r in group if (r.bytes or 0) <= size), key=lambda r: r.bytes or 0, default=first)
    above = min((r for r in group if (r.bytes or 0) >= size), key=lambda r: r.bytes or 0, default=last)
    low_rate, high_rate = low(below.busbw_gb_s), low(above.busbw_gb_s)
    if below is above:
        return low_rate * 1e9, below
    part = math.log(size / (below.bytes or 1)) / math.log((above.bytes or 1) / (below.bytes or 1))
    return (low_rate + (high_rate - low_rate) * part) * 1e9, below


def host_copy(catalog: Catalog, generation: int, lanes: int, direction: str) -> Expectation | None:
    """The lowest published pinned rate over a PCIe link; fewer lanes carry their share.

    Cards of a generation without a published rate (6.0, so far in hosts of 5.0) are held against the one before.
    """
    return _host_copy(_Key(catalog), generation, lanes, direction)


@lru_cache(maxsize=256)
def _host_copy(key: _Key, generation: int, lanes: int, direction: str) -> Expectation | None:
    catalog = key.catalog
    rates = [
        (rate * lanes / row.pcie_lanes, row)
        for row in catalog.achievable.h2d_d2h
        if row.comparable and row.pcie_gen == generation and row.pcie_lanes
        if (rate := row.h2d_gb_s if direction == "h2d" else row.d2h_gb_s) is not None
    ]
    if not rates:
        return _host_copy(key, generation - 1, lanes, direction) if generation > 1 else None
    rate, row = min(rates, key=lambda pair: pair[0])
    cited = f"{catalog.achievable.sources[row.source]} ({row.platform}, {row.link}, {row.conditions})"
    return Expectation(rate * 1e9, "achievable", cited)


def _peak(catalog: Catalog, name: str, dtype: str) -> float | None:
    model = catalog.get(name)
    return model.peak(dtype) if model else None


class _Key:
    """A catalogue as a cache key: compared by the hash of its files, not by walking thousands of rows."""

    __slots__ = ("catalog",)

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def __hash__(self) -> int:
        return hash(self.catalog.sha256)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.catalog.sha256 == self.catalog.sha256
