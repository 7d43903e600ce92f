"""Health counters of every GPU before and after the audit, and the kernel's log about them.

`audit` is what a counter rose by while we worked; `history` is its value before, since the driver was loaded
or for ever, former tenants included. NVLink errors are asked link by link (the per-GPU fields answer 0 on
Hopper); Blackwell counts in other fields. Nothing here needs root but the kernel log, and AER counters are
the kernel's. A read that the driver answers with "lost" or "reset required" is itself the evidence.
"""

import ctypes
import os
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from auditor.probes.engine import kernel_log
from auditor.probes.engine.nvml import NvmlRefusal
from auditor.records import Reading

KEY = "gpu_health"
SCOPE = "server"
DEVICES = ("cuda", "cpu")
NEEDS: Tuple[str, ...] = ()
SECONDS = {"quick": 1.5, "standard": 3.0, "soak": 3.0}
METHOD = 1
ORDER = 15

DRIVER = "driver/nvml"
ATTACHMENT = "kernel-log.txt"
RECOVERY_ACTIONS = (
    "none",
    "gpu_reset",
    "node_reboot",
    "drain_p2p",
    "drain_and_reset",
    "recover_imex",
    "bus_reset",
    "system_reboot",
)
POLICIES = {
    0: "power",
    1: "thermal",
    2: "sync_boost",
    3: "board_limit",
    4: "low_utilization",
    5: "reliability",
    10: "app_clocks",
    11: "base_clocks",
}
REASON_FIELDS = {74: "sw_power_cap", 76: "sync_boost", 269: "sw_thermal", 270: "hw_thermal", 271: "hw_power_brake"}
LINK_COUNTERS = ("replay", "recovery", "crc_flit", "crc_data", "ecc_data")
BLACKWELL_FIELDS = {
    208: "receive",
    211: "integrity",
    214: "recovery_failed",
    215: "recovery",
    219: "effective",
    221: "symbol",
}
MAX_LINKS = 18
FAULTS = ("gpu_lost", "reset_required", "os_blocked", "driver_mismatch", "unknown_error")

Counter = Tuple[str, str, Tuple[Tuple[str, str], ...]]  # quantity, subject, conditions
_BEFORE: Dict[str, Any] = {}


def applies(context: Any) -> Optional[str]:
    """Everywhere: without a GPU the kernel log is still asked."""
    return None


def run(context: Any) -> Iterator[Reading]:
    """Facts that hold now, and every counter as history."""
    _BEFORE.clear()
    _BEFORE["log"] = log = kernel_log.read()
    yield Reading(KEY, "kernel_log_readable", "server", log is not None, "kernel/log")
    if log is None:
        context.cut("kernel log: needs root")
    _BEFORE["state"] = {gpu.index: state(context, gpu) for gpu in context.gpus}
    for flags in _BEFORE["state"].values():
        for (quantity, subject, conditions), value in flags.items():
            yield context.reading(quantity, value, subject=subject, source=DRIVER, **dict(conditions))
    _BEFORE["counters"] = before = counters(context, "/sys")
    for (quantity, subject, conditions), (value, source) in before.items():
        yield context.reading(quantity, value, subject=subject, source=source, when="history", **dict(conditions))


def finish(context: Any) -> Iterator[Reading]:
    """What rose during the audit, what the driver now refuses to tell, and the kernel's lines."""
    for reading in differences(context, _BEFORE.get("counters", {}), counters(context, "/sys")):
        yield reading
    for gpu in context.gpus:
        known = _BEFORE.get("state", {}).get(gpu.index, {})
        for key, value in state(context, gpu).items():
            if known.get(key) != value:
                quantity, subject, conditions = key
                yield context.reading(quantity, value, subject=subject, source=DRIVER, when="audit", **dict(conditions))
    if _BEFORE.get("log") is not None:
        context.attach(ATTACHMENT, kernel_log.attachment(_BEFORE["log"], kernel_log.read()))


def differences(
    context: Any, before: Dict[Counter, Tuple[float, str]], after: Dict[Counter, Tuple[float, str]]
) -> Iterator[Reading]:
    """Counters that were there both times; one that fell was reset or wrapped and counts from zero."""
    for key, (value, source) in after.items():
        if key in before:
            old = before[key][0]
            grown = value - old if value >= old else value
            quantity, subject, conditions = key
            yield context.reading(quantity, grown, subject=subject, source=source, when="audit", **dict(conditions))


def state(context: Any, gpu: Any) -> Dict[Counter, Any]:
    """Flags of one GPU: remapping, retirement, repair, recovery action; a lost GPU gives its fault only."""
    subject, handle = gpu.subject, context.nvml.handle(gpu)
    found: Dict[Counter, Any] = {}

    def note(quantity: str, value: Any, *conditions: Tuple[str, str]) -> None:
        if value is not None:
            found[quantity, subject, conditions] = value

    def ask(name: str, *arguments: Any) -> Any:
        answer = context.nvml.call(name, handle, *arguments)
        if isinstance(answer, NvmlRefusal):
            gone = answer.word in FAULTS or (answer is handle and answer.word == "not_found")
            if gone and not any(key[0] == "fault" for key in found):
                note("fault", answer.word, ("where", answer.call))
            return None
        return answer

    rows = ask("nvmlDeviceGetRemappedRows")
    if rows:
        note("remap_pending", bool(rows[2]))
        note("remap_failure", bool(rows[3]))
    note("retired_pending", _flag(ask("nvmlDeviceGetRetiredPagesPendingStatus")))
    repair = ask("nvmlDeviceGetRepairStatus") or (None, None)
    note("repair_pending", _flag(repair[0]), ("what", "channel"))
    note("repair_pending", _flag(repair[1]), ("what", "tpc"))
    note("repair_pending", _flag(ask("nvmlDeviceGetUnrepairableMemoryFlag_v1")), ("what", "unrepairable"))
    note("sram_threshold_exceeded", _sram_exceeded(ask))
    action = _fields(ask, [230]).get(230)
    if action is not None:
        known = action < len(RECOVERY_ACTIONS)
        note("recovery_action", RECOVERY_ACTIONS[action] if known else "unknown_%d" % action)
    return found


