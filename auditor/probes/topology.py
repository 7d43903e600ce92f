"""Who reaches whom by which path, at rest: NVLink, PCIe, peer access, fabric, network cards.

Pair by pair: NVML's common ancestor beside the one that sysfs shows, and the NVLinks that serve the pair. The path is
what `nvidia-smi topo -m` prints: NV# where links are bonded between the two, through switches the GPU's own links that
reach them, else the common ancestor. Each link's state and far end, PCIe of the GPU and of every port above it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple

from auditor.records import Reading, Value

from .engine import nics, pci_paths, tree
from .engine.gpu_facts import GpuFacts, pci_address, same_address
from .engine.nvml import Nvml, NvmlRefusal, value

KEY = "topology"
SCOPE = "server"
DEVICES = ("cuda",)
NEEDS = ()  # type: Tuple[str, ...]
METHOD = 1
ORDER = 12
SECONDS = {"quick": 2.0, "standard": 2.0, "soak": 2.0}

NVML, CUDA, SYSFS = "driver/nvml", "driver/cuda", "kernel/sysfs"
# nvml.h: nvmlGpuTopologyLevel_t, nvmlGpuP2PStatus_t, nvmlGpuP2PCapsIndex_t, nvmlIntNvLinkDeviceType_t,
# nvmlGpuFabricState_t, nvmlGpuFabricInfoV_t.healthMask
_ANCESTORS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_P2P = {0: "ok", 1: "cns", 2: "gns", 3: "tns", 4: "dr", 5: "ns", 6: "unknown"}
_CAPABILITIES = {"read": 0, "write": 1, "nvlink": 2, "atomics": 3}
_REMOTES = {0: "gpu", 1: "npu", 2: "switch"}
_FABRIC = {0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed"}
_HEALTH = {0: "degraded_bandwidth", 2: "route_recovery", 4: "route_unhealthy", 6: "access_timeout"}
_MISCONFIGURED = {
    2: "wrong_system_guid", 3: "wrong_chassis", 4: "no_partition", 5: "too_few_nvlinks", 6: "wrong_firmware",
    7: "wrong_location", 8: "wrong_gpu_state",
}  # fmt: skip
_VERSIONS = {1: 1.0, 2: 2.0, 3: 2.2, 4: 3.0, 5: 3.1, 6: 4.0, 7: 5.0, 8: 6.0}
_MAX_LINKS = 18
_FIELD_SPEED_COMMON, _FIELD_LINK_COUNT, _FIELD_SPEED = 90, 91, 164
_ACS_CAPABILITY, _ACS_REQUEST_REDIRECT = 0x000D, 0x0004


@dataclass(frozen=True)
class Link:
    """One NVLink of a GPU: `remote` is the far end's PCI address where it is a GPU."""

    number: int
    active: bool
    kind: Optional[str] = None
    remote: Optional[str] = None
    version: Optional[int] = None
    bytes_per_second: Optional[float] = None


def applies(context: Any) -> Optional[str]:
    """Where a GPU is, or should be."""
    return None if context.gpus else "skipped: the driver lists no GPU"


def run(context: Any) -> Iterator[Reading]:
    """Links, pairs, ports, cards."""
    gpus = [gpu for gpu in context.gpus if gpu.fault is None]
    links = {gpu.index: nvlinks(context.nvml, gpu) for gpu in gpus}
    peers = context.cuda()
    for gpu in gpus:
        for quantity, told, source, conditions, subject in (
            *of_links(context.nvml, gpu, links[gpu.index]),
            *of_fabric(context.nvml, gpu),
            *of_ports(context.nvml, "/", gpu),
            *of_nodes(context.nvml, "/", gpu),
        ):
            if told is None:
                context.note("%s: not supported" % quantity)
            yield context.reading(quantity, told, source=source, subject=subject, **conditions)
    for place, one in enumerate(gpus):
        for other in gpus[place + 1 :]:
            for quantity, told, source, conditions, subject in (
                *of_pair(context.nvml, "/", (one, other), links),
                *of_access(peers, one, other),
            ):
                yield context.reading(quantity, told, source=source, subject=subject, **conditions)
    for quantity, told, source, conditions, subject in (*of_cards("/", gpus), *of_acs("/")):
        if told is None:
            context.note("%s: needs root" % quantity)
        yield context.reading(quantity, told, source=source, subject=subject, **conditions)


