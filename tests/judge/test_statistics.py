"""Robust statistics with two to eight values."""

from __future__ import annotations

import random

import pytest

from auditor.judge import statistics
from auditor.judge.statistics import Peers


@pytest.mark.parametrize("n", range(2, 13))
def test_the_scatter_is_right_on_average_for_small_samples(n: int) -> None:
    """Over many samples the corrected median deviation comes out at the true deviation, within a tenth."""
    rng = random.Random(n)
    values = [statistics.mad([rng.gauss(100.0, 1.0) for _ in range(n)]) for _ in range(4000)]
    assert sum(values) / len(values) == pytest.approx(1.0, abs=0.1)


def test_one_lemon_does_not_move_the_others() -> None:
    """Median and scatter of seven are the same whatever the eighth of them is."""
    seven = [99.0, 99.5, 100.0, 100.0, 100.5, 101.0]
    assert statistics.peers([*seven, 50.0]).median == statistics.peers([*seven, 99.9]).median == 100.0
    assert statistics.peers([*seven, 50.0]).scatter == pytest.approx(statistics.peers([*seven, 98.0]).scatter)


def test_two_values_have_no_scatter() -> None:
    """With two others nobody can tell scatter from a fault: it stays unknown and nothing lies beyond it."""
    others = statistics.peers([100.0, 90.0])
    assert others.scatter is None
    assert not statistics.beyond_scatter(10.0, others, 3.0)


def test_the_readings_own_spread_counts_for_it() -> None:
    """A figure that varies by itself is credited with two standard errors before it is called short."""
    others = Peers(100.0, 1.0, 7)
    assert statistics.shortfall(89.0, None, None, others) == pytest.approx(0.11)
    assert statistics.shortfall(89.0, 0.02, 4, others) == pytest.approx(1 - 0.89 * 1.02)
    assert statistics.shortfall(120.0, None, None, others) < 0
    assert statistics.shortfall(1.0, None, None, Peers(0.0, None, 1)) == 0.0


def test_others_that_agree_by_chance_are_credited_with_the_least_scatter() -> None:
    """A handful of equal values does not make five per cent an outlier."""
    others = Peers(100.0, 0.1, 7)
    assert statistics.beyond_scatter(95.0, others, 3.0)
    assert not statistics.beyond_scatter(95.0, others, 3.0, floor=0.02)
