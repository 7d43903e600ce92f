"""time_slicing: silence alone, gaps beside a second process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from auditor.probes import time_slicing
from auditor.probes.engine.kernels import Kernels
from tests.probes.desk import desk


def test_without_a_gpu_it_does_not_apply(tmp_path: Path) -> None:
    """Where no kernel of our own can run the reason says so."""
    with desk("time_slicing", tmp_path, device="cuda") as at:
        reason = time_slicing.applies(at.context)
    assert reason is None or "kernel" in reason


@pytest.mark.gpu
def test_alone_there_is_no_gap(tmp_path: Path) -> None:
    """A card of one's own never pauses for 4000 clocks."""
    with desk("time_slicing", tmp_path, device="cuda", subject="gpu0", scope="gpu") as at:
        found = {r.metric: r.value for r in time_slicing.run(at.context)}
    assert found["time_slicing_gaps_total"] == 0
    assert float(found["time_slicing_watch_seconds"] or 0) >= 0.4


@pytest.mark.gpu
def test_a_second_process_is_found() -> None:
    """The positive control: another process multiplies on the same GPU."""
    argv = [sys.executable, "-m", "bench.reference", "60"]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=root) as tenant:
        try:
            assert tenant.stdout is not None and tenant.stdout.readline() == b"busy\n"
            gaps, largest, _ = time_slicing.watch(Kernels(), 0.4)
        finally:
            tenant.terminate()
    assert gaps > 100 and largest > 1e-4