Fact = Tuple[str, Value, str, Dict[str, Any], str]


def nvlinks(nvml: Nvml, gpu: GpuFacts) -> Optional[List[Link]]:
    """The links the driver knows; None where it says that this GPU has none to tell of."""
    handle = nvml.handle(gpu)
    found = []
    for number in range(_MAX_LINKS):
        state = value(nvml.call("nvmlDeviceGetNvLinkState", handle, number))
        if state is None:
            continue
        kind = remote = version = None
        if state:
            kind = value(nvml.call("nvmlDeviceGetNvLinkRemoteDeviceType", handle, number))
            far = value(nvml.call("nvmlDeviceGetNvLinkRemotePciInfo", handle, number))
            remote = pci_address(_text(far.busId)) if far is not None and _text(far.busId) else None
            version = value(nvml.call("nvmlDeviceGetNvLinkVersion", handle, number))
        word = None if kind is None else _REMOTES.get(kind, "unknown")
        found.append(Link(number, bool(state), word, remote, version, _speed(nvml, handle, number) if state else None))
    return found or None


def _text(raw: Any) -> str:
    return raw.decode("ascii", "replace") if isinstance(raw, bytes) else str(raw)


def _speed(nvml: Nvml, handle: Any, link: int) -> Optional[float]:
    """Megabytes a second and direction: of this link (driver 515 and later), else the one all share."""
    for field in ((_FIELD_SPEED, link), (_FIELD_SPEED_COMMON, 0)):
        rows = value(nvml.call("nvmlDeviceGetFieldValues", handle, [field]))
        if rows and rows[0].nvmlReturn == 0 and rows[0].value.uiVal:
            return float(rows[0].value.uiVal) * 1e6
    return None


def of_links(nvml: Nvml, gpu: GpuFacts, links: Optional[List[Link]]) -> Iterator[Fact]:
    """How many there are, and each one's state."""
    subject = gpu.subject
    rows = value(nvml.call("nvmlDeviceGetFieldValues", nvml.handle(gpu), [_FIELD_LINK_COUNT]))
    counted = int(rows[0].value.uiVal) if rows and rows[0].nvmlReturn == 0 else None
    if links is None:
        # An old or a PCIe card without NVLink says 0; a driver that will not tell says nothing.
        yield "nvlinks_supported_total", 0 if counted == 0 else None, NVML, {}, subject
        yield "nvlinks_active_total", 0 if counted == 0 else None, NVML, {}, subject
        return
    yield "nvlinks_supported_total", counted or len(links), NVML, {}, subject
    yield "nvlinks_active_total", sum(link.active for link in links), NVML, {}, subject
    versions = [link.version for link in links if link.version]
    if versions:
        yield "nvlink_version", _VERSIONS.get(max(versions), float(max(versions))), NVML, {}, subject
    for link in links:
        name = "%s/link%d" % (subject, link.number)
        yield "link_state", "active" if link.active else "inactive", NVML, {}, name
        if link.kind is not None:
            yield "link_remote", link.kind, NVML, {}, name
        if link.bytes_per_second is not None:
            yield "link_bytes_per_second", link.bytes_per_second, NVML, {}, name


def of_fabric(nvml: Nvml, gpu: GpuFacts) -> Iterator[Fact]:
    """The GPU's registration with the switches' manager: the newest form of the call that this driver knows."""
    handle = nvml.handle(gpu)
    for structure, call in (
        ("c_nvmlGpuFabricInfo_v3_t", "nvmlDeviceGetGpuFabricInfoV"),
        ("c_nvmlGpuFabricInfo_v2_t", "nvmlDeviceGetGpuFabricInfoV"),
        ("c_nvmlGpuFabricInfo_t", "nvmlDeviceGetGpuFabricInfo"),
    ):
        made = nvml.constant(structure)
        if made is None:
            continue
        info = made()
        if isinstance(nvml.call(call, handle, _by_reference(info)), NvmlRefusal):
            continue
        yield "fabric_state", _FABRIC.get(info.state, "number %d" % info.state), NVML, {}, gpu.subject
        yield "fabric_status", int(info.status), NVML, {}, gpu.subject
        if hasattr(info, "healthMask"):
            yield "fabric_health", health(info.healthMask), NVML, {}, gpu.subject
        return


def _by_reference(structure: Any) -> Any:
    import ctypes

    return ctypes.byref(structure)


