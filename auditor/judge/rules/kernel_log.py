"""Xids, switch errors and lost GPUs, from the kernel's log and the driver's refusals.

A shared kernel log speaks of other tenants' GPUs too: events of a PCI address that is none of ours are told, never
held against the server. What is over, with a GPU that works now, is history.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import SEVERITIES, Finding, Severity
from auditor.judge import signs, xids
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.rule import rule
from auditor.judge.standing import happened_now, in_time, works, worse
from auditor.judge.texts import N_, Text
from auditor.records import Reading

CATALOGUE = "NVIDIA's Xid catalogue; severities: docs/thresholds.md, health"
_SHARED_LOG = (signs.CONTAINER, signs.SANDBOX, signs.SLICE, signs.UNKNOWN)
_WHITELISTED = (12028,)
_OFTEN = 10  # a harmless number that keeps coming is worth watching


@rule
def xid_recent(case: Case) -> Iterator[Finding]:
    """Xids of a GPU by the catalogue's severities: while we worked, or earlier in this boot."""
    for subject in (*case.gpus, "server"):
        events = [r for r in case.view.all("kernel_log_xid_total", subject) if figure(r) > 0]
        if subject == "server":
            events = [r for r in events if "pci" not in r.conditions]
        graded = [(severity, r) for r in events for severity in [xid_severity(case, r)]]
        if not graded:
            continue
        worst, telling = min(graded, key=lambda row: (SEVERITIES.index(row[0]), -figure(row[1])))
        known = xids.of(_number(telling))
        yield case.finding(
            "xid-recent",
            "degraded",
            worst,
            subject,
            "evidence",
            CATALOGUE,
            {
                "xids": ", ".join(_named(r) for _, r in graded),
                "xid": _number(telling),
                "meaning": known.meaning,
                "action": known.action,
                "when": N_("while the audit ran") if happened_now(telling) else N_("earlier in this boot"),
            },
            [r for _, r in graded],
        )


def xid_severity(case: Case, reading: Reading) -> Severity:
    """The catalogue's severity of one kind of event on one GPU, with its count, sub-code and time."""
    number = _number(reading)
    known = xids.of(number)
    severity = known.severity
    if number in xids.OWN and _alone(case, reading):
        severity = "advice"
    if known.repeated is not None and figure(reading) > 1:
        severity = known.repeated
    if number in xids.NVLINK5 and "fatal" in reading.conditions:
        severity = "reject" if reading.conditions["fatal"] else "advice"
    if number == xids.RECOVERY and "action" in reading.conditions:
        severity = xids.ACTIONS.get(str(reading.conditions["action"]), "info")
    return in_time(case, reading, severity)


def _number(reading: Reading) -> int:
    return int(str(reading.conditions.get("xid", 0)))


def _named(reading: Reading) -> str:
    count = int(figure(reading))
    return f"{_number(reading)} x {count}" if count > 1 else str(_number(reading))


def _alone(case: Case, reading: Reading) -> bool:
    """The same application error again and again on this GPU only, with siblings that have none of it."""
    others = {r.subject for r in case.view.all("kernel_log_xid_total") if _number(r) == _number(reading)}
    return case.count > 1 and figure(reading) > 2 and others == {reading.subject} and reading.subject in case.gpus


@rule
def others_log(case: Case) -> Iterator[Finding]:
    """Events of GPUs that are none of this record's: the kernel log is shared with other tenants."""
    strange = [r for r in case.view.all("kernel_log_xid_total", "server") if "pci" in r.conditions]
    if _unlisted(case)[0] is not None:
        strange = [r for r in strange if _number(r) != xids.OFF_THE_BUS]
    if strange and case.gpus:
        yield case.finding(
            "xid-of-others",
            "degraded",
            "info",
            "server",
            "evidence",
            "docs/thresholds.md, health: check that the PCI address is one of yours",
            {"addresses": ", ".join(sorted({str(r.conditions["pci"]) for r in strange}))},
            strange,
        )


@rule
def switch_errors(case: Case) -> Iterator[Finding]:
    """NVSwitch errors: a fatal one breaks the fabric; 12028 is harmless, and watched when it keeps coming."""
    events = [r for r in case.view.all("kernel_log_sxid_total") if figure(r) > 0]
    if not events:
        return
    severity: Severity = "info"
    for r in events:
        if r.conditions.get("fatal") is True:
            severity = worse(severity, in_time(case, r, "reject"))
        elif r.conditions.get("sxid") not in _WHITELISTED or figure(r) > _OFTEN:
            severity = worse(severity, "advice")
    telling = max(events, key=lambda r: (r.conditions.get("fatal") is True, happened_now(r)))
    yield case.finding(
        "nvswitch-sxid",
        "degraded",
        severity,
        "server",
        "evidence",
        "NVIDIA Fabric Manager user guide: SXid errors",
        {
            "sxids": ", ".join(sorted({str(r.conditions.get("sxid")) for r in events})),
            "fatal": ", ".join(sorted({str(r.conditions["sxid"]) for r in events if r.conditions.get("fatal") is True}))
            or N_("none"),
            "when": N_("while the audit ran") if happened_now(telling) else N_("earlier in this boot"),
        },
        events,
    )


