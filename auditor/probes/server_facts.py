"""What the machine says it is: kernel, CPU, memory, limits, signs of guest, container and sandbox, the driver's counts.

Read from the kernel's files and from the CPUID instruction, without root; of programs only systemd is asked. Each sign
stands with its family, so that two that are independent can be told from two that are one. Nothing is judged here.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from auditor.records import Reading, Value

from .engine import cgroup, container, cpuid, programs, torch_files, tree
from .engine.nvml import NvmlRefusal

KEY = "server_facts"
SCOPE = "server"
DEVICES = ("cuda", "cpu")
NEEDS = ()  # type: Tuple[str, ...]
METHOD = 1
ORDER = 10
SECONDS = {"quick": 1.0, "standard": 1.0, "soak": 1.0}

KERNEL, CPUID, DMI, PROC, NVML, CUDA = (
    "kernel/sysfs",
    "kernel/cpuid",
    "kernel/dmi",
    "driver/proc",
    "driver/nvml",
    "driver/cuda",
)
DMI_FIELDS = ("sys_vendor", "product_name", "board_vendor", "bios_vendor", "chassis_asset_tag")
# Vendors and devices that exist only in virtual machines, or mostly (ENA, gVNIC and NVMe of clouds are on metal too).
_VIRTUAL_VENDORS = ("1b36", "1af4", "15ad", "1414", "1d0f", "1ae0", "5853", "80ee", "1ab8")
_VIRTUAL_DEVICES = ("1234:1111", "8086:29c0", "8086:1237", "8086:7000", "8086:7010", "8086:7113", "8086:0d57")
_BMC_DEVICES = ("1a03:2000", "102b:")
_PARAMETERS = (
    "NvLinkDisable",
    "RmNvlinkBandwidthLinkCount",
    "EnableResizableBar",
    "EnableGpuFirmware",
    "RmProfilingAdminOnly",
    "RegistryDwords",
    "RegistryDwordsPerDevice",
    "GpuBlacklist",
    "ExcludedGpus",
)

Fact = Tuple[str, Value, str, Dict[str, str]]


def applies(context: Any) -> Optional[str]:
    """Every machine is something."""
    return None


def run(context: Any) -> Iterator[Reading]:
    """All facts; a value that could not be read is null, and why stands in the row."""
    for facts in (
        system("/"),
        processor("/", cpuid.instruction()),
        memory("/", context.path),
        virtual("/"),
        confinement("/"),
        driver_files("/", lambda unit: _unit_state(unit, context.directory)),
        interpreter(),
        counts(context, "/"),
    ):
        for quantity, value, source, conditions in facts:
            if value is None:
                context.note("%s: %s" % (quantity, _why_null(quantity)))
            yield context.reading(quantity, value, source=source, **conditions)


def _why_null(quantity: str) -> str:
    return {
        "cpu_quota_total": "no limit",
        "memory_limit_bytes": "no limit",
        "acpi_oem": "needs root",
        "torch_cuda_version": "built without CUDA",
    }.get(quantity, "not told here")


def system(root: str) -> Iterator[Fact]:
    """Name, distribution, kernel, boot."""
    release = tree.text(root, "etc/os-release") or tree.text(root, "usr/lib/os-release") or ""
    pretty = re.search(r'^PRETTY_NAME="?([^"\n]*)', release, re.M)
    yield "hostname", tree.text(root, "proc/sys/kernel/hostname"), KERNEL, {}
    yield "os", pretty[1] if pretty else None, KERNEL, {}
    yield "kernel", tree.text(root, "proc/sys/kernel/osrelease"), KERNEL, {}
    yield "kernel_version_text", tree.text(root, "proc/version"), KERNEL, {}
    yield "boot_id", tree.text(root, "proc/sys/kernel/random/boot_id"), KERNEL, {}
    yield "architecture", platform.machine(), KERNEL, {}


def processor(root: str, leaf: Optional[cpuid.Leaf]) -> Iterator[Fact]:
    """CPU, its place in sockets and nodes, and what it says about a hypervisor."""
    info = tree.text(root, "proc/cpuinfo") or ""
    packages = {
        tree.text("", path)
        for path in tree.found(root, "sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id")
    }
    nodes = [path for path in tree.found(root, "sys/devices/system/node/node[0-9]*/cpulist") if tree.text("", path)]
    yield "cpu_model", _cpu_model(info), CPUID, {}
    yield "cpus_total", len(os.sched_getaffinity(0)), KERNEL, {}
    yield "sockets_total", len(packages - {None}) or None, KERNEL, {}
    yield "numa_nodes_total", len(nodes) or None, KERNEL, {}
    yield "microcode", _line(info, "microcode"), CPUID, {}
    yield "cpufreq", tree.text(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver") or "none", KERNEL, {}
    flags = (_line(info, "flags") or "").split()
    flag = cpuid.hypervisor_flag(leaf) if leaf else ("hypervisor" in flags if flags else None)
    yield "hypervisor_flag", flag, CPUID, {}
    yield "cpuid_vendor", cpuid.hypervisor(leaf) if leaf else None, CPUID, {}


def _cpu_model(info: str) -> Optional[str]:
    """x86 names itself; ARM gives the numbers of maker and part."""
    part = _line(info, "CPU part")
    return _line(info, "model name") or (part and "implementer %s part %s" % (_line(info, "CPU implementer"), part))


def _line(info: str, name: str) -> Optional[str]:
    match = re.search(r"^%s\s*:\s*(.*)$" % re.escape(name), info, re.M)
    return match[1].strip() if match else None


def memory(root: str, path: Optional[str]) -> Iterator[Fact]:
    """Memory and disks, and what the cgroup grants of them."""
    total = re.search(r"^MemTotal:\s*(\d+) kB", tree.text(root, "proc/meminfo") or "", re.M)
    yield "memory_bytes", int(total[1]) * 1024 if total else None, KERNEL, {}
    yield "shm_bytes", _size(os.path.join(root, "dev/shm"), free=False), KERNEL, {}
    for place in dict.fromkeys(p for p in ("/", path) if p):
        yield "disk_free_bytes", _size(os.path.join(root, place.lstrip("/")), free=True), KERNEL, {"path": place}
    yield "cpu_quota_total", cgroup.cpus(root), KERNEL, {}
    yield "memory_limit_bytes", cgroup.memory(root), KERNEL, {}


def _size(path: str, free: bool) -> Optional[int]:
    try:
        info = os.statvfs(path)
    except OSError:
        return None
    return (info.f_bavail if free else info.f_blocks) * info.f_frsize


def virtual(root: str) -> Iterator[Fact]:
    """Signs of a guest outside the processor: firmware, clock, devices."""
    for field in DMI_FIELDS:
        yield "dmi", tree.text(root, "sys/class/dmi/id/" + field), DMI, {"field": field}
    yield "acpi_oem", _acpi_oem(root), KERNEL, {}
    clock = "sys/devices/system/clocksource/clocksource0/"
    yield "clocksource", tree.text(root, clock + "current_clocksource"), KERNEL, {"which": "current"}
    yield "clocksource", tree.text(root, clock + "available_clocksource"), KERNEL, {"which": "available"}
    functions = tree.pci_functions(root)
    names = sorted({f.name for f in functions if f.name[:4] in _VIRTUAL_VENDORS or f.name in _VIRTUAL_DEVICES})
    yield "virtual_pci", ",".join(names), KERNEL, {}
    ipmi = bool(tree.found(root, "dev/ipmi[0-9]*") or tree.found(root, "sys/class/ipmi/ipmi[0-9]*"))
    yield "bmc", ipmi or any(f.name.startswith(_BMC_DEVICES) for f in functions), KERNEL, {}
    groups = {tree.text("", path) or "" for path in tree.found(root, "sys/kernel/iommu_groups/*/type")}
    yield "iommu", ",".join(sorted(groups - {""})) or "none", KERNEL, {}


def _acpi_oem(root: str) -> Optional[str]:
    """Maker and table id in the header of FACP (bytes 10-15 and 16-23); only root may read it."""
    header = tree.data(root, "sys/firmware/acpi/tables/FACP")
    if header is None or len(header) < 24:
        return None
    return " ".join(part.replace(b"\0", b" ").decode("latin-1").strip() for part in (header[10:16], header[16:24]))


def confinement(root: str) -> Iterator[Fact]:
    """Container, sandbox, slices made by software, preloaded libraries."""
    signs = container.Signs(root, dict(os.environ))
    yield "container", container.container(signs), KERNEL, {}
    yield "sandbox", container.sandbox(signs), KERNEL, {}
    yield "software_slice", container.software_slice(signs), KERNEL, {}
    yield "preload", container.preload(signs), KERNEL, {}


def _unit_state(unit: str, folder: str) -> str:
    """systemd's word for a unit; empty where it does not answer."""
    ended = programs.run(["systemctl", "show", "-p", "ActiveState", "--value", unit], folder, 5.0)
    return ended.out.strip() if ended is not None and ended.code == 0 else ""


