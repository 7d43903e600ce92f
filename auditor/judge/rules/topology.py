"""Paths between GPUs, processors and network cards: peer access, NUMA, near and far network cards."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import Finding, Severity
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.rule import rule
from auditor.judge.texts import N_, Text
from auditor.records import Reading

_NEAR = ("PIX", "PXB", "X")
_FAR = ("NODE", "SYS")
_METAL = ("bare metal", "metal cloud")
EVIDENCE = "NCCL user guide: GPU Direct, PCI access control services, virtual machines"


def blocked_peers(case: Case) -> list[Reading]:
    """Pairs whose peer access the driver refuses for reading or writing."""
    out = []
    for capability in ("read", "write"):
        for reading in case.view.all("topology_p2p_status", capability=capability):
            if reading.value not in ("ok", "unknown"):
                out.append(reading)
    return out


@rule
def p2p_disabled(case: Case) -> Iterator[Finding]:
    """GPUs that may not read each other's memory: by design on GeForce, a fault on boards with NVLink."""
    blocked = blocked_peers(case)
    model = case.model
    if not blocked or case.count < 2 or (model is None and not case.text_only):
        return
    severity: Severity = "review" if model is None or model.sxm or any(case.mesh.bonded.values()) else "advice"
    if model.geforce if model else {r.value for r in blocked} == {"gns"}:  # the word for GeForce by design
        severity = "info"
    refused = [r for r in case.view.all("topology_p2p_access") if r.value is False]
    yield case.finding(
        "p2p-disabled",
        "degraded",
        severity,
        "server",
        "evidence",
        EVIDENCE,
        {
            "pairs": len({r.subject for r in blocked}),
            "words": ", ".join(sorted({str(r.value) for r in blocked})),
            "model": model.name if model else None,
        },
        (*blocked[:8], *refused[:4]),
    )


@rule
def redirected(case: Case) -> Iterator[Finding]:
    """ACS redirect or a translating IOMMU sends peer traffic up to the root; right for passthrough, wrong on metal."""
    if case.machine.level not in _METAL or case.count < 2:
        return
    costly = bool(blocked_peers(case)) and case.model is not None and case.model.sxm
    acs = case.view.one("topology_acs_redirect")
    if acs is not None and str(acs.value).strip() not in ("", "none"):
        yield case.finding(
            "acs-on",
            "degraded",
            "review" if costly else "advice",
            "server",
            "evidence",
            EVIDENCE,
            {"ports": str(acs.value)},
            (acs,),
        )
    iommu = case.view.one("server_facts_iommu")
    if iommu is not None and "DMA" in str(iommu.value):
        yield case.finding(
            "iommu-translated",
            "degraded",
            "review" if costly else "info",
            "server",
            "evidence",
            EVIDENCE,
            {"types": str(iommu.value)},
            (iommu,),
        )


@rule
def across_numa(case: Case) -> Iterator[Finding]:
    """SYS between GPUs of one NUMA node (a virtual tree), or half a box spread over both sockets."""
    view = case.view
    nodes = {gpu: view.one("topology_numa_node", gpu) or view.one("gpu_identity_numa_node", gpu) for gpu in case.gpus}
    same: list[Reading] = []
    for pair, cell in case.mesh.cells.items():
        first, second = (nodes.get(gpu) for gpu in (view.members(pair) or ("", "")))
        known = first is not None and second is not None and first.value == second.value and figure(first) >= 0
        if cell.value == "SYS" and known:
            same.append(cell)
    if same:
        yield case.finding(
            "topology-cross-numa",
            "misallocated",
            "advice",
            "server",
            "floor",
            "acceptance limit (docs/thresholds.md): SYS between GPUs of one NUMA node",
            {"pairs": len(same), "what": N_("pairs of one NUMA node are joined by SYS")},
            (*same[:8], *[r for r in nodes.values() if r is not None][:8]),
        )
        return
    bus = view.one("server_facts_gpus_on_bus_total")
    spread = sorted({figure(r) for r in nodes.values() if r is not None and figure(r) >= 0})
    half = bus is not None and case.count > 1 and figure(bus) >= 2 * case.count
    if half and len(spread) > 1 and not any(case.mesh.bonded.values()):
        far = [cell for cell in case.mesh.cells.values() if cell.value == "SYS"]
        yield case.finding(
            "topology-cross-numa",
            "misallocated",
            "advice",
            "server",
            "evidence",
            "NUMA nodes of the GPUs (sysfs) and the PCI bus",
            {"pairs": len(far), "what": N_("pairs cross sockets although the GPUs would fit on one")},
            (bus, *far[:8]),
        )


