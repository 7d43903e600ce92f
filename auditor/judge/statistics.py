"""Robust statistics that stay honest with two to eight values.

One value is held against the others, never against a middle it pulled itself. The scatter is the median
absolute deviation, scaled to a normal deviation and corrected for small samples (Croux and Rousseeuw,
"Time-efficient algorithms for two highly robust estimators of scale", 1992, for n up to 9).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

_NORMAL = 1.4826
_SMALL = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}


class Peers(msgspec.Struct, frozen=True):
    """The others: their median, their scatter (None below three values: it cannot be told), how many."""

    median: float
    scatter: float | None
    n: int


def mad(values: Sequence[float]) -> float:
    """The scaled median absolute deviation of at least two values."""
    middle = statistics.median(values)
    n = len(values)
    factor = _SMALL.get(n, n / (n - 0.8))
    return _NORMAL * factor * statistics.median([abs(value - middle) for value in values])


def peers(values: Sequence[float]) -> Peers:
    """Median and scatter of the others; at least one value."""
    scatter = mad(values) if len(values) >= 3 else None
    return Peers(statistics.median(values), scatter, len(values))


MOST_SPREAD = 0.05
"""From here on the probes measure again (docs/method.md); a wider spread is a fault of its own and excuses nothing."""


def allowance(spread: float | None, n: int | None = None) -> float:
    """What a reading's own spread is given before it is called short: two standard errors, at most two of 5 %."""
    return 2.0 * min(max(spread or 0.0, 0.0), MOST_SPREAD) / math.sqrt(max(n or 1, 1))


def shortfall(value: float, spread: float | None, n: int | None, others: Peers) -> float:
    """How far a value surely lies below the others' median, as a ratio; the reading's own spread counts for it.

    A negative result is a value above the median.
    """
    return 1.0 - value * (1.0 + allowance(spread, n)) / others.median if others.median > 0 else 0.0


def beyond_scatter(value: float, others: Peers, deviations: float, floor: float = 0.0) -> bool:
    """True when the value lies further below the others than their own scatter explains.

    A handful of values can agree by chance: `floor` is the least relative scatter they are credited with.
    """
    if others.scatter is None:
        return False
    return others.median - value > deviations * max(others.scatter, floor * others.median)
