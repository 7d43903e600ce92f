"""What NVIDIA's own diagnostic (DCGM) said: hearsay beside our figures.

A Pass proves nothing, a Fail or a warning asks for a look; warnings count on a Pass too (a memory test that could not
allocate still says Pass). Its floors are not used: they are 46 to 62 % of spec, some wrong by far.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import SEVERITIES, Finding, Severity
from auditor.judge.case import Case
from auditor.judge.rule import rule
from auditor.judge.standing import worse
from auditor.judge.texts import N_, Text
from auditor.records import Reading

# DCGM's error_severity: 1 monitor, 2 isolate, 4 triage, 5 configuration, 6 reset.
_BY_SEVERITY: dict[int, Severity] = {1: "advice", 2: "review", 4: "review", 5: "info", 6: "review"}
# Told better by our own rules: 29 persistence mode off, 55 ECC off.
_CONFIGURATION = (29, 55)


@rule
def diagnostic(case: Case) -> Iterator[Finding]:
    """Failed tests and warnings of the diagnostic, by GPU; configuration is information."""
    for subject in (*case.gpus, "server"):
        warnings = list(case.view.all("dcgm_warning", subject))
        failed = [r for r in case.view.all("dcgm_result", subject) if r.value in ("fail", "warn")]
        if not warnings and not failed:
            continue
        severity: Severity = "info"
        for r in warnings:
            severity = worse(severity, _of_warning(r))
        explained = {str(r.conditions.get("test")) for r in warnings}
        unexplained = [r for r in failed if str(r.conditions.get("test")) not in explained]
        if any(r.value == "fail" for r in unexplained):
            severity = worse(severity, "review")
        elif unexplained:
            severity = worse(severity, "advice")
        gravest = min(warnings, key=lambda r: SEVERITIES.index(_of_warning(r)), default=None)
        yield case.finding(
            "dcgm-warning",
            "degraded",
            severity,
            subject,
            "evidence",
            "DCGM: error_severity of its warnings",
            {
                "tests": ", ".join(sorted({str(r.conditions.get("test")) for r in [*failed, *warnings]})),
                "warning": str(gravest.value)[:300].rstrip(".") if gravest else N_("failed without a warning"),
            },
            (*failed, *warnings),
        )


def _of_warning(reading: Reading) -> Severity:
    if reading.conditions.get("error") in _CONFIGURATION:
        return "info"
    severity = reading.conditions.get("severity")
    # DCGM 3.1 and 3.2 write no severity: a warning without one asks for a look.
    return _BY_SEVERITY.get(severity, "advice") if isinstance(severity, int) else "advice"


CAUSES = {
    "dcgm-warning": (
        "gpu-lost",
        "ecc-uncorrectable",
        "row-remap",
        "retired-pages",
        "nvlink-crc",
        "xid-recent",
        "recovery-action",
        "power-brake",
        "hw-thermal",
        "fm-not-running",
        "nvlink-missing",
    ),
}

TEXTS = {
    "dcgm-warning": Text(
        N_("NVIDIA's diagnostic warns"),
        N_("{tests}: {warning}"),
        N_("no warning"),
        N_("DCGM's word alone decides nothing here; where our own figures agree, they are the complaint."),
        N_("dcgmi diag reports for {subject} ({tests}): {warning}. Please explain or repair."),
    ),
}
