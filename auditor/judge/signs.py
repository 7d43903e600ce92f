"""What kind of machine is this? Signs of virtualization, each with its family and weight, and the level they give.

Weights (docs/thresholds.md): 2 = seen on guests only, 1 = supports, common on guests, possible elsewhere.
Signs and their false positives: docs/thresholds.md. ENA, EBS and gVNIC devices and OracleCloud's asset
tag are on cloud bare metal too and count for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from auditor.judge.texts import N_
from auditor.judge.view import ServerView, told_by
from auditor.records import Reading

GUEST_DMI = re.compile(
    r"QEMU|Standard PC|Amazon EC2|Google Compute Engine|Virtual Machine|VMware|Xen|HVM domU|OpenStack|Alibaba Cloud|"
    r"KubeVirt|innotek|VirtualBox|Bochs|Parallels|bhyve|Virtuozzo|CloudStack|DigitalOcean|Vultr|Hetzner vServer",
    re.IGNORECASE,
)
GUEST_CLOCKS = ("kvm-clock", "hyperv", "xen")
METAL_TOO = {"1d0f:ec20", "1d0f:8061", "1d0f:efa0", "1d0f:efa1", "1d0f:efa2", "1d0f:efa3", "1ae0:0042", "1ae0:001f"}
GENERIC_CPU = re.compile(
    r"^(Intel\(R\) Xeon\(R\) Processor( @.*)?|AMD EPYC-[A-Z].* Processor|QEMU Virtual CPU.*|Common KVM.*)$"
)
METAL_PRODUCT = re.compile(r"\.metal(-\w+)?$")


class Sign(msgspec.Struct, frozen=True):
    """One sign: what it says in a word, its family, its weight, and the reading it rests on."""

    word: str
    told: str
    weight: int
    reading: Reading


class Machine(msgspec.Struct, frozen=True):
    """The level, and the signs it rests on; `kind` names hypervisor, container or sandbox where known."""

    level: str
    kind: str | None
    signs: tuple[Sign, ...]

    @property
    def weight(self) -> int:
        """All signs together."""
        return sum(sign.weight for sign in self.signs)

    @property
    def families(self) -> frozenset[str]:
        """The families of sources that speak."""
        return frozenset(sign.told for sign in self.signs)


SLICE_LIBRARY = re.compile(r"libvgpu|libcgpu|libvcuda|libcuda_hook|libgemhook|librunai", re.IGNORECASE)
BARE = "bare metal"
METAL = "metal cloud"
GUEST = "passthrough guest"
VGPU = "vGPU"
SLICE = "software slice"
CONTAINER = "container"
SANDBOX = "sandbox"
REMOTE = "API remoting"
UNCLEAR = "unclear"
UNKNOWN = "unknown"
LEVELS = (  # marked here for the message catalogues
    N_("bare metal"),
    N_("metal cloud"),
    N_("passthrough guest"),
    N_("vGPU"),
    N_("software slice"),
    N_("container"),
    N_("sandbox"),
    N_("API remoting"),
    N_("unclear"),
    N_("unknown"),
)


def machine(view: ServerView, strong: float, total: float) -> Machine:
    """The level of a server. A guest is named from one strong sign with support, never from one sign alone."""
    guest = tuple(guest_signs(view))
    for level, found in (
        (REMOTE, tuple(_remote(view))),
        (VGPU, tuple(_vgpu(view))),
        (SLICE, tuple(_slice(view))),
        (SANDBOX, tuple(_sandbox(view))),
    ):
        if found:
            return Machine(level, _kind(view, level), found + guest)
    firm = any(sign.weight >= strong for sign in guest)
    enough = sum(sign.weight for sign in guest) >= total
    if firm or enough:
        return Machine(GUEST if firm and enough else UNCLEAR, _kind(view, GUEST), guest)
    contained = tuple(_container(view))
    if contained:
        return Machine(CONTAINER, _kind(view, CONTAINER), contained)
    if view.flag("server_facts_hypervisor_flag") is None and view.text("server_facts_cpuid_vendor") is None:
        return Machine(UNKNOWN, None, ())
    product = view.text("server_facts_dmi", field="product_name") or ""
    return Machine(METAL if METAL_PRODUCT.search(product) else BARE, product or None, ())


def guest_signs(view: ServerView) -> Iterator[Sign]:
    """Everything that speaks for a virtual machine."""
    flag = view.one("server_facts_hypervisor_flag")
    if flag is not None and flag.value is True:
        yield _sign(N_("hypervisor flag"), 2, flag)
    vendor = view.one("server_facts_cpuid_vendor")
    if vendor is not None and str(vendor.value).strip() not in ("", "none"):
        yield _sign(N_("CPUID vendor"), 2, vendor)
    yield from _dmi(view)
    yield from _clock(view)
    devices = view.one("server_facts_virtual_pci")
    if devices is not None and {d.strip() for d in str(devices.value).split(",") if d.strip()} - METAL_TOO:
        yield _sign(N_("virtual PCI devices"), 2, devices)
    oem = view.one("server_facts_acpi_oem")
    if oem is not None and re.search(r"FIRECK|BOCHS|QEMU|VMWARE|VBOX|GOOGLE|AMAZON", str(oem.value).upper()):
        yield _sign(N_("ACPI maker"), 1, oem)
    cpu = view.one("server_facts_cpu_model")
    if cpu is not None and GENERIC_CPU.match(str(cpu.value).strip()):
        yield _sign(N_("generic CPU name"), 1, cpu)
    microcode = view.one("server_facts_microcode")
    if microcode is not None and str(microcode.value).lower() in ("0x1", "0xffffffff"):
        yield _sign(N_("placeholder microcode"), 1, microcode)
    bmc = view.one("server_facts_bmc")
    if bmc is not None and bmc.value is False:
        yield _sign(N_("no management controller"), 1, bmc)
    yield from _by_driver(view)
    if flag is None:  # CPUID did not speak: a topology matrix alone may still betray a virtual tree
        yield from _by_matrix(view)


def _by_matrix(view: ServerView) -> Iterator[Sign]:
    """What no real machine prints: SYS inside one NUMA node, blank affinities, all GPUs of a big board on one node."""
    cells = {r.subject: r for r in view.all("topology_path") if r.subject.count("gpu") == 2}
    nodes = {gpu: r for gpu in view.gpus if (r := view.one("topology_numa_node", gpu)) is not None}
    hidden = [r for r in view.unreadable if r.metric == "topology_numa_node" and r.subject in view.gpus]
    blank = [r for r in view.all("topology_cpu_affinity") if r.value == "" and r.subject in view.gpus]
    if blank and len(blank) == len(view.gpus):
        yield _sign(N_("blank CPU affinity"), 2, blank[0])
    for pair, cell in cells.items():
        first, second = (nodes.get(gpu) for gpu in (view.members(pair) or ("", "")))
        if cell.value == "SYS" and first is not None and second is not None and first.value == second.value:
            yield _sign(N_("SYS inside one NUMA node"), 2, cell)
            break
    spread = [r for r in nodes.values() if isinstance(r.value, str) and re.fullmatch(r"\d+-\d+", r.value)]
    if spread:
        yield _sign(N_("GPU on several NUMA nodes"), 2, spread[0])
    if len(view.gpus) >= 8 and len(cells) > 2 and all(cell.value == "PHB" for cell in cells.values()):
        yield _sign(N_("eight GPUs below one host bridge"), 2, next(iter(cells.values())))
    if meshed(view) and (len(hidden) == len(view.gpus) or one_node(view)):
        yield _sign(N_("a board of two sockets on one NUMA node"), 2, (hidden or list(nodes.values()))[0])


def meshed(view: ServerView) -> bool:
    """Four or more GPUs that are all joined by NVLink: such boards sit in servers of two sockets."""
    cells = [r for r in view.all("topology_path") if r.subject.count("gpu") == 2]
    return len(view.gpus) >= 4 and bool(cells) and all(str(cell.value).startswith("NV") for cell in cells)


def one_node(view: ServerView) -> bool:
    """Eight GPUs or more that all name the same node and the same processors."""
    nodes = {str(r.value) for gpu in view.gpus if (r := view.one("topology_numa_node", gpu)) is not None}
    lists = {str(r.value) for gpu in view.gpus if (r := view.one("topology_cpu_affinity", gpu)) is not None}
    return len(view.gpus) >= 8 and len(nodes) == 1 and len(lists) == 1


def _dmi(view: ServerView) -> Iterator[Sign]:
    product = view.text("server_facts_dmi", field="product_name") or ""
    if METAL_PRODUCT.search(product):
        return
    for reading in view.all("server_facts_dmi", "server"):
        if reading.conditions.get("field") != "chassis_asset_tag" and GUEST_DMI.search(str(reading.value)):
            yield _sign(N_("DMI strings"), 2, reading)
            return


def _clock(view: ServerView) -> Iterator[Sign]:
    for which, weight in (("current", 2), ("available", 1)):
        clock = view.one("server_facts_clocksource", which=which)
        if clock is not None and any(word in str(clock.value) for word in GUEST_CLOCKS):
            yield _sign(N_("paravirtual clock"), weight, clock)
            return


def _by_driver(view: ServerView) -> Iterator[Sign]:
    for gpu in view.gpus:
        mode = view.one("gpu_identity_virtualization_mode", gpu)
        if mode is not None and mode.value == "passthrough":
            yield _sign(N_("NVML passthrough mode"), 2, mode)
            break
    paths = [r for r in view.all("topology_path") if r.subject.count("gpu") == 2]
    flat = {str(r.value) for r in paths}
    if len(paths) > 2 and flat and flat <= {"PHB", "SYS"} and len(flat) == 1:
        yield _sign(N_("flat PCI tree"), 1, paths[0])


def _vgpu(view: ServerView) -> Iterator[Sign]:
    for gpu in view.gpus:
        mode = view.one("gpu_identity_virtualization_mode", gpu)
        if mode is not None and mode.value == "vgpu":
            yield _sign(N_("NVML vGPU mode"), 2, mode)
        for name in view.all("gpu_identity_name", gpu):
            if re.match(r"GRID ", str(name.value)) or re.search(r"-\d{1,3}[ABCQ]$", str(name.value)):
                yield _sign(N_("vGPU profile name"), 2, name)


def _slice(view: ServerView) -> Iterator[Sign]:
    found = view.one("server_facts_software_slice")
    if found is not None and str(found.value) not in ("none", ""):
        yield _sign(N_("software slice"), 2, found)
    preload = view.one("server_facts_preload")
    if preload is not None and SLICE_LIBRARY.search(str(preload.value)):
        yield _sign(N_("software slice"), 2, preload)


def _sandbox(view: ServerView) -> Iterator[Sign]:
    found = view.one("server_facts_sandbox")
    if found is not None and str(found.value) not in ("none", "", "firecracker"):
        yield _sign(N_("sandbox"), 2, found)


def _container(view: ServerView) -> Iterator[Sign]:
    found = view.one("server_facts_container")
    if found is not None and str(found.value) not in ("none", ""):
        yield _sign(N_("container"), 1, found)


def _remote(view: ServerView) -> Iterator[Sign]:
    """CUDA answers although neither bus nor device nodes hold a GPU."""
    cuda = view.one("server_facts_gpus_cuda_total")
    bus = view.one("server_facts_gpus_on_bus_total")
    nodes = view.one("server_facts_gpu_nodes_total")
    if cuda is None or bus is None or nodes is None:
        return
    if isinstance(cuda.value, (int, float)) and cuda.value > 0 and bus.value == 0 and nodes.value == 0:
        yield _sign(N_("CUDA without a device"), 2, cuda)
        yield _sign(N_("no GPU on the bus"), 2, bus)


def _kind(view: ServerView, level: str) -> str | None:
    if level == SANDBOX:
        return view.text("server_facts_sandbox")
    if level == CONTAINER:
        return view.text("server_facts_container")
    if level == SLICE:
        told = view.text("server_facts_software_slice")
        return told if told not in (None, "", "none") else view.text("server_facts_preload")
    vendor = (view.text("server_facts_cpuid_vendor") or "").strip()
    if vendor and vendor != "none":
        return vendor
    product = view.text("server_facts_dmi", field="sys_vendor")
    sandbox = view.text("server_facts_sandbox")
    return product or (sandbox if sandbox not in (None, "none") else None)


def _sign(word: str, weight: int, reading: Reading) -> Sign:
    return Sign(word, told_by(reading.source), weight, reading)