def _flag(value: Optional[int]) -> Optional[bool]:
    return None if value is None else bool(value)


def counters(context: Any, sysfs: str) -> Dict[Counter, Tuple[float, str]]:
    """Every counter of every GPU that its driver and kernel tell, with its source."""
    found: Dict[Counter, Tuple[float, str]] = {}
    for gpu in context.gpus:
        subject, handle = gpu.subject, context.nvml.handle(gpu)
        if not isinstance(handle, NvmlRefusal):

            def ask(name: str, *arguments: Any, _handle: Any = handle) -> Any:
                answer = context.nvml.call(name, _handle, *arguments)
                return None if isinstance(answer, NvmlRefusal) else answer

            for quantity, conditions, value in _of_gpu(ask):
                found[quantity, subject, conditions] = (value, DRIVER)
            for link_subject, name, value in _of_links(ask, subject):
                found["nvlink_errors_total", link_subject, (("counter", name),)] = (value, DRIVER)
        for kind, value in aer(sysfs, gpu.pci).items():
            found["aer_errors_total", subject, (("kind", kind),)] = (value, "kernel/sysfs")
    return found


def _of_gpu(ask: Callable[..., Any]) -> Iterator[Tuple[str, Tuple[Tuple[str, str], ...], float]]:
    for error, kind in ((0, "corrected"), (1, "uncorrected")):
        for which, counter in ((0, "volatile"), (1, "aggregate")):
            value = ask("nvmlDeviceGetTotalEccErrors", error, which)
            if value is not None:
                yield "ecc_errors_total", (("kind", kind), ("counter", counter)), value
    rows = ask("nvmlDeviceGetRemappedRows")
    if rows:
        yield "remapped_rows_total", (("kind", "corrected"),), rows[0]
        yield "remapped_rows_total", (("kind", "uncorrected"),), rows[1]
    for number, cause in ((0, "single_bit"), (1, "double_bit")):
        pages = ask("nvmlDeviceGetRetiredPages", number)
        if pages is not None:
            yield "retired_pages_total", (("cause", cause),), len(pages)
    replays = ask("nvmlDeviceGetPcieReplayCounter")
    if replays is not None:
        yield "pcie_replays_total", (), replays
    for number, policy in POLICIES.items():
        status = ask("nvmlDeviceGetViolationStatus", number)
        if status is not None:
            yield "violation_seconds", (("policy", policy),), status.violationTime / 1e9
    for number, nanoseconds in _fields(ask, list(REASON_FIELDS)).items():
        yield "event_reason_seconds", (("reason", REASON_FIELDS[number]),), nanoseconds / 1e9


def _of_links(ask: Callable[..., Any], gpu: str) -> Iterator[Tuple[str, str, float]]:
    """Per link where it is up and counted something, and the sum over the GPU's links for every counter."""
    sums: Dict[str, float] = {}
    for link in range(MAX_LINKS):
        if not ask("nvmlDeviceGetNvLinkState", link):
            continue
        values: Dict[str, float] = {}
        for number, name in enumerate(LINK_COUNTERS):
            value = ask("nvmlDeviceGetNvLinkErrorCounter", link, number)
            if value is not None:
                values[name] = value
        if not values:
            answers = _fields(ask, [(number, link) for number in BLACKWELL_FIELDS])
            values = {BLACKWELL_FIELDS[number]: value for number, value in answers.items()}
        for name, value in values.items():
            sums[name] = sums.get(name, 0) + value
            if value:
                yield "%s/link%d" % (gpu, link), name, value
    for name, value in sums.items():
        yield gpu, name, value


def _fields(ask: Callable[..., Any], wanted: List[Any]) -> Dict[int, int]:
    """Field values by id; those that the driver does not have are left out."""
    answers = ask("nvmlDeviceGetFieldValues", wanted)
    found: Dict[int, int] = {}
    for answer in answers or ():
        # Type 1 and 2 are 32 bits wide; the union's other bytes are not written.
        if answer.nvmlReturn == 0:
            number = answer.value.uiVal if answer.valueType == 1 else answer.value.ullVal
            if number != 2**64 - 1:
                found[answer.fieldId] = int(number)
    return found


def _sram_exceeded(ask: Callable[..., Any]) -> Optional[bool]:
    import pynvml

    if not hasattr(pynvml, "c_nvmlEccSramErrorStatus_v1_t"):
        return None
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    status.version = ctypes.sizeof(status) | 1 << 24
    return (
        bool(status.bThresholdExceeded) if ask("nvmlDeviceGetSramEccErrorStatus", ctypes.byref(status)) == 0 else None
    )


def aer(sysfs: str, pci: Optional[str]) -> Dict[str, int]:
    """Totals of the kernel's PCIe error counters of one function, by kind; empty where it keeps none."""
    totals: Dict[str, int] = {}
    if not pci:
        return totals
    folder = os.path.join(sysfs, "bus/pci/devices", pci.lower())
    for kind, name in (("correctable", "correctable"), ("nonfatal", "nonfatal"), ("fatal", "fatal")):
        try:
            with open(os.path.join(folder, "aer_dev_" + name), encoding="ascii") as file:
                lines = [line.split() for line in file]
        except OSError:
            continue
        for words in lines:
            if len(words) == 2 and words[0].startswith("TOTAL_ERR") and words[1].isdigit():
                totals[kind] = int(words[1])
    return totals
