"""The host beside its GPUs: stolen and throttled CPU time, too small a host, network links, slow storage paths.

What was ordered of processors, memory, disk and cards is held against the order in rules/server.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import Finding
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.rule import rule
from auditor.judge.standing import happened_now
from auditor.judge.texts import N_, Text
from auditor.records import Reading

_RDMA_ERRORS = ("link_downed", "symbol_error", "port_rcv_errors", "link_error_recovery")


@rule
def steal_time(case: Case) -> Iterator[Finding]:
    """CPU time the hypervisor gave to others while we worked; zero proves nothing."""
    ratio, window = case.view.one("steal_time_ratio"), case.view.number("steal_time_window_seconds")
    if ratio is None or window is None or window < case.lines.steal_window.value:
        return
    if figure(ratio) > case.lines.steal.value:
        yield case.finding(
            "steal-time",
            "degraded",
            "advice",
            "server",
            "evidence",
            case.lines.steal.source,
            {"measured": figure(ratio), "expected": case.lines.steal.value, "window": window},
            (ratio, case.view.one("steal_time_window_seconds")),
        )


@rule
def cpu_throttled(case: Case) -> Iterator[Finding]:
    """The container's CPU quota was used up while we worked: launches and data loading stall."""
    ratio = case.view.one("steal_time_throttled_ratio")
    if ratio is not None and figure(ratio) > case.lines.steal.value:
        yield case.finding(
            "cpu-throttled",
            "degraded",
            "advice",
            "server",
            "evidence",
            "nr_throttled of cgroup cpu.stat (docs/method.md, host_cpu)",
            {"measured": figure(ratio)},
            (ratio, case.view.one("server_facts_cpu_quota_total")),
        )


@rule
def too_small(case: Case) -> Iterator[Finding]:
    """Too few processors, or less memory than the GPUs have of their own: not ordered, but felt in training."""
    if not case.count:
        return
    view = case.view
    cpus = _least(view.one("server_facts_cpus_total"), view.one("server_facts_cpu_quota_total"))
    if (
        cpus is not None
        and figure(cpus) < case.lines.cpus_per_gpu.value * case.count
        and not _was_ordered(case, "cpus")
    ):
        yield case.finding(
            "cpu-side",
            "underperforming",
            "advice",
            "server",
            "evidence",
            case.lines.cpus_per_gpu.source,
            {
                "what": N_("processors"),
                "measured": figure(cpus),
                "expected": case.lines.cpus_per_gpu.value * case.count,
                "memory": view.number("server_facts_memory_bytes"),
            },
            (cpus,),
        )
    memory = _least(view.one("server_facts_memory_bytes"), view.one("server_facts_memory_limit_bytes"))
    cards = [figure(r) for r in case.per_gpu("gpu_identity_memory_bytes").values()]
    if memory is not None and cards and figure(memory) < sum(cards) and not _was_ordered(case, "ram_gb"):
        yield case.finding(
            "ram-below-gpu-memory",
            "underperforming",
            "advice",
            "server",
            "evidence",
            "memory below the GPUs' own (docs/thresholds.md, health)",
            {"measured": figure(memory), "expected": sum(cards)},
            (memory,),
        )


@rule
def small_shared_memory(case: Case) -> Iterator[Finding]:
    """Shared memory as container runtimes make it (64 MiB): NCCL and data loaders of many processes end in errors."""
    shm = case.view.one("server_facts_shm_bytes")
    if shm is not None and case.count and 0 < figure(shm) < case.lines.shm_small.value:
        yield case.finding(
            "shm-small",
            "underperforming",
            "advice",
            "server",
            "evidence",
            case.lines.shm_small.source,
            {"measured": figure(shm), "expected": case.lines.shm_small.value},
            (shm, case.view.one("server_facts_container")),
        )


def _was_ordered(case: Case, key: str) -> bool:
    """The order names the size: then rules/server.py judges it, and what was ordered is what was wanted."""
    return case.order is not None and getattr(case.order, key) is not None


def _least(*readings: Reading | None) -> Reading | None:
    return min((r for r in readings if r is not None and figure(r) > 0), key=figure, default=None)


@rule
def links_down(case: Case) -> Iterator[Finding]:
    """RDMA and network cards without a link, where the order counts cards or siblings have one."""
    view = case.view
    nics = [nic for nic in view.nics if view.text("network_interfaces_kind", nic) not in (None, "virtual")]
    up = [nic for nic in nics if view.text("network_interfaces_link", nic) == "up"]
    for nic in nics:
        link = view.one("network_interfaces_link", nic)
        if link is None or link.value != "down":
            continue
        rdma = view.text("network_interfaces_rdma", nic) not in (None, "none")
        # A spare port without a cable is nothing; an RDMA port beside others that are up is.
        peers = [n for n in up if view.text("network_interfaces_rdma", n) not in (None, "none")]
        missed = case.order is not None and case.order.nics is not None and len(up) < case.order.nics.count
        yield case.finding(
            "ib-down",
            "degraded",
            "review" if missed else "advice" if rdma and peers else "info",
            nic,
            "order" if missed else "siblings",
            "the order" if missed else "other cards of this server",
            {"nic": view.text("network_interfaces_name", nic), "up": len(up), "of": len(nics)},
            (link, *view.all("network_interfaces_rdma_state", nic), *view.all("network_interfaces_rdma", nic)),
        )


