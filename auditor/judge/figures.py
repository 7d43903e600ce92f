"""The figures a report shows of a server and its GPUs, by the names `auditor.finding` documents."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from auditor.catalog.model import Model
from auditor.finding import Gpu
from auditor.judge.case import Case
from auditor.judge.view import ServerView, is_number
from auditor.records import Reading

REFERENCE_BYTES = 400_000_000
_DTYPES = ("bf16", "fp16", "tf32", "fp32", "fp8", "int8", "fp64")
_SUSTAINED = "matmul_sustained_flops_per_second"
_COPY = "host_copy_bytes_per_second"
_MEMORY = "memory_bandwidth_bytes_per_second"


def of_gpu(case: Case, gpu: str) -> dict[str, float | None]:
    """One GPU's figures in base units; None where not measured or impossible."""
    view = case.view
    number = view.number
    out: dict[str, float | None] = {}

    def possible(reading: Reading | None) -> float | None:
        return None if reading is None else figure(reading)

    for dtype in _DTYPES:
        out[f"matmul_{dtype}_sustained"] = possible(at_8192(view, _SUSTAINED, gpu, dtype))
        out[f"matmul_{dtype}_boost"] = possible(at_8192(view, "matmul_boost_flops_per_second", gpu, dtype))
    out["per_clock_bf16"] = number("matmul_flops_per_clock_per_sm", gpu, dtype="bf16")
    for op in ("read", "write", "copy", "triad"):
        out[f"memory_{op}"] = possible(next((r for r in view.all(_MEMORY, gpu, op=op) if is_number(r.value)), None))
    out["memory_bytes"] = number("gpu_identity_memory_bytes", gpu)
    out["memory_verified"] = number("memory_capacity_bytes", gpu)
    for direction in ("h2d", "d2h"):
        out[direction] = best(view, _COPY, gpu, direction=direction, memory="pinned")
    out["pcie_generation"] = number("host_copy_pcie_generation", gpu, port="gpu")
    out["pcie_lanes"] = number("host_copy_pcie_width_lanes", gpu, port="gpu")
    out["nvlinks_active"] = number("topology_nvlinks_active_total", gpu)
    out["celsius_max"] = number("thermal_gpu_celsius", gpu, stat="max")
    out["celsius_memory_max"] = number("thermal_memory_celsius", gpu, stat="max")
    out["watts_mean"] = number("thermal_watts", gpu, stat="mean")
    out["sm_clock_mean"] = number("thermal_sm_clock_hertz", gpu, stat="mean")
    out["flops_per_watt"] = number("thermal_flops_per_joule", gpu)
    out["power_limit"] = number("gpu_identity_power_limit_watts", gpu, which="now")
    out["slowdown_margin"] = number("thermal_slowdown_margin_celsius", gpu)
    return out


def of_model(model: Model | None) -> dict[str, float | None]:
    """The published values of a model under the same names."""
    if model is None:
        return {}
    out: dict[str, float | None] = {}
    for dtype in _DTYPES:
        out[f"matmul_{dtype}_sustained"] = out[f"matmul_{dtype}_boost"] = model.peak(dtype)
    out["per_clock_bf16"] = model.fp16_flops_per_clk_per_sm if model.peak("bf16") else None
    for op in ("read", "write", "copy", "triad"):
        out[f"memory_{op}"] = model.bandwidth
    out["memory_bytes"] = model.memory_bytes[0] if model.memory_bytes else None
    out["pcie_generation"] = float(model.pcie_gen)
    out["pcie_lanes"] = float(model.pcie_lanes)
    out["nvlinks_active"] = float(model.nvlink_links)
    out["celsius_max"] = model.temps.max_operating_c
    out["power_limit"] = model.tdp_w
    return out


def gpus(case: Case) -> tuple[Gpu, ...]:
    """Every GPU of a server as the report shows it."""
    out = []
    for gpu in case.gpus:
        subject = case.view.subjects[gpu]
        identity = case.identities[gpu]
        out.append(
            Gpu(
                subject=gpu,
                index=subject.index,
                uuid=subject.uuid or case.view.text("gpu_identity_uuid", gpu),
                pci=subject.pci,
                name=case.view.text("gpu_identity_name", gpu) or subject.name,
                model=identity.model.name if identity.model else None,
                figures=of_gpu(case, gpu),
                spec=of_model(identity.model),
            )
        )
    return tuple(out)


