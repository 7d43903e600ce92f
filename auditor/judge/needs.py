"""What a verdict needs, by the names policy.yaml uses. Each need is answered by None or by what is missing."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from auditor.judge.case import Case
from auditor.judge.view import told_by


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
        several = case.order.gpus > 1 if case.order else case.count > 1
        if several or case.count > 1:
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
    return f"{row.status}: {row.reason}" if row.reason else row.status


def _on_gpus(need: str, probe: str, metric: str, **conditions: str) -> Callable[[Case], list[Missing]]:
    def check(case: Case) -> list[Missing]:
        if not case.gpus:
            return [Missing(need, "server", probe, _reason(case, probe, "server"))]
        return [
            Missing(need, gpu, probe, _reason(case, probe, gpu))
            for gpu in case.gpus
            if case.view.number(metric, gpu, **conditions) is None
        ]

    return check


def _on_server(need: str, probe: str, metric: str, **conditions: str) -> Callable[[Case], list[Missing]]:
    def check(case: Case) -> list[Missing]:
        if any(True for _ in case.view.all(metric, "server", **conditions)):
            return []
        return [Missing(need, "server", probe, _reason(case, probe, "server"))]

    return check


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
        }
        if len(told) < 2:
            only = f"only the {next(iter(told))} spoke" if told else _reason(case, "gpu_identity", gpu)
            out.append(Missing("model", gpu, "gpu_identity", only))
    return out


def _count(case: Case) -> list[Missing]:
    """Driver and kernel must both have counted the GPUs."""
    driver = case.view.number("server_facts_gpus_nvml_total")
    kernel = case.view.number("server_facts_gpus_on_bus_total")
    if driver is not None and kernel is not None:
        return []
    which = "driver" if driver is None else "kernel"
    reason = _reason(case, "server_facts", "server")
    if reason == "measured":
        reason = f"the {which} gave no count"
    return [Missing("count", "server", "server_facts", reason)]


def _topology(case: Case) -> list[Missing]:
    wanted = case.count * (case.count - 1) // 2
    seen = {reading.subject for reading in case.view.all("topology_path") if "nic" not in reading.subject}
    if wanted and len(seen) >= wanted:
        return []
    reason = _reason(case, "topology", "server")
    if seen or not wanted:
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
    "server_facts": _on_server("server_facts", "server_facts", "server_facts_kernel"),
    "matmul_cpu": _on_server("matmul_cpu", "matmul", _SUSTAINED),
    "all_reduce_cpu": _on_server("all_reduce_cpu", "collectives", _BUSBW, op="all_reduce"),
}
