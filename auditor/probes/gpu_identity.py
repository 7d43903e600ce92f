"""What each GPU says it is: NVML, CUDA, sysfs and /proc/driver side by side, so that they can contradict each other.

Each source is asked for itself and nothing is reconciled: a name that NVML and CUDA tell differently, a PCI id that
the bus does not confirm, a UUID that /proc does not know are the evidence. Nothing here loads the GPU.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterator, List, Optional, Tuple

from auditor.records import Reading, Value

from .engine import tree
from .engine.gpu_facts import GpuFacts, same_address
from .engine.nvml import Nvml, NvmlRefusal, value

KEY = "gpu_identity"
SCOPE = "server"
DEVICES = ("cuda",)
NEEDS = ()  # type: Tuple[str, ...]
METHOD = 1
ORDER = 11
SECONDS = {"quick": 3.0, "standard": 3.0, "soak": 3.0}

NVML, CUDA, SYSFS, PROC = "driver/nvml", "driver/cuda", "kernel/sysfs", "driver/proc"
# nvml.h: nvmlBrandType_t, nvmlDeviceArchitecture_t, nvmlGpuVirtualizationMode_t, nvmlComputeMode_t
_BRANDS = {
    0: "unknown", 1: "quadro", 2: "tesla", 3: "nvs", 4: "grid", 5: "geforce", 6: "titan", 7: "vapps", 8: "vpc",
    9: "vcs", 10: "vws", 11: "cloud_gaming", 12: "quadro_rtx", 13: "nvidia_rtx", 14: "nvidia", 15: "geforce_rtx",
    16: "titan_rtx",
}  # fmt: skip
_ARCHITECTURES = {
    2: "kepler", 3: "maxwell", 4: "pascal", 5: "volta", 6: "turing", 7: "ampere", 8: "ada", 9: "hopper",
    10: "blackwell", 13: "rubin",
}  # fmt: skip
_VIRTUALIZATION = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host_vgpu", 4: "host_vsga"}
_COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_THRESHOLDS = {"shutdown": 0, "slowdown": 1, "max_operating": 3}

Fact = Tuple[str, Value, str, Dict[str, str]]


def applies(context: Any) -> Optional[str]:
    """Where a GPU is, or should be."""
    return None if context.gpus else "skipped: the driver lists no GPU"


def run(context: Any) -> Iterator[Reading]:
    """Every source of every GPU."""
    cuda, looks = context.cuda(), context.first_look()
    if cuda["refusal"] is not None:
        context.note("CUDA: %s" % cuda["refusal"])
    for gpu in context.gpus:
        if gpu.fault is not None:
            context.note("%s: NVML says %s" % (gpu.subject, gpu.fault))
        for source in (
            by_nvml(context.nvml, gpu),
            before_us(looks.get(gpu.index, {})),
            by_cuda(gpu, cuda["devices"]),
            by_bus("/", gpu),
            by_proc("/", gpu),
        ):
            for quantity, told, origin, conditions in source:
                yield context.reading(quantity, told, source=origin, subject=gpu.subject, **conditions)


def before_us(look: Dict[str, Any]) -> Iterator[Fact]:
    """Memory, load and processes as they were before any process of ours touched the GPU."""
    for quantity, told in (
        ("memory_used_bytes", look.get("memory")),
        ("processes_total", None if look.get("processes") is None else len(look["processes"])),
        ("utilization_ratio", look.get("use")),
    ):
        if told is not None:
            yield quantity, told, NVML, {}


def by_nvml(nvml: Nvml, gpu: GpuFacts) -> Iterator[Fact]:
    """NVML's view; a call it refuses leaves no reading."""
    handle = nvml.handle(gpu)
    if isinstance(handle, NvmlRefusal):
        return

    def ask(name: str, *arguments: Any) -> Any:
        return value(nvml.call(name, handle, *arguments))

    for quantity, told, conditions in [
        *_names(ask),
        ("inforom_valid", _inforom_valid(nvml.call("nvmlDeviceValidateInforom", handle)), {}),
        *_modes(ask),
        *_memory(ask),
        *_power(ask),
        *_clocks(ask),
        *_heat(ask),
    ]:
        if told is not None:
            yield quantity, told, NVML, conditions


def _names(ask: Any) -> Iterator[Tuple[str, Value, Dict[str, str]]]:
    pci = ask("nvmlDeviceGetPciInfo")
    yield "name", ask("nvmlDeviceGetName"), {}
    if pci is not None:
        yield "pci_device", pci_id(pci.pciDeviceId), {}
        yield "pci_subsystem", pci_id(pci.pciSubSystemId), {}
    yield "uuid", ask("nvmlDeviceGetUUID"), {}
    yield "serial", ask("nvmlDeviceGetSerial"), {}
    yield "vbios", ask("nvmlDeviceGetVbiosVersion"), {}
    yield "board_part_number", ask("nvmlDeviceGetBoardPartNumber"), {}
    yield "inforom_version", ask("nvmlDeviceGetInforomImageVersion"), {}
    yield "brand", _word(_BRANDS, ask("nvmlDeviceGetBrand")), {}
    yield "architecture", _word(_ARCHITECTURES, ask("nvmlDeviceGetArchitecture")), {}
    capability = ask("nvmlDeviceGetCudaComputeCapability")
    yield "compute_capability", "%d.%d" % tuple(capability) if capability else None, {}
    yield "minor", ask("nvmlDeviceGetMinorNumber"), {}
    yield "module_id", ask("nvmlDeviceGetModuleId"), {}