def health(mask: int) -> str:
    """nvml.h: two bits each (1 true, 2 false), then four bits of misconfiguration (1 none)."""
    words = [word for shift, word in _HEALTH.items() if mask >> shift & 3 == 1]
    wrong = _MISCONFIGURED.get(mask >> 8 & 15)
    return ", ".join(words + ([wrong] if wrong else [])) or ("healthy" if mask else "not told")


def of_ports(nvml: Nvml, root: str, gpu: GpuFacts) -> Iterator[Fact]:
    """PCIe of the GPU by NVML and sysfs, and of every port above it by sysfs."""
    handle, subject = nvml.handle(gpu), gpu.subject
    for which, generation, width in (
        ("current", "nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth"),
        ("max", "nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth"),
    ):
        for quantity, call in (("pcie_generation", generation), ("pcie_width_lanes", width)):
            told = value(nvml.call(call, handle))
            if told:
                yield quantity, told, NVML, {"port": "gpu", "which": which}, subject
    where = pci_paths.place(root, gpu.pci) if gpu.pci else None
    if where is None:
        return
    yield "pci_chain", "/".join(where.chain), SYSFS, {}, subject
    for address in reversed(where.chain):
        port = "gpu" if address == where.chain[-1] else address
        found = pci_paths.link(os.path.join(root, "sys/bus/pci/devices", address))
        for quantity, name in (("pcie_generation", "generation"), ("pcie_width_lanes", "lanes")):
            for which, told in found[name].items():
                if told is not None:
                    yield quantity, told, SYSFS, {"port": port, "which": which}, subject


def of_nodes(nvml: Nvml, root: str, gpu: GpuFacts) -> Iterator[Fact]:
    """NUMA node, the node of its own memory, the CPUs near it."""
    handle = nvml.handle(gpu)
    where = pci_paths.place(root, gpu.pci) if gpu.pci else None
    if where is not None and where.node is not None:
        yield "numa_node", where.node, SYSFS, {}, gpu.subject
    own = nvml.call("nvmlDeviceGetNumaNodeId", handle)
    if not isinstance(own, NvmlRefusal):
        yield "gpu_numa_id", own, NVML, {}, gpu.subject
    words = (max(os.cpu_count() or 64, 1024) + 63) // 64
    near = value(nvml.call("nvmlDeviceGetCpuAffinity", handle, words))
    if near is not None:
        yield "cpu_affinity", cpu_list([int(word) for word in near]), NVML, {}, gpu.subject


def cpu_list(words: List[int]) -> str:
    """A bit mask in 64-bit words as the kernel writes it: `0-15,32-47`."""
    cpus = [64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1]
    ranges: List[List[int]] = []
    for cpu in cpus:
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(a) if a == b else "%d-%d" % (a, b) for a, b in ranges)


def of_pair(
    nvml: Nvml, root: str, pair: Tuple[GpuFacts, GpuFacts], links: Dict[int, Optional[List[Link]]]
) -> Iterator[Fact]:
    """Path, ancestor, links and peer status of two GPUs."""
    one, other = pair
    subject = "%s-%s" % (one.subject, other.subject)
    handles = nvml.handle(one), nvml.handle(other)
    level = value(nvml.call("nvmlDeviceGetTopologyCommonAncestor", *handles))
    ancestor = None if level is None else _ANCESTORS.get(level, "number %d" % level)
    if ancestor is not None:
        yield "common_ancestor", ancestor, NVML, {}, subject
    places = [pci_paths.place(root, gpu.pci) if gpu.pci else None for gpu in pair]
    by_bus = pci_paths.common(places[0], places[1]) if places[0] and places[1] else None
    if by_bus is not None:
        yield "common_ancestor", by_bus, SYSFS, {}, subject
    status = dict(_status(nvml, pair))
    for (capability, source), word in status.items():
        yield "p2p_status", word, NVML, {"capability": capability, "from": source}, subject
    forth = bonded(one, other, links, status.get(("nvlink", one.subject)))
    back = bonded(other, one, links, status.get(("nvlink", other.subject)))
    if links[one.index] is not None or links[other.index] is not None:
        yield "nvlinks_total", min(forth, back), NVML, {}, subject
    cells = [("NV%d" % count if count else ancestor or by_bus) for count in (forth, back)]
    source = NVML if ancestor is not None or forth else SYSFS
    if cells[0] == cells[1]:
        if cells[0] is not None:
            yield "path", cells[0], source, {}, subject
        return
    for cell, gpu in zip(cells, pair):  # a matrix that is not symmetric is evidence: both cells stand
        yield "path", cell, source, {"from": gpu.subject}, subject


