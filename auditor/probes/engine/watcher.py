"""The process that watches: lists the GPUs, samples each at 10 Hz or more, tells who uses it.

Apart from the parent, so that a driver that hangs takes no more than this process with it, and apart from the
workers, so that sampling costs them nothing. A sample of 12 values takes 3.3 ms on an H200; the PCIe rate, 21 ms a
call, is read on a thread of its own.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Dict, List, Optional

from .channel import Channel
from .gpu_facts import GpuFacts, pci_address
from .nvml import Nvml, NvmlRefusal, value

FAST, SLOW = 0.05, 0.5
USERS_EVERY = 1.0
PCIE_EVERY = 0.5
_TEMPERATURE_GPU, _CLOCK_SM, _CLOCK_MEMORY = 0, 1, 2
_PCIE_TX, _PCIE_RX = 0, 1  # nvmlPcieUtilCounter_t
_FIELD_MEMORY_TEMPERATURE, _FIELD_POWER_INSTANT = 82, 186
_FIELD_NVLINK_TX, _FIELD_NVLINK_RX = 138, 139  # KiB; all links together
_ALL_LINKS = 0xFFFFFFFF
_THRESHOLD_SHUTDOWN = 0
_FAULTS = ("gpu_lost", "reset_required")


def list_gpus(nvml: Nvml) -> List[GpuFacts]:
    """All GPUs NVML counts; one it cannot name any more keeps its place, with the driver's word."""
    count = nvml.call("nvmlDeviceGetCount")
    return [] if isinstance(count, NvmlRefusal) else [_facts(nvml, index) for index in range(count)]


def _facts(nvml: Nvml, index: int) -> GpuFacts:
    handle = nvml.handle(index)
    if isinstance(handle, NvmlRefusal):
        return GpuFacts(index, fault=handle.word)
    uuid = nvml.call("nvmlDeviceGetUUID", handle)
    pci = value(nvml.call("nvmlDeviceGetPciInfo", handle))
    fault = uuid.word if isinstance(uuid, NvmlRefusal) else None
    return GpuFacts(
        index,
        uuid=value(uuid),
        pci=pci_address(pci.busId if isinstance(pci.busId, str) else pci.busId.decode()) if pci else None,
        name=value(nvml.call("nvmlDeviceGetName", handle)),
        visible=_visible(nvml, handle, value(uuid)),
        fault=fault,
    )


def _visible(nvml: Nvml, handle: Any, uuid: Optional[str]) -> Optional[str]:
    """What CUDA can be pointed at: the GPU, or its first instance where MIG is on."""
    mode = value(nvml.call("nvmlDeviceGetMigMode", handle))
    if not mode or not mode[0]:
        return uuid
    for place in range(value(nvml.call("nvmlDeviceGetMaxMigDeviceCount", handle)) or 0):
        instance = nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
        name = value(nvml.call("nvmlDeviceGetUUID", instance))
        if name:
            return str(name)
    return uuid


class Usage:
    """Who uses a GPU, as far as the driver tells."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml

    def of(self, gpu: GpuFacts) -> Dict[str, Any]:
        """Processes (None where they may not be listed), memory in use without the driver's own, load, fault."""
        handle = self._nvml.handle(gpu)
        alive = self._nvml.call("nvmlDeviceGetTemperature", handle, _TEMPERATURE_GPU)
        fault = alive.word if isinstance(alive, NvmlRefusal) and alive.word in _FAULTS else None
        processes: Optional[List[Dict[str, Any]]] = []
        for kind in ("Compute", "Graphics", "MPSCompute"):
            rows = self._processes(handle, kind)
            if rows is not None and processes is not None:
                processes += [{"pid": row.pid, "bytes": row.usedGpuMemory} for row in rows]
            elif kind == "Compute":
                processes = None
        use = value(self._nvml.call("nvmlDeviceGetUtilizationRates", handle))
        return {
            "processes": processes,
            "memory": self._memory(handle),
            "use": use.gpu / 100 if use else None,
            "fault": fault,
        }

    def _processes(self, handle: Any, kind: str) -> Optional[List[Any]]:
        for version in ("_v3", "_v2"):
            rows = value(self._nvml.call("nvmlDeviceGet%sRunningProcesses%s" % (kind, version), handle))
            if rows is not None:
                return list(rows)
        return None

    def _memory(self, handle: Any) -> Optional[int]:
        version = self._nvml.constant("nvmlMemory_v2")
        for arguments in ([version] if version else []), []:
            memory = value(self._nvml.call("nvmlDeviceGetMemoryInfo", handle, *arguments))
            if memory is not None:
                return int(memory.used)
        return None