def driver_files(root: str, unit_state: Callable[[str], str]) -> Iterator[Fact]:
    """The NVIDIA driver in the kernel's files, and its tools."""
    functions = tree.pci_functions(root)
    yield "gpus_on_bus_total", sum(f.is_gpu for f in functions), KERNEL, {}
    nodes = [p for p in tree.found(root, "dev/nvidia[0-9]*") if re.fullmatch(r"nvidia\d+", os.path.basename(p))]
    yield "gpu_nodes_total", len(nodes), KERNEL, {}
    told = tree.text(root, "proc/driver/nvidia/version") or ""
    version = re.search(r"(?:Kernel Module|for \w+)\s+(\d+\.[\d.]+)", told)
    if version:
        yield "driver_version", version[1], PROC, {}
        yield "driver_flavour", "open" if "Open Kernel Module" in told else "proprietary", PROC, {}
    module = tree.text(root, "sys/module/nvidia/version")
    if module:
        yield "driver_version", module, KERNEL, {}
    parameters = dict(re.findall(r"^(\w+): *(.*)$", tree.text(root, "proc/driver/nvidia/params") or "", re.M))
    for name in _PARAMETERS:
        if name in parameters:
            yield "driver_parameter", parameters[name].strip('"'), PROC, {"name": name}
    yield "fabric_manager", container.service(root, "nvidia-fabricmanager", "nv-fabricmanager", unit_state), KERNEL, {}
    yield (
        "peermem",
        bool(tree.found(root, "sys/module/nvidia_peermem") or tree.found(root, "sys/module/nv_peer_mem")),
        KERNEL,
        {},
    )
    yield "nvidia_smi", _nvidia_smi(root, os.environ.get("PATH", "")), KERNEL, {}


