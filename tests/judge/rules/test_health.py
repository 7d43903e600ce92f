"""Health counters from NVML's answers to findings: the probe runs on the double, its readings are judged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auditor.finding import ServerResult
from auditor.readers import smi_query
from auditor.records import Reading, Record
from tests import builders
from tests.builders import NVML, added, reading
from tests.judge.judged import METAL_H200, found, ids, one
from tests.nvml_double import Profile, build, edited, healthy
from tests.probes.health_run import told

HEALTHY = builders.healthy("H200 SXM5 141GB")
WELL = edited(healthy("h200x8-nvswitch", 2), None, nvmlDeviceGetNvLinkErrorCounter=0)
ECC = "nvmlDeviceGetTotalEccErrors"
Judge = Callable[..., ServerResult]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The double, compiled once."""
    if shutil.which("gcc") is None and os.environ.get("CI") != "true":
        pytest.skip("no C compiler here")
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def judge(tmp_path: Path, libraries: Path) -> Judge:
    """Runs the probe from one profile to another and judges a healthy record with its readings."""

    def run(end: Profile, start: Profile | None = None) -> ServerResult:
        readings = told(tmp_path, libraries, start or end, end).readings
        return one(added(HEALTHY, *readings), METAL_H200)

    return run


def changed(**answers: Any) -> Profile:
    """A healthy machine whose GPU 1 answers otherwise."""
    return edited(WELL, 1, **answers)


def test_a_healthy_machine_is_accepted(judge: Judge) -> None:
    """Counters of zero, flags that are down and a power cap in the past give no finding above information."""
    result = judge(WELL)
    assert result.verdict == "accept"
    assert {f.severity for f in result.findings} <= {"info"}


def test_uncorrected_errors_during_the_audit_reject(judge: Judge) -> None:
    """One more uncorrected volatile error than at the start."""
    result = judge(changed(**{f"{ECC}[1,0]": 4}), changed(**{f"{ECC}[1,0]": 3}))
    finding = found(result, "ecc-uncorrectable", "gpu1")
    assert (finding.severity, finding.parameters["audit"], finding.parameters["history"]) == ("reject", 1, 3)
    assert result.verdict == "reject"


@pytest.mark.parametrize("counter", ["[1,0]", "[1,1]"])
def test_uncorrected_errors_of_former_times_are_advice(judge: Judge, counter: str) -> None:
    """Volatile since the driver was loaded, aggregate for ever: history either way."""
    finding = found(judge(changed(**{ECC + counter: 9})), "ecc-uncorrectable", "gpu1")
    assert (finding.severity, finding.parameters["history"]) == ("advice", 9)


def test_cache_errors_past_the_threshold_reject(judge: Judge) -> None:
    """NVIDIA's own criterion for a replacement."""
    assert found(judge(changed(nvmlDeviceGetSramEccErrorStatus=1)), "ecc-uncorrectable", "gpu1").severity == "reject"


def test_corrected_errors_count_only_while_we_work(judge: Judge) -> None:
    """A thousand from before are nothing, seven during the audit are advice."""
    assert "ecc-correctable" not in ids(judge(changed(**{f"{ECC}[0,0]": 1000})))
    result = judge(changed(**{f"{ECC}[0,0]": 1007}), changed(**{f"{ECC}[0,0]": 1000}))
    finding = found(result, "ecc-correctable", "gpu1")
    assert (finding.severity, finding.parameters["audit"]) == ("advice", 7)


@pytest.mark.parametrize(
    ("rows", "severity"),
    [
        ([0, 4, 1, 0], "review"),
        ([0, 4, 0, 0], "advice"),
        ([0, 4, 1, 1], "reject"),
        ([0, 0, 0, 1], "reject"),
        ([11, 0, 0, 0], "advice"),
    ],
)
def test_remapped_rows(judge: Judge, rows: list[int], severity: str) -> None:
    """(corrected, uncorrected, pending, failure): pending asks for a reset, failure for another card."""
    finding = found(judge(changed(nvmlDeviceGetRemappedRows=rows)), "row-remap", "gpu1")
    assert finding.severity == severity
    assert (finding.parameters["corrected"], finding.parameters["uncorrected"]) == (rows[0], rows[1])


def test_a_few_corrected_rows_are_nothing(judge: Judge) -> None:
    """Up to ten remaps of corrected errors went with no regression."""
    assert "row-remap" not in ids(judge(changed(nvmlDeviceGetRemappedRows=[10, 0, 0, 0])))


def test_a_row_lost_during_the_audit_is_to_be_repaired(judge: Judge) -> None:
    """One uncorrected remap more, and it waits for a reset."""
    result = judge(changed(nvmlDeviceGetRemappedRows=[0, 1, 1, 0]), WELL)
    assert found(result, "row-remap", "gpu1").severity == "review"