class Sampler:
    """Takes one GPU's samples on its own threads."""

    def __init__(self, nvml: Nvml, channel: Channel, gpu: GpuFacts) -> None:
        self._nvml, self._channel, self._gpu = nvml, channel, gpu
        self._usage = Usage(nvml)
        self._handle = nvml.handle(gpu)
        self._pcie: List[Optional[float]] = [None, None]
        self._fields = [_FIELD_MEMORY_TEMPERATURE, _FIELD_POWER_INSTANT]
        self._links: List[Any] = [(_FIELD_NVLINK_TX, _ALL_LINKS), (_FIELD_NVLINK_RX, _ALL_LINKS)]
        self.fast = threading.Event()

    def start(self) -> None:
        """Sample from now on, slowly until told otherwise."""
        for loop in (self._sample_for_ever, self._pcie_for_ever, self._usage_for_ever):
            threading.Thread(target=loop, daemon=True).start()

    def _sample_for_ever(self) -> None:
        while True:
            began = time.monotonic()
            self._channel.send({"say": "sample", "gpu": self._gpu.index, "row": self.sample()})
            self._wait(began)

    def _wait(self, began: float) -> None:
        if self.fast.is_set():
            time.sleep(max(0.0, began + FAST - time.monotonic()))
        else:
            self.fast.wait(max(0.0, began + SLOW - time.monotonic()))

    def _pcie_for_ever(self) -> None:
        while True:
            self.fast.wait()
            for place, counter in enumerate((_PCIE_RX, _PCIE_TX)):
                rate = value(self._nvml.call("nvmlDeviceGetPcieThroughput", self._handle, counter))
                self._pcie[place] = None if rate is None else rate * 1000.0  # KB/s
            time.sleep(PCIE_EVERY)

    def _usage_for_ever(self) -> None:
        while True:
            self._channel.send({"say": "usage", "gpu": self._gpu.index, "usage": self._usage.of(self._gpu)})
            time.sleep(USERS_EVERY)

    def sample(self) -> List[Optional[float]]:
        """One row, in the order of `context.Sample`."""
        call, handle = self._nvml.call, self._handle
        taken = time.monotonic()
        use = value(call("nvmlDeviceGetUtilizationRates", handle))
        reasons = value(call("nvmlDeviceGetCurrentClocksEventReasons", handle))
        if reasons is None:
            reasons = value(call("nvmlDeviceGetCurrentClocksThrottleReasons", handle))
        memory_celsius, milliwatts, nvlink = self._field_values()
        if milliwatts is None:
            milliwatts = value(call("nvmlDeviceGetPowerUsage", handle))
        return [
            taken,
            value(call("nvmlDeviceGetTemperature", handle, _TEMPERATURE_GPU)),
            memory_celsius,
            None if milliwatts is None else milliwatts / 1000.0,
            _hertz(value(call("nvmlDeviceGetClockInfo", handle, _CLOCK_SM))),
            _hertz(value(call("nvmlDeviceGetClockInfo", handle, _CLOCK_MEMORY))),
            reasons,
            use.gpu / 100.0 if use else None,
            use.memory / 100.0 if use else None,
            *(self._pcie if self.fast.is_set() else (None, None)),
            nvlink,
        ]

    def _field_values(self) -> List[Optional[float]]:
        """Memory temperature, instant power, NVLink bytes: fields, in one call; what is refused is not asked again."""
        asked = [*self._fields, *self._links]
        rows = value(self._nvml.call("nvmlDeviceGetFieldValues", self._handle, asked)) if asked else []
        answers = {row.fieldId: _field(row) for row in rows or [] if row.nvmlReturn == 0}
        self._fields = [field for field in self._fields if field in answers]
        links = [answers.get(_FIELD_NVLINK_TX), answers.get(_FIELD_NVLINK_RX)]
        if None in links:
            self._links = []
        nvlink = None if None in links else sum(x for x in links if x is not None) * 1024.0
        return [answers.get(_FIELD_MEMORY_TEMPERATURE), answers.get(_FIELD_POWER_INSTANT), nvlink]


def _field(row: Any) -> float:
    """The member of nvmlValue_t that its type names (double, unsigned int, unsigned long, long long…)."""
    names = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    return float(getattr(row.value, names[row.valueType]))


def _hertz(megahertz: Optional[int]) -> Optional[float]:
    return None if megahertz is None else megahertz * 1e6


def _shutdown(nvml: Nvml, gpu: GpuFacts) -> Optional[int]:
    """At how many degrees the GPU switches itself off."""
    celsius = value(nvml.call("nvmlDeviceGetTemperatureThreshold", nvml.handle(gpu), _THRESHOLD_SHUTDOWN))
    return None if celsius is None else int(celsius)


def main(fileno: int) -> int:
    """List the GPUs, then sample and tell until the channel closes."""
    channel, nvml = Channel(fileno), Nvml()
    refusal = nvml.open()
    gpus, usage = list_gpus(nvml), Usage(nvml)
    healthy = [gpu for gpu in gpus if gpu.fault is None]
    channel.send(
        {
            "say": "gpus",
            "refusal": None if refusal is None else refusal.word,
            "gpus": [gpu.wire() for gpu in gpus],
            "usage": {str(gpu.index): usage.of(gpu) for gpu in healthy},
            "limits": {str(gpu.index): _shutdown(nvml, gpu) for gpu in healthy},
        }
    )
    samplers = {gpu.index: Sampler(nvml, channel, gpu) for gpu in healthy}
    for sampler in samplers.values():
        sampler.start()
    while True:
        message = channel.receive()
        if message is None or message["do"] == "quit":
            return 0
        if message["do"] == "look":
            for gpu in healthy:
                channel.send({"say": "usage", "gpu": gpu.index, "usage": usage.of(gpu)})
            channel.send({"say": "looked"})
        if message["do"] == "pace":
            for index, sampler in samplers.items():
                (sampler.fast.set if index in message["fast"] else sampler.fast.clear)()
