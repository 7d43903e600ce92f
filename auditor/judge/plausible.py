"""Figures that cannot be true: no number, below zero, or above what the hardware can do.

They leave the view before any rule runs, so that no comparison, average or ranking uses them; `figure-implausible`
(rules/compute.py) says so. Ceilings and their sources: docs/thresholds.md, "Figures that cannot be true".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache

import msgspec

from auditor.catalog.identify import Identity
from auditor.catalog.model import Model
from auditor.judge.policy import Lines
from auditor.judge.view import ServerView, is_number
from auditor.records import Reading


class Impossible(msgspec.Struct, frozen=True):
    """A figure nobody can have measured; `limit` is the most it could be (None: it fails at the lower end).

    `why` names the ceiling: model, links, driver, unit.
    """

    reading: Reading
    limit: float | None
    model: str | None
    why: str


# One direction of 16 lanes before protocol, bytes/s (PCI-SIG); NVLink-C2C of Grace; all NVLinks of a B200.
PCIE = {3: 16e9, 4: 32e9, 5: 64e9, 6: 128e9}
C2C, NVLINK = 450e9, 900e9
LINK_SLACK = 1.15
HOTTEST = 130.0  # no board of the catalogue shuts down above 101 degrees
SM_CLOCK = 4.5e9  # without a known model: no GPU clocks half as high again as the fastest of the catalogue (3.1 GHz)
MEMORY_CLOCK = 20e9
WATTS = 3000.0

_UNITS = ("_bytes", "_seconds", "_total", "_ratio", "_watts", "_hertz", "_per_second", "_per_joule", "_per_sm")
_ABOVE_ZERO = frozenset(
    (
        "matmul_sustained_flops_per_second",
        "matmul_boost_flops_per_second",
        "matmul_flops_per_clock_per_sm",
        "matmul_counted_sm_clock_hertz",
        "matmul_watts",
        "thermal_flops_per_second",
        "thermal_sm_clock_hertz",
        "thermal_watts",
        "thermal_gpu_celsius",
        "memory_bandwidth_bytes_per_second",
        "host_copy_bytes_per_second",
        "peer_copy_bytes_per_second",
        "collectives_algbw_bytes_per_second",
        "collectives_busbw_bytes_per_second",
    )
)
_SHARES = frozenset(
    (
        "gpu_identity_utilization_ratio",
        "thermal_event_reason_ratio",
        "training_step_memory_use_ratio",
        "training_step_communication_ratio",
        "steal_time_ratio",
        "steal_time_throttled_ratio",
    )
)


def impossible(
    view: ServerView, identities: Mapping[str, Identity], common: Model | None, lines: Lines
) -> Iterator[Impossible]:
    """Every figure of a record that cannot be true; `common` is the model of readings about no GPU of their own."""
    for metric, readings in view.by_metric():
        least = _least(metric)
        bounded = _bounded(metric)
        if least is None and not bounded:
            continue
        for reading in readings:
            value = reading.value
            if not is_number(value):
                continue
            low = least is not None and value <= least
            if not low and not bounded and value < math.inf:
                continue
            own = identities.get(reading.subject.partition("-")[0])
            model = own.model if own else common
            limit, why = (None, "unit") if low or not math.isfinite(value) else ceiling(view, model, reading, lines)
            if limit is None and (low or not math.isfinite(value)) or limit is not None and value > limit:
                yield Impossible(reading, limit, model.name if model else None, why)


_JUST_BELOW_ZERO = -math.ulp(0.0)


@cache
def _least(metric: str) -> float | None:
    """The greatest figure of a metric that is too small to be true; None where any sign may be (margins, nodes)."""
    if metric in _ABOVE_ZERO:
        return 0.0
    return _JUST_BELOW_ZERO if metric in _SHARES or metric.endswith(_UNITS) else None


@cache
def _bounded(metric: str) -> bool:
    """Whether anything is known that such a figure cannot pass."""
    return (
        metric in _ABOVE_ZERO
        or metric in _SHARES
        or metric in ("training_step_nvlink_use_ratio", "thermal_memory_celsius")
        or metric.endswith(("_watts", "_clock_hertz"))
        or metric.startswith(("matmul_", "collectives_"))
        and metric.endswith("_per_second")
    )


def ceiling(view: ServerView, model: Model | None, reading: Reading, lines: Lines) -> tuple[float | None, str]:
    """The figure no card of a model can pass, and what sets it; None where nothing is known."""
    metric = reading.metric
    if metric in _SHARES:
        return 1.01, "unit"  # a mean of samples may round up
    if metric == "training_step_nvlink_use_ratio":
        return LINK_SLACK, "unit"
    if metric in ("thermal_gpu_celsius", "thermal_memory_celsius"):
        return HOTTEST, "unit"
    if metric.endswith("_watts"):
        return _watts(view, model, reading, lines)
    if metric.endswith("_clock_hertz"):
        return _clock(model, reading, lines)
    if metric.startswith(("host_copy_bytes", "peer_copy_bytes", "collectives_")) and metric.endswith("_per_second"):
        return _links(model, reading) * LINK_SLACK, "links"
    if model is None:
        return None, "model"
    if metric == "memory_bandwidth_bytes_per_second":
        return (model.bandwidth * lines.bandwidth_over_spec.value if model.bandwidth else None), "model"
    if metric.endswith("_flops_per_second") and metric.startswith(("matmul_", "thermal_")):
        peak = model.peak(str(reading.conditions.get("dtype")))
        return (peak * lines.rate_over_spec.value if peak else None), "model"
    return None, "model"


def _links(model: Model | None, reading: Reading) -> float:
    """What the links of a GPU can carry in the direction, or the two directions, that were measured.

    In-switch reduction (NVLS) shows more bus bandwidth than one direction carries; both directions bound it.
    """
    grace = model is None or model.name.startswith(("GH", "GB"))
    pcie = PCIE.get(model.pcie_gen, PCIE[6]) * model.pcie_lanes / 16 if model else PCIE[6]
    if reading.metric.startswith("host_copy"):
        one_way = max(pcie, C2C) if grace else pcie
        return one_way if reading.conditions.get("direction") in ("h2d", "d2h") else 2 * one_way
    one_way = max(pcie, model.nvlink_direction) if model else NVLINK
    return one_way if reading.conditions.get("direction") in ("one_way", "ring") else 2 * one_way


def _watts(view: ServerView, model: Model | None, reading: Reading, lines: Lines) -> tuple[float, str]:
    """Far above the highest limit of the board: its own word, as far as that is believable, or the data sheet's."""
    published = max((model.tdp_w or 0.0, *(model.power_limit_alt_w or ()))) if model else 0.0
    believable = lines.watts_over_limit.value * published if published else WATTS
    if reading.metric == "gpu_identity_power_limit_watts":
        return believable, "model" if published else "unit"
    told = view.number("gpu_identity_power_limit_watts", reading.subject, which="max") or 0.0
    most = max(published, told if told <= believable else 0.0) or WATTS
    return lines.watts_over_limit.value * most, "driver" if told == most else "model" if published else "unit"


def _clock(model: Model | None, reading: Reading, lines: Lines) -> tuple[float, str]:
    """NVML's maximum of the model; where the catalogue has the boost clock only, boards may be clocked far above."""
    if "memory" in reading.metric:
        return MEMORY_CLOCK, "unit"
    if model is not None and model.nvml_max_sm_clock_mhz:
        return model.nvml_max_sm_clock_mhz * 1e6 * lines.clock_over_model.value, "model"
    if model is not None and model.boost_clock_mhz:
        return model.boost_clock_mhz * 1e6 * 1.5, "model"
    return SM_CLOCK, "unit"