@rule
def gpu_lost(case: Case) -> Iterator[Finding]:
    """A GPU that no longer answers: the driver says so (NVML 15), the bus reads all ones, or the kernel saw it go."""
    for subject in (*case.gpus, "server"):
        faults = [r for r in case.view.all("gpu_health_fault", subject) if r.value == "gpu_lost"]
        events = case.view.all("kernel_log_event", subject, kind="fallen_off_bus")
        fallen = [r for r in events if "pci" not in r.conditions]
        if subject != "server":
            fallen += list(case.view.all("kernel_log_xid_total", subject, xid=xids.OFF_THE_BUS))
        still = [r for r in fallen if in_time(case, r, "reject") == "reject"]
        if not faults and not still:
            if fallen:
                yield _lost(case, subject, "advice", fallen)
            continue
        yield _lost(case, subject, "reject", [*faults, *still])


@rule
def unlisted_gpu_lost(case: Case) -> Iterator[Finding]:
    """A GPU that fell off the bus before anything listed it: its address is in the kernel's log and nowhere else.

    A guest or a metal host has a kernel log of its own, so the GPU was this server's; a container's log is its host's,
    and speaks of this server only where a GPU is missing.
    """
    severity, fallen = _unlisted(case)
    if severity is None:
        return
    order = case.order.gpus if case.order else None
    yield case.finding(
        "gpu-lost",
        "degraded",
        severity,
        "server",
        "evidence",
        "Linux kernel log, NVIDIA's Xid catalogue: 79; the address is that of no GPU in the record",
        {
            "addresses": ", ".join(sorted({str(r.conditions["pci"]) for r in fallen})),
            "when": N_("while the audit ran") if any(map(happened_now, fallen)) else N_("earlier in this boot"),
            "count": case.count,
            "ordered": order,
            "variant": "unlisted",
        },
        (*fallen, case.view.one("server_facts_gpus_on_bus_total"), case.view.one("server_facts_gpus_nvml_total")),
    )


def _unlisted(case: Case) -> tuple[Severity | None, list[Reading]]:
    """What a lost GPU that is in no list means here, and the events that tell of it."""
    events = case.view.all("kernel_log_xid_total", "server", xid=xids.OFF_THE_BUS)
    fallen = [r for r in events if "pci" in r.conditions and figure(r) > 0]
    fallen += [r for r in case.view.all("kernel_log_event", "server", kind="fallen_off_bus") if "pci" in r.conditions]
    if not fallen or case.text_only:
        return None, []
    missing = case.order is not None and case.count < case.order.gpus
    shared = case.machine.level in _SHARED_LOG
    if missing:
        return ("review" if shared else "reject"), fallen
    if shared:
        return None, []
    return ("review" if case.order is None else "advice"), fallen  # all that was ordered is there and works


def _lost(case: Case, subject: str, severity: Severity, evidence: list[Reading]) -> Finding:
    now = any(happened_now(r) for r in evidence)
    return case.finding(
        "gpu-lost",
        "degraded",
        severity,
        subject,
        "evidence",
        "NVML reference: error 15; Xid 79",
        {
            "state": N_("stopped answering")
            if now
            else N_("came back after a reset or restart")
            if works(case, subject)
            else N_("does not answer"),
            "when": N_("while the audit ran") if now else N_("before the audit"),
        },
        evidence,
    )


CAUSES = {
    "xid-recent": ("gpu-lost", "row-remap", "ecc-uncorrectable", "recovery-action", "power-brake"),
    "nvswitch-sxid": (),
    "not-measured": ("gpu-lost", "recovery-action"),
    "gpu-lost": (),
}

TEXTS = {
    "xid-recent": Text(
        N_("The kernel logged GPU errors"),
        N_("Xid {xids} {when}; the gravest, {xid:int}: {meaning}"),
        N_("no Xid that speaks of the hardware"),
        N_("NVIDIA's catalogue asks here: {action}."),
        N_("{subject}: Xid {xids} {when}. Please {action} and send the log of the last 30 days for this GPU."),
    ),
    "xid-of-others": Text(
        N_("The kernel log speaks of other GPUs"),
        N_("Xids of {addresses}, which are not GPUs of this server"),
        N_("nothing: not your GPUs"),
        N_("The kernel log is shared with others on the host; their errors are not held against you."),
    ),
    "nvswitch-sxid": Text(
        N_("NVSwitch errors"),
        N_("SXid {sxids} {when} (fatal: {fatal})"),
        N_("no fatal SXid"),
        N_("A fatal switch error takes NVLinks down until the fabric is reset."),
        N_("NVSwitch logged SXid {sxids} {when}. Please reset the fabric, and replace the tray if it returns."),
    ),
    "gpu-lost": Text(
        N_("A GPU fell off the bus"),
        N_("lost {when}; it {state}"),
        N_("a GPU that answers"),
        N_("The card lost its PCIe link: power, riser, seat or the card itself."),
        N_(
            "{subject} was lost {when} and {state}. Please restart the server and replace the GPU when it happens "
            "again; send the log of the last 30 days."
        ),
        {
            "unlisted": Text(
                N_("A GPU fell off the bus"),
                N_("the kernel lost the GPU at {addresses} {when}; it is no longer listed (GPUs listed: {count:int})"),
                N_("every GPU of the server listed and answering"),
                N_("The card lost its PCIe link and has not come back: power, riser, seat or the card itself."),
                N_(
                    "The GPU at PCI address {addresses} fell off the bus {when} and is gone. Please restart the "
                    "server, replace the GPU when it happens again, and send the log of the last 30 days."
                ),
            )
        },
    ),
}