def test_retired_pages(judge: Judge) -> None:
    """60 and more, or one that waits, ask for a repair; fewer are advice; none is nothing."""
    pages = {"nvmlDeviceGetRetiredPages[0]": list(range(40)), "nvmlDeviceGetRetiredPages[1]": list(range(20))}
    assert found(judge(changed(**pages)), "retired-pages", "gpu1").severity == "review"
    few = {"nvmlDeviceGetRetiredPages[0]": [1], "nvmlDeviceGetRetiredPages[1]": []}
    assert found(judge(changed(**few)), "retired-pages", "gpu1").severity == "advice"
    waiting = changed(**few, nvmlDeviceGetRetiredPagesPendingStatus=1)
    assert found(judge(waiting), "retired-pages", "gpu1").severity == "review"
    none = {"nvmlDeviceGetRetiredPages[0]": [], "nvmlDeviceGetRetiredPages[1]": []}
    assert "retired-pages" not in ids(judge(changed(**none, nvmlDeviceGetRetiredPagesPendingStatus=0)))


def test_repairs_that_wait_or_are_impossible_reject(judge: Judge) -> None:
    """Flags of drivers from 590 on."""
    assert found(judge(changed(nvmlDeviceGetUnrepairableMemoryFlag_v1=1)), "unrepairable-memory", "gpu1").severity == (
        "reject"
    )
    for flags, what in (([1, 0], "channel"), ([0, 1], "tpc")):
        finding = found(judge(changed(nvmlDeviceGetRepairStatus=flags)), "channel-repair-pending", "gpu1")
        assert (finding.severity, finding.parameters["what"]) == ("reject", what)


@pytest.mark.parametrize(
    ("number", "action", "severity"),
    [
        (1, "gpu_reset", "review"),
        (2, "node_reboot", "reject"),
        (3, "drain_p2p", "review"),
        (4, "drain_and_reset", "review"),
        (5, "recover_imex", "review"),
        (6, "bus_reset", "reject"),
        (7, "system_reboot", "reject"),
        (9, "unknown_9", "review"),
    ],
)
def test_recovery_actions(judge: Judge, number: int, action: str, severity: str) -> None:
    """Field 230: what only the GPU needs is a review, what takes the whole server down a rejection."""
    fields = {**WELL.get("gpu", {}).get("fields", {}), **WELL["gpus"][1].get("fields", {}), "230": number}
    finding = found(judge(changed(fields=fields)), "recovery-action", "gpu1")
    assert (finding.severity, finding.parameters["action"]) == (severity, action)


@pytest.mark.parametrize(
    ("refusal", "id", "severity"),
    [
        ("ERR GPU is lost", "gpu-lost", "reject"),
        ("ERR GPU requires restart", "recovery-action", "review"),
        ("ERR Operating System blocked", "gpu-blocked", "review"),
        ("ERR Unknown Error", "fan-err", "advice"),
    ],
)
def test_refusals_of_the_driver_are_findings(judge: Judge, refusal: str, id: str, severity: str) -> None:
    """NVML errors 15, 16, 17 and 999 are evidence, not crashes."""
    assert found(judge(changed(**{"every call": refusal})), id, "gpu1").severity == severity


def test_times_before_us_are_history(judge: Judge) -> None:
    """A power brake for seconds is advice, the power cap for minutes information of the server."""
    fields = {**WELL.get("gpu", {}).get("fields", {}), **WELL["gpus"][1].get("fields", {})}
    brake = judge(changed(fields={**fields, "271": 3 * 10**9, "74": 10**12}))
    finding = found(brake, "event-counters", "gpu1")
    assert (finding.severity, finding.parameters["reason"], finding.parameters["measured"]) == (
        "advice",
        "power brake",
        3.0,
    )
    cap = judge(edited(WELL, None, fields={**fields, "74": 10**12}))
    assert found(cap, "event-counters", "server").severity == "info"


def test_a_sensor_that_prints_err_is_advice() -> None:
    """`ERR!` in nvidia-smi's fan column."""
    record = added(HEALTHY, reading("gpu_health_fault", "err", "gpu0", "text/nvidia-smi", where="fan"))
    finding = found(one(record, METAL_H200), "fan-err", "gpu0")
    assert (finding.severity, finding.parameters["where"]) == ("advice", "fan")


def _read(text: str) -> tuple[Reading, ...]:
    return smi_query.read(text).readings


REMAPPED = """==============NVSMI LOG==============

Timestamp                                 : Mon Jul  8 10:00:00 2024
Driver Version                            : 535.129.03
CUDA Version                              : 12.2

Attached GPUs                             : 1
GPU 00000000:00:08.0
    Product Name                          : NVIDIA A10
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 4
        Pending                           : Yes
        Remapping Failure Occurred        : No
    GPU Recovery Action                   : Drain and Reset
"""


def test_the_same_rules_judge_nvidia_smis_text() -> None:
    """`nvidia-smi -q` with a remapping that waits, as a user pastes it."""
    record = added(HEALTHY, *(r for r in _read(REMAPPED) if r.metric.startswith("gpu_health_")))
    result = one(record, METAL_H200)
    assert found(result, "row-remap", "gpu0").severity == "review"
    assert found(result, "recovery-action", "gpu0").severity == "review"
    assert found(result, "recovery-action", "gpu0").root == found(result, "row-remap", "gpu0").key


def test_absence_is_no_finding_and_no_health() -> None:
    """A record without any health reading gives none of these findings: what is missing is told elsewhere."""
    bare: Record = HEALTHY
    names = {"ecc-uncorrectable", "row-remap", "retired-pages", "recovery-action", "gpu-lost", "event-counters"}
    assert names & ids(one(bare, METAL_H200)) == set()
    assert NVML in {r.source for r in bare.readings}
