"""Power, clocks and heat, judged under load only (the thermal probe's window).

A software power cap (reason 0x4) at the full limit is normal under tensor load and is no finding; temperature is
one only with a thermal reason or lost rate.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import Finding
from auditor.judge import statistics
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.rule import rule
from auditor.judge.texts import N_, Text
from auditor.records import Reading

_REASON = "thermal_event_reason_ratio"
_LIMIT = "gpu_identity_power_limit_watts"
EVIDENCE = "NVML reference: clocks event reasons (0x8 slowdown, 0x20 and 0x40 thermal, 0x80 power brake)"


@rule
def power_capped(case: Case) -> Iterator[Finding]:
    """A power limit below the board's own default, or a limit enforced from elsewhere below the one that is set."""
    for gpu in case.gpus:
        view = case.view
        now, default, enforced = (view.one(_LIMIT, gpu, which=which) for which in ("now", "default", "enforced"))
        if now is None or default is None or not figure(default) > 0:
            continue
        lowest = min((r for r in (now, enforced) if r is not None), key=figure)
        if figure(lowest) < case.lines.power_cap.value * figure(default):
            yield case.finding(
                "power-capped",
                "misallocated",
                "review",
                gpu,
                "spec",
                case.lines.power_cap.source,
                {
                    "measured": figure(lowest),
                    "expected": figure(default),
                    "where": N_("enforced by module or BMC") if lowest is enforced else N_("set in the driver"),
                },
                (now, default, enforced),
            )


@rule
def clock_locked(case: Case) -> Iterator[Finding]:
    """Application clocks below their default, or an SM clock that stays below its maximum without any reason."""
    for gpu in case.gpus:
        view = case.view
        for kind in ("sm", "memory"):
            set_, default = (
                view.one(f"gpu_identity_{kind}_clock_hertz", gpu, which=which)
                for which in ("application", "default_application")
            )
            if set_ is not None and default is not None and figure(set_) < 0.99 * figure(default):
                yield _locked(case, gpu, figure(set_), figure(default), (set_, default))
        yield from _held_down(case, gpu)


def _held_down(case: Case, gpu: str) -> Iterator[Finding]:
    view, lines = case.view, case.lines
    reached = view.one("thermal_sm_clock_hertz", gpu, stat="max")
    top = view.one("gpu_identity_sm_clock_hertz", gpu, which="max")
    watts = view.number("thermal_watts", gpu, stat="mean")
    limit = view.number(_LIMIT, gpu, which="now")
    if reached is None or top is None or watts is None or not limit:
        return
    reasons = [r for r in view.all(_REASON, gpu) if r.conditions.get("reason") not in ("idle", "applications_clocks")]
    if not reasons or any(figure(r) > lines.reason_share.value for r in reasons):
        return
    if figure(reached) < (1 - lines.clock_below_max.value) * figure(top) and watts < 0.95 * limit:
        yield _locked(case, gpu, figure(reached), figure(top), (reached, top, *reasons))


def _locked(case: Case, gpu: str, measured: float, expected: float, evidence: tuple[Reading, ...]) -> Finding:
    return case.finding(
        "clock-locked",
        "misallocated",
        "review",
        gpu,
        "spec",
        case.lines.clock_below_max.source,
        {"measured": measured, "expected": expected},
        evidence,
    )


@rule
def throttled(case: Case) -> Iterator[Finding]:
    """The driver's own reasons for a lower clock: external brake, heat, and a hardware slowdown without either."""
    lines = case.lines
    for gpu in case.gpus:
        shares = {str(r.conditions.get("reason")): r for r in case.view.all(_REASON, gpu)}
        active = {
            str(r.conditions.get("reason")): r for r in case.view.all("gpu_health_event_reason", gpu) if r.value is True
        }
        brake = _share(shares, "hw_power_brake") > lines.brake_share.value or "hw_power_brake" in active
        hot = _share(shares, "hw_thermal") > lines.reason_share.value or "hw_thermal" in active
        counted = case.view.all("gpu_health_violation_seconds", gpu, policy="thermal", when="audit")
        held = max(counted, key=figure, default=None)
        grown = held is not None and figure(held) > lines.reason_share.value * _measuring(case)
        warm = _share(shares, "sw_thermal") > lines.reason_share.value or "sw_thermal" in active or grown
        slowed = _share(shares, "hw_slowdown") > lines.reason_share.value or "hw_slowdown" in active
        for id, severity, reason, hit in (
            ("power-brake", "reject", "hw_power_brake", brake),
            ("hw-thermal", "review", "hw_thermal", hot),
            ("sw-thermal", "review", "sw_thermal", warm),
            ("hw-slowdown-only", "review", "hw_slowdown", slowed and not brake and not hot),
        ):
            if hit:
                yield case.finding(
                    id,
                    "degraded",
                    "reject" if severity == "reject" else "review",
                    gpu,
                    "evidence",
                    EVIDENCE,
                    {
                        "share": figure(shares[reason]) if reason in shares else None,
                        "celsius": case.view.number("thermal_gpu_celsius", gpu, stat="max"),
                        "clock": case.view.number("thermal_sm_clock_hertz", gpu, stat="mean"),
                        "watts": case.view.number("thermal_watts", gpu, stat="mean"),
                    },
                    (
                        shares.get(reason),
                        active.get(reason),
                        held if grown and id == "sw-thermal" else None,
                        case.view.one("thermal_gpu_celsius", gpu, stat="max"),
                    ),
                )


def _measuring(case: Case) -> float:
    """Seconds of load in this audit, at least the thermal window's."""
    return max(case.view.record.seconds.measuring if case.view.record else 0.0, 10.0)


