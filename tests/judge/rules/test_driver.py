"""What the driver says of itself: CUDA that does not start, generations that do not fit, modes that wait."""

from __future__ import annotations

import pytest

from auditor.report.texts import render
from tests import builders
from tests.builders import changed, row
from tests.judge.judged import METAL_H200, found, ids, one

HEALTHY = builders.healthy()


@pytest.mark.parametrize(
    ("reason", "code", "severity"),
    [
        ("CUDA: CUDA_ERROR_SYSTEM_NOT_READY", 802, "review"),
        ("Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized", 802, "review"),
        ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", 803, "review"),
        ("CUDA error: forward compatibility was attempted on non supported HW", 804, "review"),
        ("torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered", 214, "reject"),
        ("CUDA error: uncorrectable NVLink error detected", 220, "review"),
        ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", 46, "review"),
        ("CUDA error: invalid device ordinal", 101, "review"),
        ("RuntimeError: No CUDA GPUs are available; CUDA_ERROR_NO_DEVICE", 100, "review"),
        ("CUDA unknown error - this may be due to an incorrectly set up environment", 999, "review"),
    ],
)  # fmt: skip
def test_each_word_of_cuda_is_one_finding(reason: str, code: int, severity: str) -> None:
    """The probe that failed carries the word; the finding names code, meaning and what to ask for."""
    result = one(row(HEALTHY, "latency", "gpu3", "failed", reason), METAL_H200)
    finding = found(result, "cuda-init-errors", "gpu3")
    assert (finding.severity, finding.parameters["code"], finding.parameters["probes"]) == (severity, code, "latency")
    assert result.verdict == severity
    assert str(code) in render(finding, "en").observed
    assert found(result, "not-measured", "gpu3").root == finding.key


def test_a_word_of_all_gpus_is_the_servers() -> None:
    """Where every GPU says the same it is one row, and a dead fabric manager explains it."""
    record = changed(HEALTHY, "topology_fabric_state", "in_progress")
    for gpu in range(8):
        record = row(record, "matmul", f"gpu{gpu}", "failed", "CUDA_ERROR_SYSTEM_NOT_READY")
    result = one(record, METAL_H200)
    assert found(result, "cuda-init-errors").subject == "server"
    assert found(result, "cuda-init-errors").root == found(result, "fm-not-running").key


@pytest.mark.parametrize("reason", ["RuntimeError: no kernels", "CUDA out of memory", "took 802 s", ""])
def test_other_failures_are_none_of_cudas_start(reason: str) -> None:
    """A probe that fails for its own reasons accuses no driver."""
    assert "cuda-init-errors" not in ids(one(row(HEALTHY, "latency", "gpu3", "failed", reason), METAL_H200))


@pytest.mark.parametrize(
    ("has", "wants", "old"),
    [("12.8", "13.0", True), ("13.0", "13.2", False), ("13.0", "12.6", False), ("?", "13.0", False)],
)
def test_generations_of_cuda(has: str, wants: str, old: bool) -> None:
    """Minor versions of one generation work together; an older generation does not serve a newer torch."""
    record = changed(changed(HEALTHY, "server_facts_cuda_version", has), "server_facts_torch_cuda_version", wants)
    result = one(record, METAL_H200)
    assert ("driver-too-old" in ids(result)) is old
    assert result.verdict == "accept"
    if old:
        assert "CUDA 12.8" in render(found(result, "driver-too-old"), "en").observed


@pytest.mark.parametrize("metric", ["gpu_identity_mig_enabled", "gpu_identity_ecc_enabled"])
def test_a_mode_that_waits_for_a_reset(metric: str) -> None:
    """Current and pending differ: what was measured holds until the reset only."""
    now = next(r.value for r in HEALTHY.readings if r.metric == metric)
    result = one(changed(HEALTHY, metric, not now, "gpu2", which="pending"), METAL_H200)
    finding = found(result, "reset-pending", "gpu2")
    assert (result.verdict, finding.severity) == ("accept", "advice")
    assert finding.parameters["becomes"] == ("off" if now else "on")
    assert "reset-pending" not in ids(one(HEALTHY, METAL_H200))