_SERVER: dict[str, Callable[[list[float]], float]] = {
    **{f"matmul_{dtype}_sustained": statistics.median for dtype in _DTYPES},
    **{f"matmul_{dtype}_boost": statistics.median for dtype in _DTYPES},
    "per_clock_bf16": statistics.median,
    "memory_read": statistics.median,
    "memory_write": statistics.median,
    "memory_copy": statistics.median,
    "memory_triad": statistics.median,
    "h2d": statistics.median,
    "d2h": statistics.median,
    "celsius_max": max,
    "celsius_memory_max": max,
    "watts_mean": sum,
    "flops_per_watt": statistics.median,
}


def of_server(case: Case, rows: tuple[Gpu, ...]) -> dict[str, float | None]:
    """A server's figures: medians over its GPUs (sum of watts, maximum of heat), and what it does as a whole."""
    out: dict[str, float | None] = {}
    for name, join in _SERVER.items():
        values = [value for gpu in rows if (value := gpu.figures.get(name)) is not None]
        out[name] = join(values) if values else None
    sustained = [value for gpu in rows if (value := gpu.figures.get("matmul_bf16_sustained")) is not None]
    out["flops_delivered"] = sum(sustained) if sustained and len(sustained) == len(rows) else None
    out["slowest_ratio"] = min(sustained) / statistics.median(sustained) if len(sustained) > 1 else None
    view = case.view
    if not rows:
        for dtype in _DTYPES:
            out[f"matmul_{dtype}_sustained"] = largest_n(view, _SUSTAINED, "server", dtype)
    out["allreduce_algbw"] = at_size(view, "collectives_algbw_bytes_per_second")
    reduced = reference_allreduce(view, "collectives_busbw_bytes_per_second")
    out["allreduce_busbw"] = figure(reduced) if reduced is not None else None
    for name in ("bytes", "ranks"):
        condition = reduced.conditions.get(name) if reduced is not None else None
        out[f"allreduce_{name}"] = float(condition) if isinstance(condition, (int, float)) else None
    out["allreduce_busbw_best"] = best(view, "collectives_busbw_bytes_per_second", "server", op="all_reduce")
    for op in ("all_gather", "reduce_scatter", "broadcast", "all_to_all"):
        out[f"{op}_busbw"] = best(view, "collectives_busbw_bytes_per_second", "server", op=op)
    out["training_speedup"] = best(view, "training_step_speedup_ratio", "server")
    out["training_tokens_per_second"] = best(view, "training_step_tokens_per_second", "server")
    out["steal_ratio"] = view.number("steal_time_ratio")
    return out


def largest_n(view: ServerView, metric: str, subject: str, dtype: str) -> float | None:
    """The figure of the 8192 cube when it was taken, else of the largest one (launch-bound sizes say little)."""
    chosen = at_8192(view, metric, subject, dtype)
    return figure(chosen) if chosen is not None else None


def at_8192(view: ServerView, metric: str, subject: str, dtype: str) -> Reading | None:
    """The reading behind `largest_n`; all GPUs under load before one alone."""
    best_place: tuple[bool, bool, float] | None = None
    chosen = None
    for reading in view.all(metric, subject, dtype=dtype):
        n = reading.conditions.get("n", 0)
        if not is_number(reading.value) or not isinstance(n, (int, float)):
            continue
        place = (reading.conditions.get("load", "all") == "all", n == 8192, float(n))
        if best_place is None or place > best_place:
            best_place, chosen = place, reading
    return chosen


def best(view: ServerView, metric: str, subject: str, **conditions: str) -> float | None:
    """The largest figure of a metric under the conditions."""
    values = [
        float(reading.value)
        for reading in view.all(metric, subject, **conditions)
        if isinstance(reading.value, (int, float)) and not isinstance(reading.value, bool)
    ]
    return max(values) if values else None


def at_size(view: ServerView, metric: str) -> float | None:
    """The all-reduce figure over most ranks at the size next to 400 MB, the user's reference."""
    chosen = reference_allreduce(view, metric)
    return figure(chosen) if chosen is not None else None


def reference_allreduce(view: ServerView, metric: str) -> Reading | None:
    """The reading behind `at_size`: most ranks first, then float32, then the size next to 400 MB."""
    candidates = [reading for reading in view.all(metric, "server", op="all_reduce") if is_number(reading.value)]
    return min(candidates, key=_distance, default=None)


def _distance(reading: Reading) -> tuple[float, bool, float]:
    size, ranks = (reading.conditions.get(name, 0) for name in ("bytes", "ranks"))
    if not isinstance(size, (int, float)) or not isinstance(ranks, (int, float)):
        return 0.0, True, float("inf")
    return -float(ranks), reading.conditions.get("dtype") != "float32", abs(size - REFERENCE_BYTES)


def figure(reading: Reading) -> float:
    """A reading's value as a figure; only for readings that are known to be one."""
    return float(reading.value) if is_number(reading.value) else float("nan")
