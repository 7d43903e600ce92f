"""What a verdict needs, by the names policy.yaml uses. Each need is answered by None or by what is missing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import msgspec

from auditor.judge.case import Case
from auditor.judge.view import is_number, says_something, told_by
from auditor.records import Reading

_PATH = re.compile(r"NV[1-9]\d*|PIX|PXB|PHB|NODE|SYS|SOC")


class Missing(msgspec.Struct, frozen=True):
    """A need that was not met: on which subject, which probe would have met it, and its reason."""

    need: str
    subject: str
    probe: str
    reason: str


def missing(case: Case) -> tuple[Missing, ...]:
    """Every need of this server's profile that its record does not meet."""
    if case.view.record is None:
        return ()
    policy, record = case.policy, case.view.record
    if case.without_gpu:
        names = policy.needed_without_gpu
    else:
        names = [*policy.needed.get(record.profile, policy.needed["quick"])]
        if _wanted(case) > 1:
            names += policy.needed_of_several
    out: list[Missing] = []
    for name in names:
        out.extend(NEEDS[name](case))
    return tuple(out)


def _reason(case: Case, probe: str, subject: str) -> str:
    row = case.view.row(probe, subject) or case.view.row(probe, "server")
    if probe in case.view.outdated:
        return f"taken by method {case.view.outdated[probe]}, older than the lines were set for"
    if row is None:
        return "no reading came"
    if row.status == "measured" and not row.reason:
        return "no usable value came"
    return f"{row.status}: {row.reason}" if row.reason else row.status


def _wanted(case: Case) -> int:
    """How many GPUs must have readings: as many as were ordered, counted by driver or CUDA, or shown."""
    ordered = case.order.gpus if case.order else 0
    return max(ordered, case.count, *(int(n) for n in counted(case).values()))


def counted(case: Case) -> dict[str, float]:
    """How many GPUs the server was given, by who counted them."""
    metrics = ("server_facts_gpus_nvml_total", "server_facts_gpus_cuda_total")
    return {metric: n for metric in metrics if (n := case.view.number(metric)) is not None and math.isfinite(n)}


def _measured(reading: Reading) -> bool:
    """A figure above zero. One above what the model can do was measured all the same: its finding says so."""
    return is_number(reading.value) and 0 < float(reading.value) < math.inf


def _any_measured(case: Case, metric: str, subject: str, **conditions: str) -> bool:
    aside = (
        one.reading
        for one in case.impossible
        if one.reading.metric == metric
        and one.reading.subject == subject
        and all(one.reading.conditions.get(name) == value for name, value in conditions.items())
    )
    return any(_measured(r) for rows in (case.view.all(metric, subject, **conditions), aside) for r in rows)


def _on_gpus(need: str, probe: str, metric: str, **conditions: str) -> Callable[[Case], list[Missing]]:
    def check(case: Case) -> list[Missing]:
        if not case.gpus:
            return [Missing(need, "server", probe, _reason(case, probe, "server"))]
        return [
            Missing(need, gpu, probe, _reason(case, probe, gpu))
            for gpu in case.gpus
            if not _any_measured(case, metric, gpu, **conditions)
        ]

    return check


def _on_server(need: str, probe: str, metric: str, **conditions: str) -> Callable[[Case], list[Missing]]:
    def check(case: Case) -> list[Missing]:
        if _any_measured(case, metric, "server", **conditions):
            return []
        return [Missing(need, "server", probe, _reason(case, probe, "server"))]

    return check


def _server_facts(case: Case) -> list[Missing]:
    if any(says_something(reading.value) for reading in case.view.all("server_facts_kernel", "server")):
        return []
    return [Missing("server_facts", "server", "server_facts", _reason(case, "server_facts", "server"))]


def _model(case: Case) -> list[Missing]:
    """Two families must have spoken about the model of every GPU."""
    if not case.gpus:
        return [Missing("model", "server", "gpu_identity", _reason(case, "gpu_identity", "server"))]
    out = []
    for gpu in case.gpus:
        told = {
            told_by(reading.source)
            for metric in ("gpu_identity_name", "gpu_identity_pci_device", "matmul_flops_per_clock_per_sm")
            for reading in case.view.all(metric, gpu)
            if says_something(reading.value)
        }
        if len(told) < 2:
            only = f"only the {next(iter(told))} spoke" if told else _reason(case, "gpu_identity", gpu)
            out.append(Missing("model", gpu, "gpu_identity", only))
    return out


def _count(case: Case) -> list[Missing]:
    """Driver and kernel must both have counted the GPUs, and each GPU counted or ordered must be in the record."""
    driver = case.view.number("server_facts_gpus_nvml_total")
    kernel = case.view.number("server_facts_gpus_on_bus_total")
    if driver is not None and kernel is not None:
        wanted = _wanted(case)
        if case.count >= wanted or case.text_only:
            return []
        return [Missing("count", "server", "gpu_identity", f"{case.count} of {wanted} GPUs")]
    which = "driver" if driver is None else "kernel"
    reason = _reason(case, "server_facts", "server")
    if reason == "no usable value came":
        reason = f"the {which} gave no count"
    return [Missing("count", "server", "server_facts", reason)]


def _topology(case: Case) -> list[Missing]:
    count = case.count if case.text_only else _wanted(case)
    wanted = count * (count - 1) // 2
    seen = {
        reading.subject
        for reading in case.view.all("topology_path")
        if "nic" not in reading.subject and isinstance(reading.value, str) and _PATH.fullmatch(reading.value.strip())
    }
    if wanted and len(seen) >= wanted:
        return []
    reason = _reason(case, "topology", "server")
    if seen or not wanted or reason == "no usable value came":
        reason = f"{len(seen)} of {wanted} pairs" if wanted else "the record shows one GPU"
    return [Missing("topology", "server", "topology", reason)]


_BUSBW = "collectives_busbw_bytes_per_second"
_SUSTAINED = "matmul_sustained_flops_per_second"
NEEDS: dict[str, Callable[[Case], list[Missing]]] = {
    "model": _model,
    "count": _count,
    "matmul": _on_gpus("matmul", "matmul", _SUSTAINED),
    "host_copy": _on_gpus("host_copy", "host_copy", "host_copy_bytes_per_second", memory="pinned"),
    "thermal": _on_gpus("thermal", "thermal", "thermal_gpu_celsius"),
    "memory_bandwidth": _on_gpus("memory_bandwidth", "memory_bandwidth", "memory_bandwidth_bytes_per_second"),
    "topology": _topology,
    "all_reduce": _on_server("all_reduce", "collectives", _BUSBW, op="all_reduce"),
    "server_facts": _server_facts,
    "matmul_cpu": _on_server("matmul_cpu", "matmul", _SUSTAINED),
    "all_reduce_cpu": _on_server("all_reduce_cpu", "collectives", _BUSBW, op="all_reduce"),
}
