"""What the kernel logged beside Xids: processors and memory in error, PCIe errors, a driver that would not start."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import Finding, Severity
from auditor.judge.case import Case
from auditor.judge.rule import rule
from auditor.judge.standing import happened_now, works
from auditor.judge.texts import N_, Text
from auditor.records import Reading

LOG = "Linux kernel log (docs/method.md, gpu_health)"


@rule
def kernel_events(case: Case) -> Iterator[Finding]:
    """Lines of the kernel's log by their kind: what came while we worked counts, what came before is history."""
    for kind, id in (
        ("machine_check", "machine-check"),
        ("pcie_error", "pcie-errors-logged"),
        ("rm_init_failed", "gpu-init-failed"),
        ("out_of_memory", "out-of-memory"),
    ):
        rows = list(case.view.all("kernel_log_event", kind=kind))
        if not rows:
            continue
        now = [row for row in rows if happened_now(row)]
        telling = (now or rows)[-1]
        yield case.finding(
            id,
            "degraded",
            _severity(case, kind, now),
            "server",
            "evidence",
            LOG,
            {
                "line": str(telling.value)[:160],
                "count": len(rows),
                "when": N_("while the audit ran") if now else N_("earlier in this boot"),
            },
            rows[-4:],
        )


def _severity(case: Case, kind: str, now: list[Reading]) -> Severity:
    if kind == "out_of_memory":
        return "advice" if now else "info"
    if kind == "rm_init_failed":
        if case.order is not None and case.count < case.order.gpus:
            return "reject"  # the GPU that is missing
        return "review" if now or not works(case, "server") else "advice"
    if kind == "machine_check":
        now = [row for row in now if "corrected error" not in _without_un(row)]
    return "review" if now else "advice"


def _without_un(row: Reading) -> str:
    """The line without the word that only looks like "corrected"."""
    return str(row.value).lower().replace("uncorrected", "")


CAUSES = {
    "gpu-count-short": ("gpu-init-failed",),
    "pcie-errors-logged": ("gpu-lost", "aer"),
    "not-measured": ("gpu-init-failed",),
}

TEXTS = {
    "machine-check": Text(
        N_("The host's processor or memory reports errors"),
        N_("{when}, lines: {count:int}; the last: {line}"),
        N_("no machine check in the kernel's log"),
        N_("Errors of processor or memory end jobs or change results; corrected ones cost nothing but come before."),
        N_("The kernel logged machine checks {when}: {line}. Please check processors and memory modules."),
    ),
    "pcie-errors-logged": Text(
        N_("The kernel logged PCIe errors"),
        N_("{when}, lines: {count:int}; the last: {line}"),
        N_("no uncorrected PCIe error"),
        N_("A device or its slot loses data on the bus; GPUs fall off that way."),
        N_("The kernel logged PCIe errors {when}: {line}. Please reseat the device, check riser and slot."),
    ),
    "gpu-init-failed": Text(
        N_("The driver could not start a GPU"),
        N_("{when}, lines: {count:int}; the last: {line}"),
        N_("every GPU starts"),
        N_("A GPU that the driver cannot start is not there for us."),
        N_("The driver could not start a GPU {when}: {line}. Please restart the server, replace the GPU if it stays."),
    ),
    "out-of-memory": Text(
        N_("The host ran out of memory"),
        N_("{when}, lines: {count:int}; the last: {line}"),
        N_("enough memory for what runs"),
        N_("The kernel ended a process to get memory back: figures of that time may be low, jobs may be lost."),
    ),
}
