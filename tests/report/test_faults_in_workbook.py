"""A faulty record of each kind, as a file, to the row of the workbook that names it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pytest

from auditor import order, report
from auditor.assembly import judge_heap
from auditor.records import Reading, Record, Subject, to_document
from tests import builders
from tests.builders import NVML, SYSFS, added, reading

HEALTHY = builders.healthy("H200 SXM5 141GB", server="faulty")
PCI = str(next(s.pci for s in HEALTHY.subjects if s.id == "gpu1"))[:-2]
ORDER = {"gpu": "H200", "gpus": 8, "interconnect": "nvswitch", "bare_metal": True, "nics": {"count": 1, "gbps": 400}}
NIC = (
    reading("network_interfaces_kind", "infiniband", "nic0", SYSFS),
    reading("network_interfaces_name", "mlx5_0", "nic0", SYSFS),
)


def log(*lines: str) -> Callable[[Record], Record]:
    """The kernel's log held these lines during the audit."""
    text = "# lines below: during the audit\n" + "\n".join(lines) + "\n"
    return lambda record: dataclasses.replace(record, attachments={"kernel-log.txt": text})


def told(*rows: Reading) -> Callable[[Record], Record]:
    """The probes told this too."""
    return lambda record: added(record, *rows)


def dcgm(record: Record) -> Record:
    """DCGM warned."""
    result = {"entity_group": "GPU", "entity_id": 2, "status": "Pass", "warnings": [
        {"warning": "could not allocate", "error_id": 83, "error_severity": 4}]}  # fmt: skip
    tests = [{"category": "Hardware", "tests": [{"name": "memory", "results": [result]}]}]
    document = json.dumps({"DCGM Diagnostic": {"test_categories": tests}}, indent=1)
    return dataclasses.replace(record, attachments={"dcgmi-diag.json": document})


def fio_through_the_cache(record: Record) -> Record:
    """fio ran without O_DIRECT."""
    job = {"jobname": "r", "error": 0, "job options": {"rw": "read"}, "read": {"io_bytes": 9, "bw_bytes": 8e9}}
    document = json.dumps({"fio version": "fio-3.36", "global options": {}, "jobs": [job]}, indent=1)
    record = added(record, reading("storage_file_system", "overlay", source=SYSFS, path="/data"))
    return dataclasses.replace(record, attachments={"fio.json": document})


def training(quantity: str, value: float, **conditions: str) -> Reading:
    """A figure of the training step on eight GPUs."""
    return reading(f"training_step_{quantity}", value, ranks=8, parameters=438521856, **conditions)


ECC, REPAIR = "gpu_health_ecc_errors_total", "gpu_health_repair_pending"
FAULTS: dict[str, tuple[str, Callable[[Record], Record]]] = {
    "xid-recent": ("review", log(f"[9.1] NVRM: Xid (PCI:{PCI}): 94, pid=7, name=x, Contained: SM (0x1)")),
    "gpu-lost": ("reject", log(f"[9.1] NVRM: Xid (PCI:{PCI}): 79, GPU has fallen off the bus.")),
    "nvswitch-sxid": ("reject", log("[9.1] nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM")),
    "ecc-uncorrectable": (
        "reject",
        told(reading(ECC, 1, "gpu1", NVML, kind="uncorrected", counter="volatile", when="audit")),
    ),
    "row-remap": ("reject", told(reading("gpu_health_remap_failure", True, "gpu1", NVML))),
    "retired-pages": ("review", told(reading("gpu_health_retired_pending", True, "gpu1", NVML))),
    "unrepairable-memory": (
        "reject",
        told(reading(REPAIR, True, "gpu1", NVML, what="unrepairable")),
    ),
    "channel-repair-pending": (
        "reject",
        told(reading(REPAIR, True, "gpu1", NVML, what="channel")),
    ),
    "recovery-action": ("review", told(reading("gpu_health_recovery_action", "drain_and_reset", "gpu1", NVML))),
    "nvlink-crc": (
        "review",
        told(reading("gpu_health_nvlink_errors_total", 4, "gpu1/link3", NVML, counter="replay", when="audit")),
    ),
    "pcie-replay": ("review", told(reading("gpu_health_pcie_replays_total", 40, "gpu1", NVML, when="audit"))),
    "aer": ("review", told(reading("gpu_health_aer_errors_total", 1, "gpu1", SYSFS, kind="fatal", when="audit"))),
    "dcgm-warning": ("review", dcgm),
    "training-scaling-low": ("review", told(training("speedup_ratio", 4.5))),
    "training-does-not-learn": ("review", told(training("loss", 9.7, at="first"), training("loss", 9.8, at="last"))),
    "steal-time": (
        "advice",
        told(
            reading("steal_time_ratio", 0.04, source=SYSFS),
            reading("steal_time_window_seconds", 60.0, source=SYSFS),
        ),
    ),
    "ib-down": ("review", told(*NIC, reading("network_interfaces_link", "down", "nic0", SYSFS))),
    "nic-rate-low": (
        "review",
        told(
            *NIC,
            reading("network_interfaces_link", "up", "nic0", SYSFS),
            reading("network_interfaces_link_bits_per_second", 2e11, "nic0", SYSFS),
        ),
    ),
    "storage-not-direct": ("info", fio_through_the_cache),
}


@pytest.mark.parametrize("id", FAULTS)
def test_a_faulty_record_leads_to_its_row(tmp_path: Path, id: str) -> None:
    """From the file through reader, attachments, judge and workbook: the row with this id, severity and GPU."""
    severity, edit = FAULTS[id]
    record = dataclasses.replace(HEALTHY, subjects=(*HEALTHY.subjects, Subject("nic0", "nic", 0)))
    path = tmp_path / "faulty.json"
    path.write_text(json.dumps(to_document(edit(record))), encoding="utf-8")
    orders = order.Orders(default=order.parse(ORDER, "test"))
    report.write(judge_heap([path], orders), tmp_path, ["xlsx"])
    (file,) = tmp_path.glob("*.xlsx")
    book = openpyxl.load_workbook(file, read_only=True)
    rows = [list(row) for row in book["Findings"].iter_rows(values_only=True)]
    book.close()
    heading = next(row for row in rows if row and "Finding id" in row)
    found = [dict(zip(heading, row, strict=False)) for row in rows]
    (row,) = [row for row in found if row.get("Finding id") == id]
    assert str(row["Severity"]).split()[-1].lower() == severity  # a mark stands before the word
    assert row["Observed"]
    assert row["What it means"]
    assert row["What to ask the provider"] or severity == "info"