@rule
def rate_below_order(case: Case) -> Iterator[Finding]:
    """A card that has its link at less than the ordered rate."""
    if case.order is None or case.order.nics is None or case.order.nics.gbps is None:
        return
    view, ordered = case.view, case.order.nics.gbps * 1e9
    fast = [r for r in view.all("network_interfaces_link_bits_per_second") if figure(r) >= 0.95 * ordered]
    if len(fast) >= case.order.nics.count:
        return  # the ordered cards are there; others may be slower
    for nic in view.nics:
        rate = view.one("network_interfaces_link_bits_per_second", nic)
        if rate is None or not 0 < figure(rate) < 0.95 * ordered:
            continue
        if view.text("network_interfaces_kind", nic) in ("infiniband", "roce"):
            yield case.finding(
                "nic-rate-low",
                "misallocated",
                "review",
                nic,
                "order",
                "the order",
                {
                    "nic": view.text("network_interfaces_name", nic),
                    "measured": figure(rate),
                    "expected": ordered,
                },
                (rate,),
            )


@rule
def network_errors(case: Case) -> Iterator[Finding]:
    """RDMA links that lost packets or went down while we worked."""
    for nic in case.view.nics:
        rows = [
            r
            for r in case.view.all("network_interfaces_errors_total", nic)
            if happened_now(r) and figure(r) > 0 and r.conditions.get("counter") in _RDMA_ERRORS
        ]
        if rows:
            worst = max(rows, key=figure)
            yield case.finding(
                "nic-errors",
                "degraded",
                "review" if any(r.conditions.get("counter") == "link_downed" for r in rows) else "advice",
                nic,
                "evidence",
                "state and rate of the ports (docs/method.md, network_interfaces)",
                {
                    "nic": case.view.text("network_interfaces_name", nic),
                    "counter": str(worst.conditions.get("counter")),
                    "measured": figure(worst),
                },
                rows,
            )


@rule
def not_past_the_cache(case: Case) -> Iterator[Finding]:
    """Storage figures of the page cache say nothing about the disk."""
    cached = [r for r in case.view.all("storage_bytes_per_second") if r.conditions.get("direct") is False]
    if cached:
        yield case.finding(
            "storage-not-direct",
            "incomplete",
            "info",
            "server",
            "evidence",
            "docs/method.md, storage",
            {"file_system": case.view.text("storage_file_system"), "measured": max(map(figure, cached))},
            cached,
        )


CAUSES = {
    "steal-time": ("virtualized",),
    "cpu-throttled": (),
    "ram-below-gpu-memory": ("ram-short",),
    "cpu-side": ("cpus-short",),
    "nics-short": ("ib-down", "nic-rate-low"),
    "nic-errors": ("ib-down",),
    "nic-rate-low": ("ib-down",),
}

TEXTS = {
    "steal-time": Text(
        N_("The host gives CPU time to others"),
        N_("{measured:%} stolen over {window:s}"),
        N_("below {expected:%}"),
        N_("Other guests run on your processors: launches and data loading stall at random."),
        N_("CPU steal {measured:%} over {window:s}. Please migrate the guest or pin dedicated cores."),
    ),
    "cpu-throttled": Text(
        N_("The CPU quota is used up"),
        N_("throttled in {measured:%} of the periods"),
        N_("no throttling"),
        N_("The container may use fewer processors than it shows; everything waits when the quota is over."),
        N_("The CPU quota throttles this container in {measured:%} of its periods. Please raise it."),
    ),
    "cpu-side": Text(
        N_("Few processors for the GPUs"),
        N_("{measured:int} CPUs"),
        N_("{expected:int} CPUs or more"),
        N_("Data loading and launches of all GPUs share them."),
    ),
    "shm-small": Text(
        N_("Shared memory is too small for training"),
        N_("{measured:GiB} in /dev/shm"),
        N_("{expected:GiB} or more"),
        N_("NCCL and data loaders pass data through it; with 64 MiB, a container's default, they end in bus errors."),
        N_("Shared memory (/dev/shm) is {measured:GiB}. Please raise it to 16 GiB or more (docker run --shm-size)."),
    ),
    "ram-below-gpu-memory": Text(
        N_("Less memory than the GPUs have"),
        N_("{measured:GiB} of memory"),
        N_("{expected:GiB}, what the GPUs have together"),
        N_("Loading a model or a checkpoint through the host needs room for all of it."),
    ),
    "ib-down": Text(
        N_("A network card has no link"),
        N_("{nic} is down; {up:int} of {of:int} cards are up"),
        N_("a link on every card that was paid for"),
        N_("Multi-node training loses this card's share of the rate."),
        N_("{nic} has no link. Please connect it or say which cards are in use."),
    ),
    "nic-rate-low": Text(
        N_("A network link below the ordered rate"),
        N_("{nic}: {measured:Gbit/s}"),
        N_("{expected:Gbit/s}"),
        N_("Multi-node training gets this share of the ordered rate."),
        N_("{nic} runs at {measured:Gbit/s}, {expected:Gbit/s} were ordered. Please check cable, port and switch."),
    ),
    "nic-errors": Text(
        N_("Network errors during the audit"),
        N_("{nic}: {counter} {measured:int}"),
        N_("none"),
        N_("The link loses packets or goes down: cable, optics or port."),
        N_("{nic} counted {counter} {measured:int} during the audit. Please check cable and optics."),
    ),
    "storage-not-direct": Text(
        N_("Storage was measured through the page cache"),
        N_("{measured:GB/s} on {file_system}"),
        N_("figures past the cache (O_DIRECT)"),
        N_("This file system takes no direct access: the figure is the memory's, not the disk's."),
    ),
}