def _status(nvml: Nvml, pair: Tuple[GpuFacts, GpuFacts]) -> Iterator[Tuple[Tuple[str, str], str]]:
    for a, b in (pair, pair[::-1]):
        for capability, number in _CAPABILITIES.items():
            told = value(nvml.call("nvmlDeviceGetP2PStatus", nvml.handle(a), nvml.handle(b), number))
            if told is not None:
                yield (capability, a.subject), _P2P.get(told, "unknown")


def bonded(one: GpuFacts, other: GpuFacts, links: Dict[int, Optional[List[Link]]], status: Optional[str]) -> int:
    """Active links from one GPU to the other: direct ones; else through switches that both reach."""
    ours = [link for link in links[one.index] or [] if link.active]
    theirs = [link for link in links[other.index] or [] if link.active]
    direct = sum(1 for link in ours if same_address(link.remote, other.pci))
    if direct:
        return direct
    switched = [link for link in ours if link.kind == "switch"]
    if links[other.index] is None:  # it does not tell its links (MIG): the driver's word for the pair decides
        reached = status == "ok"
    else:
        reached = status in (None, "ok") and any(link.kind == "switch" for link in theirs)
    return len(switched) if reached else 0


def of_access(peers: Dict[str, Any], one: GpuFacts, other: GpuFacts) -> Iterator[Fact]:
    """CUDA's answer to "can access peer", both ways."""
    place = {gpu.index: _place(peers["devices"], gpu) for gpu in (one, other)}
    a, b = place[one.index], place[other.index]
    if a is None or b is None:
        return
    answers = [peers["peers"][a][b], peers["peers"][b][a]]
    if None not in answers:
        yield "p2p_access", all(answers), CUDA, {}, "%s-%s" % (one.subject, other.subject)


def _place(devices: List[Dict[str, Any]], gpu: GpuFacts) -> Optional[int]:
    return next((n for n, device in enumerate(devices) if same_address(device["pci"], gpu.pci)), None)


def of_cards(root: str, gpus: List[GpuFacts]) -> Iterator[Fact]:
    """Network cards, their nodes and CPUs, and how far each is from each GPU."""
    for card in nics.cards(os.path.join(root, "sys")):
        yield "nic_name", card.rdma.rsplit("/", 1)[-1] if card.rdma else card.name, SYSFS, {}, card.subject
        if card.pci is None:
            continue
        where = pci_paths.place(root, card.pci)
        if where is None:
            continue
        if where.node is not None:
            yield "numa_node", where.node, SYSFS, {}, card.subject
        near = tree.text(os.path.join(root, "sys/bus/pci/devices", card.pci), "local_cpulist")
        if near:
            yield "cpu_affinity", near, SYSFS, {}, card.subject
        for gpu in gpus:
            place = pci_paths.place(root, gpu.pci) if gpu.pci else None
            if place is not None:
                name = "%s-%s" % (gpu.subject, card.subject)
                yield "path", pci_paths.common(place, where), SYSFS, {}, name


def of_acs(root: str) -> Iterator[Fact]:
    """Bridges that send peers' requests up to the root; the registers past the first 64 bytes need root."""
    redirecting, readable, bridges = [], 0, 0
    for function in tree.pci_functions(root):
        if not function.kind.startswith("0x0604"):
            continue
        bridges += 1
        config = tree.data(function.path, "config") or b""
        if len(config) > 256:
            readable += 1
            if request_redirect(config):
                redirecting.append(function.address)
    if bridges:
        told = ",".join(redirecting) if readable else None
        yield "acs_redirect", told, SYSFS, {}, "server"


def request_redirect(config: bytes) -> bool:
    """Walk the extended capabilities to Access Control Services and look at its control register (PCIe 6.0, 7.7.11)."""
    place, steps = 0x100, 0
    while place and place + 8 <= len(config) and steps < 64:
        header = int.from_bytes(config[place : place + 4], "little")
        if header & 0xFFFF == _ACS_CAPABILITY:
            control = int.from_bytes(config[place + 6 : place + 8], "little")
            return bool(control & _ACS_REQUEST_REDIRECT)
        place, steps = header >> 20 & 0xFFC, steps + 1
    return False
