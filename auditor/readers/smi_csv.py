"""`nvidia-smi --query-…  --format=csv`: the header names the columns; without it nothing is taken."""

from __future__ import annotations

import re

from auditor.readers import smi_fields
from auditor.readers.parsed import Book, Parsed, pci_address, shown
from auditor.readers.smi_fields import Field, compute_mode, count, flag, number, text
from auditor.records import Condition, Subject

KIND = "smi_csv"
TOOL = "nvidia-smi"
HINTS = (", ",)
_COLUMN = (
    r"(?:index|name|gpu_name|uuid|gpu_uuid|pci\.bus_id|gpu_bus_id|serial|gpu_serial|timestamp|driver_version|count|pid"
    r"|pstate|process_name|used_gpu_memory|vbios_version|mig\.|ecc\.|pcie\.|power\.|clocks|memory\.|utilization\."
    r"|temperature\.|fan\.|compute_mode|persistence_mode|retired_pages|remapped_rows|enforced\.|fabric\.|display_)"
)
BEGINS = re.compile(rf"^[ \t]*+{_COLUMN}[\w.]*(?: \[[\w%/]+\])?,[ \t]*{_COLUMN}[^\n]*$", re.M)
RESTARTS = BEGINS


def _field(metric: str, convert: smi_fields.Convert, **conditions: Condition) -> Field:
    return Field((), (metric,), (), metric, convert, conditions)


def _columns() -> dict[str, Field]:
    known = {
        "name": _field("gpu_identity_name", text),
        "serial": _field("gpu_identity_serial", text),
        "vbios_version": _field("gpu_identity_vbios", text),
        "memory.total": _field("gpu_identity_memory_bytes", number),
        "temperature.gpu": _field("gpu_identity_celsius", number, which="gpu"),
        "temperature.memory": _field("gpu_identity_celsius", number, which="memory"),
        "power.limit": _field("gpu_identity_power_limit_watts", number, which="now"),
        "power.default_limit": _field("gpu_identity_power_limit_watts", number, which="default"),
        "power.min_limit": _field("gpu_identity_power_limit_watts", number, which="min"),
        "power.max_limit": _field("gpu_identity_power_limit_watts", number, which="max"),
        "enforced.power.limit": _field("gpu_identity_power_limit_watts", number, which="enforced"),
        "clocks.sm": _field("gpu_identity_sm_clock_hertz", number, which="now"),
        "clocks.max.sm": _field("gpu_identity_sm_clock_hertz", number, which="max"),
        "clocks.mem": _field("gpu_identity_memory_clock_hertz", number, which="now"),
        "clocks.max.mem": _field("gpu_identity_memory_clock_hertz", number, which="max"),
        "persistence_mode": _field("gpu_identity_persistence", flag),
        "compute_mode": _field("gpu_identity_compute_mode", compute_mode),
        "fabric.state": _field("topology_fabric_state", smi_fields.fabric),
        "remapped_rows.correctable": _field("gpu_health_remapped_rows_total", count, kind="corrected", when="history"),
        "remapped_rows.uncorrectable": _field(
            "gpu_health_remapped_rows_total", count, kind="uncorrected", when="history"
        ),
        "remapped_rows.pending": _field("gpu_health_remap_pending", flag),
        "remapped_rows.failure": _field("gpu_health_remap_failure", flag),
        "retired_pages.single_bit_ecc.count": _field("gpu_health_retired_pages_total", count, cause="single_bit"),
        "retired_pages.double_bit.count": _field("gpu_health_retired_pages_total", count, cause="double_bit"),
        "retired_pages.pending": _field("gpu_health_retired_pending", flag),
    }
    for which in ("current", "pending"):
        known[f"ecc.mode.{which}"] = _field("gpu_identity_ecc_enabled", flag, which=which)
        known[f"mig.mode.{which}"] = _field("gpu_identity_mig_enabled", flag, which=which)
    for which, name in (("current", "current"), ("max", "max")):
        known[f"pcie.link.gen.{name}"] = _field("topology_pcie_generation", number, port="gpu", which=which)
        known[f"pcie.link.width.{name}"] = _field("topology_pcie_width_lanes", number, port="gpu", which=which)
    for counter in ("volatile", "aggregate"):
        for kind in ("corrected", "uncorrected"):
            known[f"ecc.errors.{kind}.{counter}.total"] = _field(
                "gpu_health_ecc_errors_total", count, kind=kind, counter=counter, where="all", when="history"
            )
    for one in smi_fields.GPU_FIELDS:
        if one.metric == "gpu_health_event_reason":
            tail = one.tags[0].rsplit("clocks_event_reason_", 1)[1]
            for prefix in ("clocks_throttle_reasons", "clocks_event_reasons"):
                known[f"{prefix}.{tail}"] = one
    return known


_KNOWN = _columns()


def recognise(text: str) -> float:
    """A header line of column names that `--help-query-…` lists."""
    return 0.9 if BEGINS.search(text) else 0.0


def read(text: str) -> Parsed:
    """One GPU a row, or one process or retired page a row."""
    book = Book(KIND, TOOL)
    header: list[str] = []
    order: dict[str, str] = {}
    pids: dict[str, set[str]] = {}
    pages: dict[tuple[str, str], set[str]] = {}
    rows = 0
    for line_number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if BEGINS.match(line):
            header = [re.sub(r" \[.*\]$", "", cell) for cell in cells]
            continue
        if not header or len(cells) != len(header):
            book.unreadable(line_number, f"no row under the header: {shown(line)}")
            continue
        row = dict(zip(header, cells, strict=True))
        subject = _subject(book, row, order)
        rows += 1
        if "pid" in row:
            pids.setdefault(subject, set()).add(row["pid"])
        elif "retired_pages.address" in row:
            cause = "double_bit" if "double" in row.get("retired_pages.cause", "").lower() else "single_bit"
            if row["retired_pages.address"] not in smi_fields.NOTHING:
                pages.setdefault((subject, cause), set()).add(row["retired_pages.address"])
        for column, value in row.items():
            known = _KNOWN.get(column.removeprefix("gpu_"))
            if known and "pid" not in row:
                smi_fields.note(book, known, value, subject, line_number)
        if row.get("driver_version"):
            book.add("server_facts_driver_version", row["driver_version"])
    for one, found in pids.items():
        book.add("gpu_identity_processes_total", len(found), one)
    for (one, cause), addresses in pages.items():
        book.add("gpu_health_retired_pages_total", len(addresses), one, cause=cause)
    if "index" in header and rows and rows == len(order):
        book.add("server_facts_gpus_nvml_total", rows)
    return book.parsed()


def _subject(book: Book, row: dict[str, str], order: dict[str, str]) -> str:
    """The GPU a row is about: by its index where that is a column, else by its address or UUID."""
    uuid = next((row[name] for name in ("uuid", "gpu_uuid") if row.get(name, "").startswith("GPU-")), None)
    address = pci_address(row.get("pci.bus_id") or row.get("gpu_bus_id") or "")
    if row.get("index", "").isdigit():
        order[row["index"]] = row["index"]
        return book.gpu(int(row["index"]), uuid=uuid, pci=address)
    if address:
        return book.subject(Subject(id=f"gpu:{address}", kind="gpu", pci=address, uuid=uuid))
    if uuid:
        return book.subject(Subject(id=f"gpu:{uuid[-12:]}", kind="gpu", uuid=uuid))
    return _by_row(book, order)


def _by_row(book: Book, order: dict[str, str]) -> str:
    """A table of GPUs without index, address and UUID: the tool prints them in order."""
    order[str(len(order))] = ""
    return book.gpu(len(order) - 1)
