"""latency: percentiles of single launches."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.probes import latency
from tests.probes.desk import desk


def test_single_calls_are_timed_and_sorted() -> None:
    """As many times as asked for, after the warm-up, in rising order."""
    made: list[int] = []
    times = latency.measure(lambda: made.append(1), 50)
    assert len(times) == 50 and len(made) == 50 + latency._WARM
    assert times == sorted(times) and times[0] > 0


@pytest.mark.gpu
def test_on_a_gpu_percentiles_rise(tmp_path: Path) -> None:
    """p50 <= p99 <= p99.9 <= max, and a launch takes microseconds."""
    with desk("latency", tmp_path, device="cuda", subject="gpu0", scope="gpu") as at:
        values = [float(r.value or 0) for r in latency.run(at.context)]
    assert values == sorted(values) and len(values) == 4
    assert 1e-6 < values[0] < 1e-3
