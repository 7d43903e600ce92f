"""Whether a fault that is over still speaks against a GPU: the same event is a complaint now and history later."""

from __future__ import annotations

from auditor.finding import SEVERITIES, Severity
from auditor.judge.case import Case
from auditor.records import Reading


def happened_now(reading: Reading) -> bool:
    """It came while we worked."""
    return reading.conditions.get("when") == "audit"


def works(case: Case, subject: str) -> bool:
    """The GPU (for `server`: every GPU) did its matrix products in this audit and the driver asks for nothing."""
    gpus = case.gpus if subject == "server" else (subject,)
    return bool(gpus) and all(
        case.view.number("matmul_sustained_flops_per_second", gpu) is not None
        and case.view.one("gpu_health_fault", gpu) is None
        and not wanted_actions(case, gpu)
        for gpu in gpus
    )


def wanted_actions(case: Case, gpu: str) -> list[Reading]:
    """Recovery actions that the driver asks for."""
    return [r for r in case.view.all("gpu_health_recovery_action", gpu) if r.value not in ("none", None)]


def in_time(case: Case, reading: Reading, severity: Severity) -> Severity:
    """The severity of an event by when it was: over, with a GPU that works now, it is history and at most advice."""
    if happened_now(reading) or not works(case, reading.subject):
        return severity
    return worse("advice", severity, milder=True)


def worse(first: Severity, second: Severity, milder: bool = False) -> Severity:
    """The graver of two severities, or the milder."""
    return (max if milder else min)(first, second, key=SEVERITIES.index)
