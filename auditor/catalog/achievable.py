"""What others measured: the rows of achievable.yaml, each citing a source."""

from __future__ import annotations

from typing import Literal

import msgspec

Pair = tuple[float, float]
Kind = Literal[
    "sustained",
    "sustained_other_data",
    "other_size",
    "other_data",
    "best_shape",
    "upper_bound",
    "vendor_tool",
    "unstated",
]
Confidence = Literal["high", "medium", "low"]


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    source: str
    confidence: Confidence
    note: str | None = None


class Matmul(_Row, frozen=True, kw_only=True):
    """A published matmul rate, TFLOPS dense; `kind` says whether it compares with our sustained figure."""

    gpu: str
    dtype: str
    tflops: float | Pair
    stat: str
    conditions: str
    kind: Kind


class Memory(_Row, frozen=True, kw_only=True):
    """A published device-memory rate, GB/s; `op` is our word for the same traffic."""

    gpu: str
    kind: str
    gb_s: float | Pair
    conditions: str
    op: Literal["read", "write", "copy", "triad"] | None
    comparable: bool


class HostCopy(_Row, frozen=True, kw_only=True):
    """A published host copy rate, GB/s, with the link it was taken over."""

    platform: str
    link: str
    h2d_gb_s: float
    d2h_gb_s: float | None
    conditions: str
    pcie_gen: int | None
    pcie_lanes: int | None
    comparable: bool


class PeerCopy(_Row, frozen=True, kw_only=True):
    """A published GPU-to-GPU rate, GB/s."""

    platform: str
    link: str
    direction: str
    gb_s: float | Pair
    spec_gb_s: float | None
    conditions: str
    models: list[str]
    interconnect: Literal["nvlink", "pcie", "pcie_staged"]
    comparable: bool


class AllReduce(_Row, frozen=True, kw_only=True):
    """A published all-reduce, GB/s, with its whole context."""

    system: str
    gpus: int
    bytes: int | None
    dtype: str
    algbw_gb_s: float | None
    busbw_gb_s: float | Pair
    nccl: str
    nvls: str
    models: list[str]
    interconnect: Literal["nvswitch", "nvlink_bridge", "pcie"]
    nvls_on: bool
    element: str | None
    comparable: bool
    size_note: str | None = None


class Thermal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Power and temperature that others saw, as they wrote it."""

    gpu: str
    load: str
    avg_w: float | str | None
    max_w: float | None
    avg_c: float | str | None
    source: str
    note: str | None = None


class Setup(_Row, frozen=True, kw_only=True):
    """What virtualization cost elsewhere."""

    setup: str
    result: str


class Threshold(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Pass/fail floors a provider uses for its own fleet."""

    what: str
    values: dict[str, float | str | dict[str, float]]
    source: str
    note: str | None = None


class Achievable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file; every `source` is a key of `sources` (checked by `auditor.catalog.check`)."""

    meta: dict[str, str]
    sources: dict[str, str]
    matmul: list[Matmul]
    memory_bandwidth: list[Memory]
    h2d_d2h: list[HostCopy]
    p2p: list[PeerCopy]
    nccl_all_reduce: list[AllReduce]
    reference_thresholds: list[Threshold]
    thermal_power: list[Thermal]
    virtualization: list[Setup]
    claim_check_400mb_float32_8xA100: dict[str, object]


def low(value: float | Pair) -> float:
    """The lower end of a published figure or range."""
    return value[0] if isinstance(value, tuple) else value