def _nvidia_smi(root: str, path: str) -> str:
    """Its first bytes tell a program from a script that prints a canned table."""
    for folder in path.split(":") + ["/usr/bin"]:
        start = tree.data(root, os.path.join(folder, "nvidia-smi").lstrip("/")) if folder else None
        if start is not None:
            return "elf" if start[:4] == b"\x7fELF" else "script"
    return "absent"


def interpreter() -> Iterator[Fact]:
    """The Python that measures, and its torch: read from its files, so that nothing is imported here."""
    version, cuda = torch_files.build()
    if version is not None:
        yield "torch_version", version, "measured", {}
        yield "torch_cuda_version", cuda, "measured", {}
    yield "interpreter", "%s %s" % (sys.executable, platform.python_version()), "measured", {}


def counts(context: Any, root: str) -> Iterator[Fact]:
    """What NVML and CUDA count, their versions, and the library that answered."""
    count = context.nvml.call("nvmlDeviceGetCount")
    if isinstance(count, NvmlRefusal):
        bare = not any(f.is_gpu for f in tree.pci_functions(root)) and not tree.found(root, "dev/nvidia[0-9]*")
        context.note("NVML: %s" % count.word)
        count = 0 if bare and count.word in ("library_not_found", "driver_not_loaded") else None
    yield "gpus_nvml_total", count, NVML, {}
    cuda = context.cuda()
    if cuda["refusal"] is None:
        yield "gpus_cuda_total", len(cuda["devices"]), CUDA, {}
    elif cuda["refusal"] == "CUDA_ERROR_NO_DEVICE":
        yield "gpus_cuda_total", 0, CUDA, {}
    elif cuda["refusal"] != "library_not_found":
        context.note("CUDA: %s" % cuda["refusal"])
    version = context.nvml.call("nvmlSystemGetDriverVersion")
    if not isinstance(version, NvmlRefusal):
        yield "driver_version", version, NVML, {}
    number = context.nvml.call("nvmlSystemGetCudaDriverVersion_v2")
    if not isinstance(number, NvmlRefusal):
        yield "cuda_version", "%d.%d" % (number // 1000, number % 1000 // 10), NVML, {}
    library = nvml_library(root)
    if library is not None:
        yield "nvml_library", library, KERNEL, {}


def nvml_library(root: str) -> Optional[str]:
    """Path and size of the libnvidia-ml that is mapped into this process, NVML once open."""
    for line in (tree.text(root, "proc/self/maps") or "").splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and "libnvidia-ml" in fields[5]:
            try:
                return "%s %d" % (fields[5], os.stat(fields[5]).st_size)
            except OSError:
                return fields[5]
    return None
