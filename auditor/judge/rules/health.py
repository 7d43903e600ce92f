"""Memory errors, row remapping, retired pages, repairs, recovery actions: what a GPU's own counters say of it.

A counter covers the time since the driver was loaded or for ever, former tenants included: what it rose by during
the audit is held against the server, what stood there before is history.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import Finding, Severity
from auditor.judge import xids
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.rule import rule
from auditor.judge.standing import happened_now, wanted_actions, worse
from auditor.judge.texts import N_, Text
from auditor.records import Reading, Value

_ECC = "gpu_health_ecc_errors_total"
_ROWS = "gpu_health_remapped_rows_total"


@rule
def uncorrected_errors(case: Case) -> Iterator[Finding]:
    """Uncorrected ECC errors while we worked reject a GPU; those of earlier times are history."""
    for gpu in case.gpus:
        errors = [r for r in case.view.all(_ECC, gpu, kind="uncorrected") if figure(r) > 0]
        now = [r for r in errors if happened_now(r)]
        exceeded = [r for r in case.view.all("gpu_health_sram_threshold_exceeded", gpu) if r.value is True]
        if not errors and not exceeded:
            continue
        yield case.finding(
            "ecc-uncorrectable",
            "degraded",
            "reject" if now or exceeded else "advice",
            gpu,
            "evidence",
            "NVML: nvmlDeviceGetTotalEccErrors (docs/thresholds.md, health)",
            {
                "audit": max(map(figure, now), default=0.0),
                "history": max((figure(r) for r in errors if r not in now), default=0.0),
                "what": N_("uncorrected errors, in the caches past the driver's threshold")
                if exceeded
                else N_("uncorrected errors"),
            },
            (*errors, *exceeded),
        )


@rule
def corrected_errors(case: Case) -> Iterator[Finding]:
    """Corrected ECC errors that come while we work: the rate matters, not what former tenants left."""
    for gpu in case.gpus:
        now = [r for r in case.view.all(_ECC, gpu, kind="corrected", when="audit") if figure(r) > 0]
        if now:
            yield case.finding(
                "ecc-correctable",
                "degraded",
                "advice",
                gpu,
                "evidence",
                "docs/thresholds.md, health: of corrected errors the rate matters",
                {"audit": max(map(figure, now))},
                now,
            )


@rule
def row_remap(case: Case) -> Iterator[Finding]:
    """Rows that could not be remapped ask for another card, pending ones for a reset; many corrected are a sign."""
    for gpu in case.gpus:
        view = case.view
        failed = [r for r in view.all("gpu_health_remap_failure", gpu) if r.value is True]
        pending = [r for r in view.all("gpu_health_remap_pending", gpu) if r.value is True]
        rows = [r for r in view.all(_ROWS, gpu) if figure(r) > 0]
        lost = [r for r in rows if r.conditions.get("kind") == "uncorrected"]
        severity: Severity | None = None
        if failed:
            severity = "reject"
        elif pending or any(happened_now(r) for r in lost):
            severity = "review"
        elif lost or any(figure(r) > case.lines.correctable_remaps.value for r in rows):
            severity = "advice"
        if severity is not None:
            yield case.finding(
                "row-remap",
                "degraded",
                severity,
                gpu,
                "evidence",
                "NVML: nvmlDeviceGetRemappedRows; " + case.lines.correctable_remaps.source,
                {
                    "uncorrected": _count(rows, "uncorrected"),
                    "corrected": _count(rows, "corrected"),
                    "state": N_("a remapping failed")
                    if failed
                    else N_("a remapping waits for a reset")
                    if pending
                    else N_("nothing pending"),
                    "action": N_("replace the GPU") if failed else N_("drain and reset the GPU"),
                },
                (*failed, *pending, *rows),
            )


def _count(rows: list[Reading], kind: str) -> float:
    return max((figure(r) for r in rows if r.conditions.get("kind") == kind), default=0.0)


@rule
def retired_pages(case: Case) -> Iterator[Finding]:
    """Before Ampere memory pages are retired: many of them, or some that wait, ask for a repair."""
    for gpu in case.gpus:
        pending = [r for r in case.view.all("gpu_health_retired_pending", gpu) if r.value is True]
        pages = [r for r in case.view.all("gpu_health_retired_pages_total", gpu) if figure(r) > 0]
        standing = [r for r in pages if not happened_now(r)]
        total = sum({str(r.conditions.get("cause")): figure(r) for r in standing}.values())
        grown = [r for r in pages if happened_now(r)]
        if not pending and not pages:
            continue
        many = total >= case.lines.retired_pages.value
        yield case.finding(
            "retired-pages",
            "degraded",
            "review" if pending or many or grown else "advice",
            gpu,
            "evidence",
            case.lines.retired_pages.source,
            {"pages": total, "state": N_("some wait for a reset") if pending else N_("nothing pending")},
            (*pending, *pages),
        )


@rule
def repairs(case: Case) -> Iterator[Finding]:
    """Memory that cannot be repaired, or that waits for the repair of a channel or processing cluster."""
    for gpu in case.gpus:
        waiting = [r for r in case.view.all("gpu_health_repair_pending", gpu) if r.value is True]
        for id, chosen in (
            ("unrepairable-memory", [r for r in waiting if r.conditions.get("what") == "unrepairable"]),
            ("channel-repair-pending", [r for r in waiting if r.conditions.get("what") != "unrepairable"]),
        ):
            if chosen:
                yield case.finding(
                    id,
                    "degraded",
                    "reject",
                    gpu,
                    "evidence",
                    "nvidia-smi: Channel Repair Pending, TPC Repair Pending, Unrepairable Memory",
                    {"what": ", ".join(sorted({str(r.conditions.get("what")) for r in chosen}))},
                    chosen,
                )


@rule
def recovery_action(case: Case) -> Iterator[Finding]:
    """What the driver asks to be done before the GPU can be trusted again; a refusal that asks for a reset is one."""
    for gpu in case.gpus:
        wanted = wanted_actions(case, gpu)
        refused = [r for r in case.view.all("gpu_health_fault", gpu) if r.value == "reset_required"]
        if not wanted and not refused:
            continue
        severity: Severity = "review"
        for r in wanted:
            severity = worse(severity, xids.ACTIONS.get(str(r.value), "review"))
        yield case.finding(
            "recovery-action",
            "degraded",
            severity,
            gpu,
            "evidence",
            "NVML reference: GPU recovery action (field 230), error 16",
            _asked(str(wanted[0].value) if wanted else "gpu_reset"),
            (*wanted, *refused),
        )


_ASKS = {
    "gpu_reset": N_("a reset of the GPU"),
    "node_reboot": N_("a restart of the server"),
    "drain_p2p": N_("draining the GPU's links to others"),
    "drain_and_reset": N_("draining and resetting the GPU"),
    "recover_imex": N_("a recovery of the multi-node service (IMEX)"),
    "bus_reset": N_("a reset of the PCIe bus"),
    "system_reboot": N_("a restart of the whole system"),
}


def _asked(action: str) -> dict[str, Value]:
    return {"action": action, "asks": _ASKS.get(action, action)}


@rule
def gpu_blocked(case: Case) -> Iterator[Finding]:
    """The driver lists a GPU that the system does not let us use: a cgroup or the provider's container blocks it."""
    for subject in (*case.gpus, "server"):
        blocked = [r for r in case.view.all("gpu_health_fault", subject) if r.value == "os_blocked"]
        if blocked:
            yield case.finding(
                "gpu-blocked",
                "degraded",
                "review",
                subject,
                "evidence",
                "NVML reference: error 17, blocked by the operating system",
                {"where": str(blocked[0].conditions.get("where"))},
                blocked,
            )


