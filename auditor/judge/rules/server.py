"""The rest of the order: processors, memory, disk, network cards, driver; and settings of the cards."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import Finding
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.rule import rule
from auditor.judge.texts import N_, Text
from auditor.records import Reading

ORDER = "the order"


@rule
def host_short(case: Case) -> Iterator[Finding]:
    """Fewer processors or less memory than ordered, the cgroup's limit included."""
    if case.order is None:
        return
    view, order = case.view, case.order
    if order.cpus is not None:
        yield from _short(
            case, "cpus-short", order.cpus, 1.0, "server_facts_cpus_total", "server_facts_cpu_quota_total"
        )
    if order.ram_gb is not None:
        ratio = case.lines.ram_short.value
        limits = ("server_facts_memory_bytes", "server_facts_memory_limit_bytes")
        yield from _short(case, "ram-short", order.ram_gb * 1e9, ratio, *limits)
    if order.disk_gb is not None:
        free = max(view.all("server_facts_disk_free_bytes"), key=figure, default=None)
        if free is not None and figure(free) < 0.8 * order.disk_gb * 1e9:
            yield case.finding(
                "disk-short",
                "misallocated",
                "advice",
                "server",
                "order",
                ORDER,
                {"measured": figure(free), "expected": order.disk_gb * 1e9},
                (free,),
            )


def _short(case: Case, id: str, ordered: float, ratio: float, *metrics: str) -> Iterator[Finding]:
    readings = [r for metric in metrics if (r := case.view.one(metric)) is not None and figure(r) > 0]
    lowest = min(readings, key=figure, default=None)
    if lowest is not None and figure(lowest) < ratio * ordered:
        yield case.finding(
            id,
            "misallocated",
            "review",
            "server",
            "order",
            ORDER,
            {"measured": figure(lowest), "expected": ordered},
            readings,
        )


@rule
def nics_short(case: Case) -> Iterator[Finding]:
    """Fewer network cards of the ordered rate than ordered."""
    if case.order is None or case.order.nics is None:
        return
    wanted = case.order.nics
    rates = [r for r in case.view.all("network_interfaces_link_bits_per_second") if figure(r) > 0]
    if not rates:
        return
    line = 0.95 * (wanted.gbps or 0.0) * 1e9
    good = [r for r in rates if figure(r) >= line and not _virtual(case, r.subject)]
    if len(good) < wanted.count:
        yield case.finding(
            "nics-short",
            "misallocated",
            "review",
            "server",
            "order",
            ORDER,
            {"measured": len(good), "expected": wanted.count, "rate": (wanted.gbps or 0.0) * 1e9 or None},
            rates[:16],
        )


def _virtual(case: Case, nic: str) -> bool:
    return case.view.text("network_interfaces_kind", nic) == "virtual"


@rule
def ecc_off(case: Case) -> Iterator[Finding]:
    """ECC switched off on a data-centre card; GeForce and workstation cards ship without it."""
    for gpu in case.gpus:
        model = case.identities[gpu].model
        ecc = case.view.one("gpu_identity_ecc_enabled", gpu, which="current")
        if ecc is None or ecc.value is not False:
            continue
        by_dcgm = ecc.source.endswith(("/dcgmi", "/dcgm"))  # DCGM tests data-centre cards, and this is its complaint
        if model is None and not by_dcgm:
            continue
        if model and (
            model.geforce or model.cooling.startswith("active") or model.ecc in ("none", "toggle_off_by_default")
        ):
            continue
        yield case.finding(
            "ecc-off",
            "misallocated",
            "review",
            gpu,
            "evidence",
            "NVML reference: ECC mode; data-centre cards ship with it on",
            {"model": model.name if model else None},
            (ecc, case.view.one("gpu_identity_ecc_enabled", gpu, which="pending")),
        )


@rule
def persistence_off(case: Case) -> Iterator[Finding]:
    """Persistence mode off only makes the first call slow."""
    off: list[Reading] = [r for r in case.view.all("gpu_identity_persistence") if r.value is False]
    if off:
        yield case.finding(
            "persistence-off",
            "degraded",
            "info",
            "server",
            "evidence",
            "NVML reference: persistence mode",
            {"count": len(off)},
            off,
        )


CAUSES = {
    "cpus-short": ("virtualized",),
    "ram-short": ("virtualized",),
    "ecc-off": ("gpu-wrong-model",),
}

TEXTS = {
    "cpus-short": Text(
        N_("Fewer processors than ordered"),
        N_("{measured:int} CPUs usable"),
        N_("{expected:int} CPUs"),
        N_("Data loading and launches share fewer cores."),
        N_("{expected:int} CPUs were ordered, {measured:int} can be used. Please give the ordered number."),
    ),
    "ram-short": Text(
        N_("Less memory than ordered"),
        N_("{measured:GB} usable"),
        N_("{expected:GB}"),
        N_("Data sets and checkpoints that were planned for will not fit."),
        N_("{expected:GB} of memory were ordered, {measured:GB} can be used. Please give the ordered amount."),
    ),
    "disk-short": Text(
        N_("Less free disk than ordered"),
        N_("{measured:GB} free"),
        N_("{expected:GB}"),
        N_("The largest file system that was found has less room than ordered."),
        N_("{expected:GB} of disk were ordered, {measured:GB} are free. Please say where the rest is."),
    ),
    "nics-short": Text(
        N_("Fewer network cards than ordered"),
        N_("cards of the ordered rate that are up: {measured:int}"),
        N_("cards of {rate:Gbit/s}: {expected:int}"),
        N_("Multi-node training is sized for the ordered network."),
        N_("{expected:int} network cards were ordered, {measured:int} are up at their rate. Please complete them."),
    ),
    "ecc-off": Text(
        N_("ECC is off"),
        N_("ECC off on {gpu}"),
        N_("ECC on ({model})"),
        N_("Memory errors stay unseen and reach the results."),
        N_("ECC is off on {gpu}. Please switch it on (nvidia-smi -e 1) and reboot."),
    ),
    "persistence-off": Text(
        N_("Persistence mode is off"),
        N_("off (GPUs: {count:int})"),
        N_("on"),
        N_("Only the first call after idle is slow."),
    ),
}
