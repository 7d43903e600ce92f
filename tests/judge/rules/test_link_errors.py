"""NVLink and PCIe error counters, from NVML's and the kernel's answers to findings."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from auditor.finding import ServerResult
from auditor.probes import gpu_health
from tests import builders
from tests.builders import SYSFS, added, reading
from tests.judge.judged import METAL_H200, found, ids, one
from tests.nvml_double import build, edited, healthy
from tests.probes.health_run import told

HEALTHY = builders.healthy("H200 SXM5 141GB")
WELL = edited(healthy("h200x8-nvswitch", 2), None, nvmlDeviceGetNvLinkErrorCounter=0)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The double, compiled once."""
    if shutil.which("gcc") is None and os.environ.get("CI") != "true":
        pytest.skip("no C compiler here")
    return build(tmp_path_factory.mktemp("nvml"))


def judged(folder: Path, libraries: Path, before: dict[str, Any], after: dict[str, Any]) -> ServerResult:
    """GPU 1 counts `before` at the start and `after` at the end."""
    readings = told(folder, libraries, edited(WELL, 1, **before), edited(WELL, 1, **after)).readings
    return one(added(HEALTHY, *readings), METAL_H200)


@pytest.mark.parametrize(
    ("number", "counter"), [(0, "replay"), (1, "recovery"), (2, "crc_flit"), (3, "crc_data"), (4, "ecc_data")]
)
def test_a_link_counter_that_grows_is_to_be_repaired(
    tmp_path: Path, libraries: Path, number: int, counter: str
) -> None:
    """Each of the five counters of a link; history on the same link tells which link it is."""
    name = f"nvmlDeviceGetNvLinkErrorCounter[5,{number}]"
    finding = found(judged(tmp_path, libraries, {name: 2}, {name: 9}), "nvlink-crc", "gpu1")
    assert finding.severity == "review"
    assert (finding.parameters["counter"], finding.parameters["measured"]) == (counter, 7)
    assert finding.parameters["links"] == "5"


def test_link_errors_of_former_times_are_advice(tmp_path: Path, libraries: Path) -> None:
    """They stood there before and did not grow."""
    name = "nvmlDeviceGetNvLinkErrorCounter[5,2]"
    finding = found(judged(tmp_path, libraries, {name: 900}, {name: 900}), "nvlink-crc", "gpu1")
    assert (finding.severity, finding.parameters["when"]) == ("advice", "before the audit")


def test_blackwells_fields_are_judged_alike(tmp_path: Path, libraries: Path) -> None:
    """Effective errors of NVLink 5 that grow."""
    fields = {**WELL.get("gpu", {}).get("fields", {}), **WELL["gpus"][1].get("fields", {})}
    no = {"nvmlDeviceGetNvLinkErrorCounter": None}
    result = judged(tmp_path, libraries, {**no, "fields": fields}, {**no, "fields": {**fields, "219/3": 6}})
    assert "nvlink-crc" not in ids(result)  # it was not told at the start: nothing to compare with
    result = judged(
        tmp_path, libraries, {**no, "fields": {**fields, "219/3": 1}}, {**no, "fields": {**fields, "219/3": 6}}
    )
    finding = found(result, "nvlink-crc", "gpu1")
    assert (finding.severity, finding.parameters["counter"]) == ("review", "effective")


@pytest.mark.parametrize(
    ("before", "after", "severity"),
    [(80, 80, None), (120, 120, None), (200, 200, "advice"), (80, 85, "advice"), (80, 95, "review")],
)
def test_pcie_retries(tmp_path: Path, libraries: Path, before: int, after: int, severity: str | None) -> None:
    """Some hundred right after a boot are normal; more than ten while we copy are not."""
    name = "nvmlDeviceGetPcieReplayCounter"
    result = judged(tmp_path, libraries, {name: before}, {name: after})
    if severity is None:
        assert "pcie-replay" not in ids(result)
    else:
        assert found(result, "pcie-replay", "gpu1").severity == severity


@pytest.mark.parametrize(
    ("kind", "name", "grown", "severity"),
    [
        ("correctable", "COR", 3, "advice"),
        ("correctable", "COR", 30, "review"),
        ("nonfatal", "NONFATAL", 1, "review"),
        ("fatal", "FATAL", 1, "review"),
    ],
)
def test_pcie_errors_of_the_kernel(tmp_path: Path, kind: str, name: str, grown: int, severity: str) -> None:
    """The totals of sysfs, read before and after; what stood there before says nothing."""
    folder = tmp_path / "bus/pci/devices/0000:06:00.0"
    folder.mkdir(parents=True)
    file = folder / f"aer_dev_{kind}"
    file.write_text(f"RxErr 100\nTOTAL_ERR_{name} 100\n", encoding="ascii")
    before = gpu_health.aer(str(tmp_path), "0000:06:00.0")
    file.write_text(f"RxErr 100\nTOTAL_ERR_{name} {100 + grown}\n", encoding="ascii")
    after = gpu_health.aer(str(tmp_path), "0000:06:00.0")
    rows = [
        reading("gpu_health_aer_errors_total", value, "gpu1", SYSFS, kind=kind, when=when)
        for when, value in (("history", before[kind]), ("audit", after[kind] - before[kind]))
    ]
    finding = found(one(added(HEALTHY, *rows), METAL_H200), "aer", "gpu1")
    assert (finding.severity, finding.parameters["measured"]) == (severity, grown)


def test_pcie_errors_of_former_times_are_no_finding() -> None:
    """A hundred receiver errors of the boot."""
    old = reading("gpu_health_aer_errors_total", 100, "gpu1", SYSFS, kind="correctable", when="history")
    none = reading("gpu_health_aer_errors_total", 0, "gpu1", SYSFS, kind="correctable", when="audit")
    assert "aer" not in ids(one(added(HEALTHY, old, none), METAL_H200))