def _inforom_valid(answer: Any) -> Optional[bool]:
    if isinstance(answer, NvmlRefusal):
        return False if answer.word == "corrupted_inforom" else None
    return True


def pci_id(number: int) -> str:
    """NVML packs the vendor into the low half: 0x233510de is `10de:2335`."""
    return "%04x:%04x" % (number & 0xFFFF, number >> 16)


def _word(words: Dict[int, str], number: Optional[int]) -> Optional[str]:
    return None if number is None else words.get(number, "number %d" % number)


def _modes(ask: Any) -> Iterator[Tuple[str, Value, Dict[str, str]]]:
    for quantity, call in (("ecc_enabled", "nvmlDeviceGetEccMode"), ("mig_enabled", "nvmlDeviceGetMigMode")):
        current, pending = ask(call) or (None, None)
        yield quantity, _flag(current), {"which": "current"}
        yield quantity, _flag(pending), {"which": "pending"}
    yield "persistence", _flag(ask("nvmlDeviceGetPersistenceMode")), {}
    yield "compute_mode", _word(_COMPUTE_MODES, ask("nvmlDeviceGetComputeMode")), {}
    yield "virtualization_mode", _word(_VIRTUALIZATION, ask("nvmlDeviceGetVirtualizationMode")), {}


def _flag(number: Optional[int]) -> Optional[bool]:
    return None if number is None else bool(number)


def _memory(ask: Any) -> Iterator[Tuple[str, Value, Dict[str, str]]]:
    memory, bar = ask("nvmlDeviceGetMemoryInfo"), ask("nvmlDeviceGetBAR1MemoryInfo")
    yield "memory_bytes", memory.total if memory else None, {}
    yield "memory_bus_bits", ask("nvmlDeviceGetMemoryBusWidth"), {}
    yield "bar1_bytes", bar.bar1Total if bar else None, {}


def _power(ask: Any) -> Iterator[Tuple[str, Value, Dict[str, str]]]:
    least, most = ask("nvmlDeviceGetPowerManagementLimitConstraints") or (None, None)
    for which, milliwatts in (
        ("now", ask("nvmlDeviceGetPowerManagementLimit")),
        ("default", ask("nvmlDeviceGetPowerManagementDefaultLimit")),
        ("min", least),
        ("max", most),
        ("enforced", ask("nvmlDeviceGetEnforcedPowerLimit")),
    ):
        yield "power_limit_watts", None if milliwatts is None else milliwatts / 1000.0, {"which": which}


def _clocks(ask: Any) -> Iterator[Tuple[str, Value, Dict[str, str]]]:
    for quantity, kind in (("sm_clock_hertz", _CLOCK_SM), ("memory_clock_hertz", _CLOCK_MEMORY)):
        for which, call in (
            ("now", "nvmlDeviceGetClockInfo"),
            ("max", "nvmlDeviceGetMaxClockInfo"),
            ("application", "nvmlDeviceGetApplicationsClock"),
            ("default_application", "nvmlDeviceGetDefaultApplicationsClock"),
        ):
            megahertz = ask(call, kind)
            yield quantity, None if megahertz is None else megahertz * 1e6, {"which": which}


def _heat(ask: Any) -> Iterator[Tuple[str, Value, Dict[str, str]]]:
    yield "fan", ask("nvmlDeviceGetFanSpeed") is not None, {}
    yield "celsius", ask("nvmlDeviceGetTemperature", 0), {"which": "gpu"}
    for which, number in _THRESHOLDS.items():
        yield "celsius", ask("nvmlDeviceGetTemperatureThreshold", number), {"which": which}


def by_cuda(gpu: GpuFacts, devices: List[Dict[str, Any]]) -> Iterator[Fact]:
    """The driver API's view of the device at the same PCI address."""
    device = next((d for d in devices if same_address(d["pci"], gpu.pci)), None)
    if device is None:
        return
    told: List[Tuple[str, Value]] = [
        ("name", device["name"]),
        ("uuid", device["uuid"]),
        ("memory_bytes", device["memory_bytes"]),
        ("sms_total", device["sms"]),
        ("l2_bytes", device["l2_bytes"]),
        ("memory_bus_bits", device["memory_bus_bits"]),
    ]
    if device["major"] is not None and device["minor"] is not None:
        told.append(("compute_capability", "%d.%d" % (device["major"], device["minor"])))
    for quantity, found in told:
        if found is not None:
            yield quantity, found, CUDA, {}


def by_bus(root: str, gpu: GpuFacts) -> Iterator[Fact]:
    """What the PCI bus itself says."""
    if gpu.pci is None:
        return
    function = next((f for f in tree.pci_functions(root) if same_address(f.address, gpu.pci)), None)
    if function is None:
        return
    yield "pci_device", function.name, SYSFS, {}
    yield "pci_subsystem", function.subsystem, SYSFS, {}
    node = tree.text(function.path, "numa_node")
    if node is not None and re.fullmatch(r"-?\d+", node):
        yield "numa_node", int(node), SYSFS, {}


def by_proc(root: str, gpu: GpuFacts) -> Iterator[Fact]:
    """The kernel module's own page of this GPU."""
    for path in tree.found(root, "proc/driver/nvidia/gpus/*/information"):
        if same_address(os.path.basename(os.path.dirname(path)), gpu.pci):
            told = dict(re.findall(r"^([^:\n]+):[ \t]*(.*)$", tree.text("", path) or "", re.M))
            for quantity, name in (("name", "Model"), ("uuid", "GPU UUID"), ("vbios", "Video BIOS")):
                text = (told.get(name) or "").strip()
                if text and "?" not in text:
                    yield quantity, text, PROC, {}
