"""Probe `host_cpu`: a matrix product on all CPUs and on one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from auditor.probes import host_cpu

from .desk import desk, values

pytestmark = pytest.mark.filterwarnings("ignore:Failed to initialize NumPy")


def test_all_cpus_and_one_are_told_and_torch_is_left_as_it_was(tmp_path: Path) -> None:
    """float32 on all CPUs and on one; the number of threads is put back."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    with desk("host_cpu", tmp_path) as at:
        assert host_cpu.applies(at.context) is None
        readings = list(host_cpu.run(at.context))
    assert torch.get_num_threads() == before
    everyone = len(os.sched_getaffinity(0))
    assert [reading.conditions["threads"] for reading in readings] == [everyone, 1]
    assert values(readings, "host_cpu_flops_per_second", dtype="fp32", threads=1)[0] > 1e8
    assert [message["what"] for message in at.heard("cut")] == ["fp64"]


def test_standard_has_double_precision_too(tmp_path: Path) -> None:
    """Each dtype on all CPUs and on one, and nothing is left out."""
    with desk("host_cpu", tmp_path, profile="standard") as at:
        readings = list(host_cpu.run(at.context))
    everyone = len(os.sched_getaffinity(0))
    for dtype in ("fp32", "fp64"):
        for threads in (everyone, 1):
            (rate,) = values(readings, "host_cpu_flops_per_second", dtype=dtype, threads=threads)
            assert rate > 1e8
    assert at.heard("cut") == []
