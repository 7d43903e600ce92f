"""memory_bandwidth: four operations, bytes counted as they move."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.probes import memory_bandwidth
from tests.probes.desk import desk


def test_on_a_cpu_all_four_operations_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read, write, copy and triad, each with its buffer's size, its spread and its repeats."""
    monkeypatch.setattr(memory_bandwidth, "_size", lambda torch, device: 8 << 20)
    with desk("memory_bandwidth", tmp_path) as at:
        readings = list(memory_bandwidth.run(at.context))
    assert {r.conditions["op"] for r in readings} == {"read", "write", "copy", "triad"}
    for reading in readings:
        assert reading.conditions["bytes"] == 8 << 20
        assert isinstance(reading.value, float) and 1e8 < reading.value < 1e13
        assert reading.spread is not None and reading.n == 5


@pytest.mark.gpu
def test_on_a_gpu_no_operation_is_faster_than_the_memory(tmp_path: Path) -> None:
    """Nothing was cut, buffers are 1 GiB or more, and reading is not slower than half of writing."""
    with desk("memory_bandwidth", tmp_path, device="cuda", subject="gpu0", scope="gpu") as at:
        found = {r.conditions["op"]: r for r in memory_bandwidth.run(at.context)}
    assert not at.heard("cut")
    assert set(found) == {"read", "write", "copy", "triad"}
    assert all(int(reading.conditions["bytes"]) >= 1 << 30 for reading in found.values())
    assert float(found["read"].value or 0) > float(found["write"].value or 0) / 2