@rule
def nic_far(case: Case) -> Iterator[Finding]:
    """A GPU without a near network card while a sibling has one; guests show no real tree and are not judged."""
    unsaid = case.text_only and case.machine.level == "unknown"  # a matrix alone does not say what machine it is
    if case.machine.level not in _METAL and not unsaid:
        return
    best: dict[str, Reading] = {}
    for cell in case.view.all("topology_path"):
        gpu, _, nic = cell.subject.partition("-")
        if gpu.startswith("gpu") and nic.startswith("nic") and (gpu not in best or _near(cell) > _near(best[gpu])):
            best[gpu] = cell
    near = [gpu for gpu, cell in best.items() if cell.value in _NEAR]
    far = [gpu for gpu, cell in best.items() if cell.value in _FAR]
    if not near:  # no switch at all: then the other socket is far
        far = [gpu for gpu, cell in best.items() if cell.value == "SYS"]
        near = [gpu for gpu in best if gpu not in far]
    if near and far:
        yield case.finding(
            "nic-far",
            "misallocated",
            "advice",
            "server",
            "siblings",
            "nvidia-smi topo: a NIC behind the GPU's own switch (PIX, PXB) is near",
            {"count": len(far), "gpus": ", ".join(far), "path": str(best[far[0]].value)},
            [best[gpu] for gpu in (*far, near[0])],
        )


def _near(cell: Reading) -> int:
    order = ("SYS", "NODE", "PHB", "PXB", "PIX", "X")
    return order.index(str(cell.value)) if cell.value in order else -1


@rule
def gdr_missing(case: Case) -> Iterator[Finding]:
    """No way for the network card to reach GPU memory: neither nvidia_peermem nor dma-buf of the open driver."""
    nics = [r for r in case.view.all("network_interfaces_rdma") if str(r.value) != "none"]
    peermem = case.view.one("server_facts_peermem")
    flavour = case.view.text("server_facts_driver_flavour")
    ordered = case.order is not None and case.order.nics is not None
    if nics and case.gpus and peermem is not None and peermem.value is False and flavour != "open":
        yield case.finding(
            "gdr-missing",
            "degraded",
            "review" if ordered else "advice",
            "server",
            "evidence",
            EVIDENCE,
            {"flavour": flavour},
            (peermem, *nics[:2]),
        )


CAUSES = {
    "p2p-disabled": ("nvlink-missing", "acs-on", "iommu-translated", "fm-not-running", "virtualized", "mig-sliced"),
    "acs-on": (),
    "topology-cross-numa": ("virtualized", "numa-hidden"),
}

TEXTS = {
    "p2p-disabled": Text(
        N_("GPUs may not reach each other's memory"),
        N_("pairs of GPUs that refuse peer access: {pairs:int} ({words})"),
        N_("peer access between all pairs"),
        N_("Copies go through host memory; collectives lose most of their speed."),
        N_("P2P status is {words} (pairs of GPUs: {pairs:int}). Please set iommu=pt and switch ACS redirect off."),
    ),
    "acs-on": Text(
        N_("ACS redirect is on"),
        N_("request redirect on ports {ports}"),
        N_("redirect off on bare metal"),
        N_("Peer traffic goes up to the root: slower, or broken GPUDirect RDMA."),
        N_("Please switch ACS redirect off on these ports: {ports}."),
    ),
    "iommu-translated": Text(
        N_("The IOMMU translates"),
        N_("group types {types}"),
        N_("identity (iommu=pt)"),
        N_("Translated DMA costs peer and network copies."),
        N_("Please boot with iommu=pt."),
    ),
    "topology-cross-numa": Text(
        N_("GPUs are joined across sockets"),
        N_("{pairs:int} {what}"),
        N_("GPUs of one socket or switch together"),
        N_("SYS is the slowest path: it crosses the link between processors."),
        N_("{pairs:int} GPU {what}. Please give GPUs of one socket, or expose the real topology."),
    ),
    "nic-far": Text(
        N_("Some GPUs have no near network card"),
        N_("{gpus}: {path} to their nearest card"),
        N_("PIX or PXB, as their siblings have"),
        N_("Multi-node traffic of these GPUs crosses host bridges or sockets."),
        N_("{gpus} have no network card near them while others do. Please check the slots."),
    ),
    "gdr-missing": Text(
        N_("GPUDirect RDMA is not available"),
        N_("nvidia_peermem is not loaded and the driver is {flavour}"),
        N_("nvidia_peermem, or the open driver with dma-buf"),
        N_("Network traffic of the GPUs takes a detour through host memory."),
        N_("Please load nvidia-peermem or install the open kernel modules with dma-buf."),
    ),
}