@rule
def unreadable_part(case: Case) -> Iterator[Finding]:
    """A fan, power or temperature reading that comes back as an error: the sensor or its bus is broken."""
    for gpu in case.gpus:
        broken = [r for r in case.view.all("gpu_health_fault", gpu) if r.value in ("err", "unknown_error")]
        if broken:
            yield case.finding(
                "fan-err",
                "degraded",
                "advice",
                gpu,
                "evidence",
                "nvidia-smi: ERR! in the fan or power column (docs/thresholds.md, health)",
                {"where": ", ".join(sorted({str(r.conditions.get("where")) for r in broken}))},
                broken,
            )


@rule
def event_counters(case: Case) -> Iterator[Finding]:
    """Times the driver kept since it was loaded: a brake or heat before us is history worth asking about."""
    harmless: list[Reading] = []
    for gpu in case.gpus:
        kept = [r for r in case.view.all("gpu_health_event_reason_seconds", gpu) if figure(r) > 0]
        before = [r for r in kept if not happened_now(r)]
        grave = [r for r in before if r.conditions.get("reason") in ("hw_power_brake", "hw_thermal", "sw_thermal")]
        if grave:
            yield _slowed(case, gpu, "advice", grave)
        else:
            harmless += before
    if harmless:
        yield _slowed(case, "server", "info", harmless)