def _share(shares: dict[str, Reading], reason: str) -> float:
    return figure(shares[reason]) if reason in shares else 0.0


@rule
def too_hot(case: Case) -> Iterator[Finding]:
    """Above 80 degrees sustained, or 15 above the siblings, and only when heat costs something."""
    heat = case.per_gpu("thermal_gpu_celsius", stat="steady")
    for gpu, reading in case.per_gpu("thermal_gpu_celsius", stat="max").items():
        heat.setdefault(gpu, reading)
    for gpu, reading in heat.items():
        witness = _heat_costs(case, gpu)
        if witness is None:
            continue
        others = [figure(r) for other, r in heat.items() if other != gpu]
        if figure(reading) > case.lines.temperature_floor.value:
            yield _hot(case, "temperature-above-floor", gpu, reading, case.lines.temperature_floor.value, witness)
        elif others:
            usual = statistics.peers(others).median
            if figure(reading) - usual > case.lines.hotter_than_siblings.value:
                yield _hot(case, "hotter-than-siblings", gpu, reading, usual, witness)


def _heat_costs(case: Case, gpu: str) -> Reading | None:
    """The reading that shows a price of heat: a thermal reason, or a rate that fell during the load."""
    for reason in ("hw_thermal", "sw_thermal"):
        reading = case.view.one(_REASON, gpu, reason=reason)
        if reading is not None and figure(reading) > case.lines.reason_share.value:
            return reading
    first = case.view.number("thermal_flops_per_second", gpu, window="first")
    last = case.view.one("thermal_flops_per_second", gpu, window="last")
    if first and last is not None and figure(last) < (1 - case.lines.lost_rate.value) * first:
        return last
    return None


def _hot(case: Case, id: str, gpu: str, reading: Reading, line: float, witness: Reading) -> Finding:
    floor = id == "temperature-above-floor"
    return case.finding(
        id,
        "degraded",
        "review",
        gpu,
        "floor" if floor else "siblings",
        case.lines.temperature_floor.source if floor else case.lines.hotter_than_siblings.source,
        {"measured": figure(reading), "expected": line},
        (reading, witness),
    )


CAUSES = {
    "temperature-above-floor": ("hw-thermal", "sw-thermal"),
    "hotter-than-siblings": ("hw-thermal", "sw-thermal"),
    "sw-thermal": ("hw-thermal",),
    "hw-slowdown-only": ("power-brake",),
    "clock-locked": ("power-brake", "mig-sliced", "vgpu-grid"),
    "power-capped": ("gpu-wrong-model", "vgpu-grid"),
    "hw-thermal": (),
}

TEXTS = {
    "power-capped": Text(
        N_("The power limit is lowered"),
        N_("{measured:W} ({where})"),
        N_("{expected:W}, the board's default"),
        N_("Sustained rates fall with the power limit."),
        N_(
            "{gpu} is limited to {measured:W} of {expected:W}. Please restore the default (nvidia-smi -pl "
            "{expected:int})."
        ),
    ),
    "clock-locked": Text(
        N_("The clock is held down"),
        N_("{measured:MHz} under load"),
        N_("{expected:MHz}; no power or heat reason speaks against it"),
        N_("Somebody locked the clock: the GPU never reaches the rate that was paid for."),
        N_(
            "{gpu} stays at {measured:MHz} of {expected:MHz} without a reason. Please reset it (nvidia-smi -rgc "
            "-rmc -rac)."
        ),
    ),
    "power-brake": Text(
        N_("An external power brake is on"),
        N_("{share:%} of the load's time; {clock:MHz}, {watts:W}"),
        N_("never"),
        N_("Power supply, BMC or rack cap hold the GPU down; usually the whole server suffers."),
        N_("HW power brake is active on {gpu}. Please check PSU redundancy, BMC power policy and the 12 V feed."),
    ),
    "hw-thermal": Text(
        N_("The GPU protects itself from heat"),
        N_("{share:%} of the load's time at up to {celsius:°C}"),
        N_("never under a normal load"),
        N_("The hardware halves its clock: cooling has failed or is blocked."),
        N_("{gpu} throttles by heat at {celsius:°C}. Please check fans, airflow and paste, or replace the GPU."),
    ),
    "sw-thermal": Text(
        N_("The driver slows the GPU for heat"),
        N_("{share:%} of the load's time at up to {celsius:°C}"),
        N_("never under a normal load"),
        N_("The GPU runs at its temperature target: cooling is too weak for the load."),
        N_("{gpu} is slowed by heat at {celsius:°C}. Please check fans, airflow and paste."),
    ),
    "hw-slowdown-only": Text(
        N_("A hardware slowdown without heat or brake"),
        N_("{share:%} of the load's time"),
        N_("never"),
        N_("A fault in power delivery, or an external signal."),
        N_("{gpu} reports a hardware slowdown without a thermal reason. Please check its power delivery."),
    ),
    "temperature-above-floor": Text(
        N_("The GPU is too hot"),
        N_("{measured:°C} sustained, and it costs rate"),
        N_("at most {expected:°C}"),
        N_("Heat already costs speed and will cost life."),
        N_("{gpu} holds {measured:°C} under load and loses rate. Please check fans, airflow and paste."),
    ),
    "hotter-than-siblings": Text(
        N_("One GPU is much hotter than the others"),
        N_("{measured:°C}, and it costs rate"),
        N_("{expected:°C}, the median of its siblings"),
        N_("Airflow or paste of this one GPU."),
        N_("{gpu} runs at {measured:°C}, its siblings at {expected:°C}. Please check fans, airflow and paste."),
    ),
}
