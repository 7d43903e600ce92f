"""l2_cache: the knee is where loads begin to take longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.probes import l2_cache
from tests.probes.desk import desk

SIZES = [1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20]


def test_the_knee_is_the_last_size_before_the_first_slow_one() -> None:
    """A later fast size does not move it back out."""
    clocks = dict(zip(SIZES, [280.0, 290.0, 285.0, 300.0, 400.0, 285.0], strict=True))
    assert l2_cache.knee(SIZES, clocks) == 8 << 20


def test_one_slow_or_fast_small_buffer_does_not_move_the_knee() -> None:
    """What a hit costs is the median of the four smallest: the H200's own figures of two runs give one knee."""
    mib = [3, 7, 15, 18, 22, 26, 30, 33, 37, 45, 52, 60]
    runs = (
        [161, 164, 160, 162, 158, 162, 157, 163, 170, 192, 211, 228],
        [168, 165, 158, 159, 159, 153, 164, 158, 168, 185, 209, 226],
    )
    for nanoseconds in runs:
        clocks = dict(zip(mib, map(float, nanoseconds), strict=True))
        assert l2_cache.knee(mib, clocks) == 37


def test_without_a_knee_the_largest_buffer_fits() -> None:
    """A cache larger than everything tried is told as the largest size tried."""
    assert l2_cache.knee(SIZES, dict.fromkeys(SIZES, 280.0)) == 32 << 20


@pytest.mark.gpu
def test_on_a_gpu_memory_is_farther_away_than_the_cache(tmp_path: Path) -> None:
    """Far loads take longer than near ones; the knee lies between a quarter and all of the cache."""
    import torch

    with desk("l2_cache", tmp_path, device="cuda", subject="gpu0", scope="gpu") as at:
        readings = list(l2_cache.run(at.context))
    reported = torch.cuda.get_device_properties(0).L2_cache_size
    near, far = (float(r.value or 0) for r in readings if r.metric == "l2_cache_latency_seconds")
    assert far > 1.3 * near > 0
    assert reported / 4 <= float(readings[0].value or 0) <= reported