_REASONS = {
    "sw_power_cap": N_("power cap"),
    "sync_boost": N_("waiting for other GPUs (sync boost)"),
    "sw_thermal": N_("heat (software)"),
    "hw_thermal": N_("heat (hardware)"),
    "hw_power_brake": N_("power brake"),
}


def _slowed(case: Case, subject: str, severity: Severity, rows: list[Reading]) -> Finding:
    longest = max(rows, key=figure)
    return case.finding(
        "event-counters",
        "degraded",
        severity,
        subject,
        "evidence",
        "nvidia-smi: Clocks Event Reasons Counters (docs/thresholds.md, health)",
        {
            "reason": _REASONS.get(str(longest.conditions.get("reason")), str(longest.conditions.get("reason"))),
            "measured": figure(longest),
        },
        rows,
    )


CAUSES = {
    "ecc-uncorrectable": ("row-remap", "unrepairable-memory"),
    "recovery-action": ("gpu-lost", "row-remap", "ecc-uncorrectable", "unrepairable-memory", "channel-repair-pending"),
    "row-remap": ("unrepairable-memory",),
    "event-counters": ("power-brake", "hw-thermal", "sw-thermal"),
}

TEXTS = {
    "ecc-uncorrectable": Text(
        N_("Uncorrected memory errors"),
        N_("{what}: {audit:int} during the audit, {history:int} before"),
        N_("none during the audit"),
        N_("Each such error ends a job; a card that makes them under load makes them again."),
        N_(
            "{gpu}: {audit:int} uncorrected ECC errors during the audit, {history:int} before. Please drain and reset "
            "it, and replace it if they return within 30 days."
        ),
    ),
    "ecc-correctable": Text(
        N_("Corrected memory errors during the audit"),
        N_("{audit:int} during the audit"),
        N_("none in so short a time"),
        N_("Corrected errors cost nothing, but a steady rate often comes before uncorrected ones."),
        N_("{gpu} corrected {audit:int} memory errors during a short audit. Please watch it."),
    ),
    "row-remap": Text(
        N_("Memory rows were remapped"),
        N_("{uncorrected:int} rows for uncorrected errors, {corrected:int} for corrected ones; {state}"),
        N_("no row lost, nothing pending"),
        N_("The card has used spare memory rows. A failed remapping is the manufacturer's criterion for replacement."),
        N_("{gpu}: {state} ({uncorrected:int} rows for uncorrected errors). Please {action}."),
    ),
    "retired-pages": Text(
        N_("Memory pages were retired"),
        N_("pages: {pages:int}; {state}"),
        N_("fewer than 60, none pending"),
        N_("The card loses memory pages to errors."),
        N_("{gpu}: {pages:int} retired pages, {state}. Please reset it, or replace it when there are 60 or more."),
    ),
    "unrepairable-memory": Text(
        N_("GPU memory beyond repair"),
        N_("the driver reports memory that cannot be repaired"),
        N_("no such memory"),
        N_("The card has no spare memory left to repair itself with."),
        N_("{gpu} reports unrepairable memory. Please replace it."),
    ),
    "channel-repair-pending": Text(
        N_("A repair of the GPU is pending"),
        N_("waiting: {what}"),
        N_("no repair pending"),
        N_("Part of the card is out of order until it is repaired."),
        N_("{gpu} waits for a repair ({what}). Please have it done and reset the GPU, or replace it."),
    ),
    "recovery-action": Text(
        N_("The driver asks for a recovery action"),
        N_("{asks}"),
        N_("none"),
        N_("Until this is done the driver does not vouch for the GPU."),
        N_("{gpu}: the driver asks for {asks}. Please do it; then we audit again."),
    ),
    "gpu-blocked": Text(
        N_("The system blocks a GPU"),
        N_("blocked by the operating system ({where})"),
        N_("a GPU that may be used"),
        N_("A container or device rule keeps a GPU away that the driver lists."),
        N_("{subject} is listed but blocked. Please give access to it."),
    ),
    "fan-err": Text(
        N_("A sensor of the GPU cannot be read"),
        N_("error where a value should stand: {where}"),
        N_("a value"),
        N_("Fan, power sensor or their bus is broken: watch the temperature under load."),
        N_("{gpu} reports an error for {where}. Please check fan and sensors."),
    ),
    "event-counters": Text(
        N_("The card was slowed down before"),
        N_("{reason} for {measured:s} since the driver was loaded"),
        N_("nothing but the power cap"),
        N_("History of the card, former tenants included; it was not slowed down like this during the audit."),
    ),
}
