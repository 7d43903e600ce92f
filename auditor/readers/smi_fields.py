"""What of `nvidia-smi -q` becomes a reading, by its key in the text and its path in the XML.

The same key stands at several depths ("Current" under MIG, ECC, clocks), so a row names the heading above it.
Labels of drivers 450 to 610 are listed side by side.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from auditor.readers.parsed import Book
from auditor.records import Condition, Value

Convert = Callable[[str], Value]

NOTHING = {"", "N/A", "[N/A]", "n/a", "[Not Supported]", "Not Supported", "None", "Unknown"}
_DEPRECATED = "deprecated"
FAULTS = {
    "err!": "err",
    "unknown error": "unknown_error",
    "[unknown error]": "unknown_error",
    "gpu is lost": "gpu_lost",
    "[gpu is lost]": "gpu_lost",
    "gpu requires reset": "reset_required",
    "[gpu requires reset]": "reset_required",
}
_UNITS = {
    "": 1.0,
    "b": 1.0,
    "bytes": 1.0,
    "kib": 1024.0,
    "mib": 1024.0**2,
    "gib": 1024.0**3,
    "w": 1.0,
    "c": 1.0,
    "hz": 1.0,
    "khz": 1e3,
    "mhz": 1e6,
    "ghz": 1e9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "%": 0.01,
    "x": 1.0,
}
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)\s*([A-Za-z%]*)$")


def number(text: str) -> Value:
    """A figure in base units; None when the text is none."""
    match = _NUMBER.match(text.strip())
    if not match or match[2].lower() not in _UNITS:
        return None
    value = float(match[1]) * _UNITS[match[2].lower()]
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def text(value: str) -> Value:
    """The words as printed."""
    return value.strip()


def flag(value: str) -> Value:
    """Yes and no, as the tools say them."""
    return {
        "enabled": True,
        "yes": True,
        "active": True,
        "on": True,
        "disabled": False,
        "no": False,
        "not active": False,
        "off": False,
    }.get(value.strip().lower())


def words(**known: Value) -> Convert:
    """A converter of the closed set of words a field may hold (blanks and marks left out)."""
    table = {key.replace("_", ""): value for key, value in known.items()}
    return lambda value: table.get(re.sub(r"[^a-z0-9]", "", value.lower()))


def pci_id(value: str) -> Value:
    """`0x233010DE` or `233010DE` as `10de:2330`; a device half of zero is garbage, not an identity."""
    match = re.fullmatch(r"(?:0x)?([0-9A-Fa-f]{4})([0-9A-Fa-f]{4})", value.strip())
    if not match or int(match[1], 16) == 0:
        return None
    return f"{match[2].lower()}:{match[1].lower()}"


def count(value: str) -> Value:
    """A whole number; "192 bank(s)" is none."""
    return int(value) if value.strip().isdigit() else None


virtualization = words(
    none="none", passthrough="passthrough", vgpu="vgpu", hostvgpu="host_vgpu", hostvsga="host_vsga", vsga="host_vsga"
)
compute_mode = words(
    default="default", exclusiveprocess="exclusive_process", eprocess="exclusive_process", prohibited="prohibited"
)
recovery = words(
    none="none",
    reset="gpu_reset",
    gpureset="gpu_reset",
    reboot="node_reboot",
    nodereboot="node_reboot",
    drainp2p="drain_p2p",
    drainandreset="drain_and_reset",
    recoverimex="recover_imex",
    busreset="bus_reset",
    systemreboot="system_reboot",
)
fabric = words(completed="completed", inprogress="in_progress", notstarted="not_started", notsupported="not_supported")


@dataclass(frozen=True)
class Field:
    """One fact: the headings it may stand under (empty = the GPU itself), its keys, its XML tags, its metric."""

    under: tuple[str, ...]
    keys: tuple[str, ...]
    tags: tuple[str, ...]
    metric: str
    convert: Convert
    conditions: dict[str, Condition] = field(default_factory=dict)
    none_counts: bool = False


def _reasons() -> tuple[Field, ...]:
    names = (
        ("idle", ("Idle",), "gpu_idle"),
        ("applications_clocks", ("Applications Clocks Setting",), "applications_clocks_setting"),
        ("sw_power_cap", ("SW Power Cap",), "sw_power_cap"),
        ("hw_slowdown", ("HW Slowdown",), "hw_slowdown"),
        ("hw_thermal", ("HW Thermal Slowdown",), "hw_thermal_slowdown"),
        ("hw_power_brake", ("HW Power Brake Slowdown",), "hw_power_brake_slowdown"),
        ("sync_boost", ("Sync Boost",), "sync_boost"),
        ("sw_thermal", ("SW Thermal Slowdown",), "sw_thermal_slowdown"),
        ("display_clock", ("Display Clock Setting",), "display_clocks_setting"),
    )
    headings = ("Clocks Event Reasons", "Clocks Throttle Reasons", "HW Slowdown")
    return tuple(
        Field(
            headings,
            keys,
            (
                f"clocks_event_reasons/clocks_event_reason_{tag}",
                f"clocks_throttle_reasons/clocks_throttle_reason_{tag}",
            ),
            "gpu_health_event_reason",
            flag,
            {"reason": reason},
        )
        for reason, keys, tag in names
    )


def _reason_seconds() -> tuple[Field, ...]:
    names = (
        ("sw_power_cap", ("SW Power Capping", "SW Power Cap"), "sw_power_cap"),
        ("sync_boost", ("Sync Boost",), "sync_boost"),
        ("sw_thermal", ("SW Thermal Slowdown",), "sw_therm_slowdown"),
        ("hw_thermal", ("HW Thermal Slowdown",), "hw_therm_slowdown"),
        ("hw_power_brake", ("HW Power Braking", "HW Power Brake"), "hw_power_brake"),
    )
    return tuple(
        Field(
            ("Clocks Event Reasons Counters",),
            keys,
            (f"clocks_event_reasons_counters/clocks_event_reasons_counters_{tag}",),
            "gpu_health_event_reason_seconds",
            number,
            {"reason": reason, "when": "history"},
        )
        for reason, keys, tag in names
    )


def _ecc() -> tuple[Field, ...]:
    where = (
        ("corrected", "sram", "SRAM Correctable", "sram_correctable"),
        ("uncorrected", "sram", "SRAM Uncorrectable", "sram_uncorrectable"),
        ("uncorrected", "sram_parity", "SRAM Uncorrectable Parity", "sram_uncorrectable_parity"),
        ("uncorrected", "sram_secded", "SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded"),
        ("corrected", "dram", "DRAM Correctable", "dram_correctable"),
        ("uncorrected", "dram", "DRAM Uncorrectable", "dram_uncorrectable"),
    )
    return tuple(
        Field(
            (heading,),
            (key,),
            (f"ecc_errors/{heading.lower()}/{tag}",),
            "gpu_health_ecc_errors_total",
            count,
            {"kind": kind, "counter": heading.lower(), "where": place, "when": "history"},
        )
        for heading in ("Volatile", "Aggregate")
        for kind, place, key, tag in where
    )


def _power() -> tuple[Field, ...]:
    limits = (
        ("now", ("Current Power Limit", "Power Limit"), ("current_power_limit", "power_limit")),
        ("default", ("Default Power Limit",), ("default_power_limit",)),
        ("enforced", ("Enforced Power Limit",), ("enforced_power_limit",)),
        ("min", ("Min Power Limit",), ("min_power_limit",)),
        ("max", ("Max Power Limit",), ("max_power_limit",)),
    )
    return tuple(
        Field(
            ("GPU Power Readings", "Power Readings"),
            keys,
            tuple(f"{above}/{tag}" for above in ("gpu_power_readings", "power_readings") for tag in tags),
            "gpu_identity_power_limit_watts",
            number,
            {"which": which},
        )
        for which, keys, tags in limits
    )


def _clocks() -> tuple[Field, ...]:
    groups = (
        ("now", "Clocks", "clocks"),
        ("max", "Max Clocks", "max_clocks"),
        ("application", "Applications Clocks", "applications_clocks"),
        ("default_application", "Default Applications Clocks", "default_applications_clocks"),
    )
    rows = []
    for which, heading, tag in groups:
        key, sm = ("SM", "sm_clock") if which in ("now", "max") else ("Graphics", "graphics_clock")
        rows.append(
            Field((heading,), (key,), (f"{tag}/{sm}",), "gpu_identity_sm_clock_hertz", number, {"which": which})
        )
        rows.append(
            Field(
                (heading,),
                ("Memory",),
                (f"{tag}/mem_clock",),
                "gpu_identity_memory_clock_hertz",
                number,
                {"which": which},
            )
        )
    return tuple(rows)


def _link() -> tuple[Field, ...]:
    base = "pci/pci_gpu_link_info"
    rows = (
        ("PCIe Generation", "Current", "pcie_gen/current_link_gen", "generation", "gpu", "current"),
        ("PCIe Generation", "Max", "pcie_gen/max_link_gen", "generation", "gpu", "max"),
        ("PCIe Generation", "Device Max", "pcie_gen/max_device_link_gen", "generation", "device", "max"),
        ("PCIe Generation", "Host Max", "pcie_gen/max_host_link_gen", "generation", "host", "max"),
        ("Link Width", "Current", "link_widths/current_link_width", "width_lanes", "gpu", "current"),
        ("Link Width", "Max", "link_widths/max_link_width", "width_lanes", "gpu", "max"),
    )
    return tuple(
        Field((heading,), (key,), (f"{base}/{tag}",), f"topology_pcie_{name}", number, {"port": port, "which": which})
        for heading, key, tag, name, port, which in rows
    )


def _modes() -> tuple[Field, ...]:
    rows = []
    for which in ("current", "pending"):
        key = which.capitalize()
        rows.append(
            Field(("MIG Mode",), (key,), (f"mig_mode/{which}_mig",), "gpu_identity_mig_enabled", flag, {"which": which})
        )
        rows.append(
            Field(
                ("ECC Mode", "Ecc Mode"),
                (key,),
                (f"ecc_mode/{which}_ecc",),
                "gpu_identity_ecc_enabled",
                flag,
                {"which": which},
            )
        )
    return tuple(rows)


def _of_server() -> tuple[Field, ...]:
    return (
        Field(
            (),
            ("Driver Version", "KMD Version"),
            ("driver_version", "kmd_version"),
            "server_facts_driver_version",
            text,
        ),
        Field(
            (),
            ("CUDA Version", "CUDA UMD Version"),
            ("cuda_version", "cuda_umd_version"),
            "server_facts_cuda_version",
            text,
        ),
        Field((), ("Attached GPUs",), ("attached_gpus",), "server_facts_gpus_nvml_total", count),
    )


def _of_gpu() -> tuple[Field, ...]:
    health, identity = "gpu_health_", "gpu_identity_"
    retired = "retired_pages/"
    remapped = ("Remapped Rows",)
    return (
        Field((), ("Product Name",), ("product_name",), identity + "name", text),
        Field((), ("Product Brand",), ("product_brand",), identity + "brand", text),
        Field((), ("Product Architecture",), ("product_architecture",), identity + "architecture", text),
        Field((), ("Persistence Mode",), ("persistence_mode",), identity + "persistence", flag),
        Field((), ("Serial Number",), ("serial",), identity + "serial", text),
        Field((), ("GPU UUID",), ("uuid",), identity + "uuid", text),
        Field((), ("Minor Number",), ("minor_number",), identity + "minor", count),
        Field((), ("VBIOS Version",), ("vbios_version",), identity + "vbios", text),
        Field((), ("Board Part Number",), ("board_part_number",), identity + "board_part_number", text),
        Field(
            ("Inforom Version",),
            ("Image Version",),
            ("inforom_version/img_version",),
            identity + "inforom_version",
            text,
        ),
        Field(
            ("", "Platform Info"),
            ("Module ID", "Module Id"),
            ("module_id", "gpu_module_id", "platformInfo/module_id"),
            identity + "module_id",
            count,
        ),
        Field(("Driver Model",), ("Current",), ("driver_model/current_dm",), identity + "driver_model", text),
        Field(
            ("GPU Virtualization Mode",),
            ("Virtualization Mode", "Virtualization mode"),
            ("gpu_virtualization_mode/virtualization_mode",),
            identity + "virtualization_mode",
            virtualization,
            none_counts=True,
        ),
        Field(
            ("GPU Reset Status",),
            ("Reset Required",),
            ("gpu_reset_status/reset_required",),
            health + "recovery_action",
            words(yes="gpu_reset"),
        ),
        Field(
            ("GPU Reset Status",),
            ("Drain and Reset Recommended",),
            ("gpu_reset_status/drain_and_reset_recommended",),
            health + "recovery_action",
            words(yes="drain_and_reset"),
        ),
        Field(
            (),
            ("GPU Recovery Action",),
            ("gpu_recovery_action",),
            health + "recovery_action",
            recovery,
            none_counts=True,
        ),
        Field(("PCI",), ("Device Id",), ("pci/pci_device_id",), identity + "pci_device", pci_id),
        Field(("PCI",), ("Sub System Id",), ("pci/pci_sub_system_id",), identity + "pci_subsystem", pci_id),
        Field(
            (),
            ("Replays Since Reset",),
            ("pci/replay_counter",),
            health + "pcie_replays_total",
            count,
            {"when": "history"},
        ),
        Field(("FB Memory Usage",), ("Total",), ("fb_memory_usage/total",), identity + "memory_bytes", number),
        Field(("FB Memory Usage",), ("Used",), ("fb_memory_usage/used",), identity + "memory_used_bytes", number),
        Field(("BAR1 Memory Usage",), ("Total",), ("bar1_memory_usage/total",), identity + "bar1_bytes", number),
        Field((), ("Compute Mode",), ("compute_mode",), identity + "compute_mode", compute_mode),
        Field(
            ("ECC Errors", "Aggregate", "Volatile"),
            ("SRAM Threshold Exceeded",),
            ("ecc_errors/aggregate/sram_threshold_exceeded",),
            health + "sram_threshold_exceeded",
            flag,
        ),
        *(
            Field((), (key,), (f"ecc_errors/{tag}", tag), health + "repair_pending", flag, {"what": what})
            for key, tag, what in (
                ("Channel Repair Pending", "channel_repair_pending", "channel"),
                ("TPC Repair Pending", "tpc_repair_pending", "tpc"),
                ("Unrepairable Memory", "unrepairable_memory", "unrepairable"),
            )
        ),
        *(
            Field(
                ("Retired Pages", "Retired pages"),
                (key,),
                (f"{retired}{tag}/retired_count",),
                health + "retired_pages_total",
                count,
                {"cause": cause},
            )
            for key, tag, cause in (
                ("Single Bit ECC", "multiple_single_bit_retirement", "single_bit"),
                ("Double Bit ECC", "double_bit_retirement", "double_bit"),
            )
        ),
        Field(
            ("Retired Pages", "Retired pages"),
            ("Pending Page Blacklist", "Pending Page Retirement", "Pending"),
            (retired + "pending_retirement", retired + "pending_blacklist"),
            health + "retired_pending",
            flag,
        ),
        *(
            Field(
                remapped,
                (key,),
                (f"remapped_rows/{tag}",),
                health + "remapped_rows_total",
                count,
                {"kind": kind, "when": "history"},
            )
            for key, tag, kind in (
                ("Correctable Error", "remapped_row_corr", "corrected"),
                ("Uncorrectable Error", "remapped_row_unc", "uncorrected"),
            )
        ),
        Field(remapped, ("Pending",), ("remapped_rows/remapped_row_pending",), health + "remap_pending", flag),
        Field(
            remapped,
            ("Remapping Failure Occurred",),
            ("remapped_rows/remapped_row_failure",),
            health + "remap_failure",
            flag,
        ),
        *(
            Field(("Temperature",), keys, tags, identity + "celsius", number, {"which": which})
            for which, keys, tags in (
                ("gpu", ("GPU Current Temp",), ("temperature/gpu_temp",)),
                ("memory", ("Memory Current Temp",), ("temperature/memory_temp",)),
                ("shutdown", ("GPU Shutdown Temp",), ("temperature/gpu_temp_max_threshold",)),
                ("slowdown", ("GPU Slowdown Temp",), ("temperature/gpu_temp_slow_threshold",)),
                ("max_operating", ("GPU Max Operating Temp",), ("temperature/gpu_temp_max_gpu_threshold",)),
            )
        ),
        Field(("Fabric",), ("State",), ("fabric/state",), "topology_fabric_state", fabric),
        Field(("Health", "Fabric"), ("Summary",), ("fabric/health/summary",), "topology_fabric_health", text),
    )


SERVER_FIELDS = _of_server()
GPU_FIELDS = (*_of_gpu(), *_modes(), *_link(), *_clocks(), *_power(), *_ecc(), *_reasons(), *_reason_seconds())
BY_KEY: dict[str, tuple[Field, ...]] = {}
for _field in GPU_FIELDS:
    for _key in _field.keys:
        BY_KEY[_key] = (*BY_KEY.get(_key, ()), _field)
_SERVER_KEYS = {key: one for one in SERVER_FIELDS for key in one.keys}


def find(heading: str, key: str) -> Field | None:
    """The field of a key under a heading; a field without headings may stand under any."""
    for candidate in BY_KEY.get(key, ()):
        if not candidate.under or heading in candidate.under or (not heading and "" in candidate.under):
            return candidate
    return None


def find_server(key: str) -> Field | None:
    """The field of a key above the first GPU."""
    return _SERVER_KEYS.get(key)


def note(book: Book, known: Field, value: str, subject: str, line: int) -> None:
    """Turn one printed value into a reading, a fault, nothing (N/A), or an unreadable line."""
    stripped = value.strip()
    fault = FAULTS.get(stripped.lower())
    if fault:
        where = known.metric.split("_", 2)[2]
        book.add("gpu_health_fault", fault, subject, where=where)
        return
    if _DEPRECATED in stripped or (stripped in NOTHING and not (known.none_counts and stripped == "None")):
        return
    converted = known.convert(stripped)
    if converted is None:
        if stripped.lower() not in ("no", "none"):
            book.unreadable(line, f"{known.keys[0]}: {stripped[:40]!r} is no value that is known")
        return
    book.add(known.metric, converted, subject, **known.conditions)
