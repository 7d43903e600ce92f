"""Errors on the way: NVLink counters, PCIe retries and the kernel's PCIe error counters, as differences over the audit.

NVLink is asked link by link, for the per-GPU fields answer 0 on Hopper; PCIe retries of some hundred right after a
boot are normal.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import Finding, Severity
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.rule import rule
from auditor.judge.standing import happened_now, worse
from auditor.judge.texts import N_, Text
from auditor.records import Reading

_LINKS = "gpu_health_nvlink_errors_total"


@rule
def nvlink_errors(case: Case) -> Iterator[Finding]:
    """Counters that grow under load, by GPU, with the links that counted."""
    for gpu in case.gpus:
        rows = [r for r in case.view.all(_LINKS) if r.subject.split("/")[0] == gpu and figure(r) > 0]
        now = [r for r in rows if happened_now(r)]
        if not rows:
            continue
        told = now or rows
        worst = max(told, key=figure)
        links = sorted({r.subject.split("/link")[1] for r in told if "/link" in r.subject}, key=int)
        yield case.finding(
            "nvlink-crc",
            "degraded",
            "review" if now else "advice",
            gpu,
            "evidence",
            "NVML: nvmlDeviceGetNvLinkErrorCounter (docs/thresholds.md, health)",
            {
                "counter": str(worst.conditions.get("counter")),
                "measured": figure(worst),
                "links": ", ".join(links) or N_("not told which"),
                "when": N_("during the audit") if now else N_("before the audit"),
            },
            told,
        )


@rule
def pcie_retries(case: Case) -> Iterator[Finding]:
    """PCIe retries that come while we copy; what a boot leaves is normal."""
    lines = case.lines
    for gpu in case.gpus:
        rows = [r for r in case.view.all("gpu_health_pcie_replays_total", gpu) if figure(r) > 0]
        now = max((r for r in rows if happened_now(r)), key=figure, default=None)
        before = max((r for r in rows if not happened_now(r)), key=figure, default=None)
        severity: Severity | None = None
        if now is not None:
            severity = "review" if figure(now) > lines.pcie_replays.value else "advice"
        elif before is not None and figure(before) > lines.pcie_replays_boot.value:
            severity = "advice"
        if severity is not None:
            yield case.finding(
                "pcie-replay",
                "degraded",
                severity,
                gpu,
                "evidence",
                lines.pcie_replays.source if now is not None else lines.pcie_replays_boot.source,
                {"audit": figure(now) if now else 0.0, "history": figure(before) if before else 0.0},
                (now, before),
            )


@rule
def pcie_errors(case: Case) -> Iterator[Finding]:
    """The kernel's own counters of PCIe errors (AER): uncorrected ones that grow are a fault of the link."""
    for gpu in case.gpus:
        rows = [r for r in case.view.all("gpu_health_aer_errors_total", gpu, when="audit") if figure(r) > 0]
        severity: Severity = "info"
        for r in rows:
            grave = r.conditions.get("kind") in ("fatal", "nonfatal") or figure(r) > case.lines.pcie_replays.value
            severity = worse(severity, "review" if grave else "advice")
        if rows:
            worst = min(rows, key=lambda r: ("fatal", "nonfatal", "correctable").index(str(r.conditions.get("kind"))))
            yield case.finding(
                "aer",
                "degraded",
                severity,
                gpu,
                "evidence",
                "Linux: sysfs aer_dev_correctable, aer_dev_nonfatal, aer_dev_fatal (docs/thresholds.md, health)",
                {"kind": str(worst.conditions.get("kind")), "measured": figure(worst), "all": _listed(rows)},
                rows,
            )


def _listed(rows: list[Reading]) -> str:
    return ", ".join(f"{r.conditions.get('kind')} {int(figure(r))}" for r in rows)


CAUSES = {
    "nvlink-crc": ("nvswitch-sxid",),
    "pcie-replay": ("gpu-lost", "aer", "pcie-width-low", "pcie-gen-low"),
    "aer": ("gpu-lost", "pcie-width-low", "pcie-gen-low"),
}

TEXTS = {
    "nvlink-crc": Text(
        N_("NVLink errors"),
        N_("{counter}: {measured:int} {when} (links {links})"),
        N_("no error under load"),
        N_("A link that repeats its data is slow, and breaks sooner or later."),
        N_(
            "{gpu}: NVLink {counter} counted {measured:int} {when}. Please reseat or replace bridge, tray or cable "
            "(links {links})."
        ),
    ),
    "pcie-replay": Text(
        N_("PCIe retries"),
        N_("{audit:int} during the audit, {history:int} before"),
        N_("none under load"),
        N_("The link to the host loses packets: seat, riser or signal."),
        N_("{gpu}: {audit:int} PCIe retries during the audit. Please reseat the card and check the riser."),
    ),
    "aer": Text(
        N_("PCIe errors during the audit"),
        N_("{all}"),
        N_("none under load"),
        N_("The kernel counted errors on the card's PCIe link while it worked."),
        N_("{gpu}: PCIe errors during the audit ({all}). Please reseat the card and check the riser."),
    ),
}
