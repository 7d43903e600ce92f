"""Mean, relative spread and percentiles of repeats; what counts as stable."""

import math
from typing import Callable, NamedTuple, Optional, Sequence, Tuple, TypeVar

STABLE_THROUGHPUT = 0.01
"""Relative spread above which a throughput is not called stable (an H200's windows differ by 0.2 %)."""

STABLE_ON_CPU = 0.1
"""The same for a server's CPUs and memory, which everything else on it uses too."""

T = TypeVar("T")


class Repeats(NamedTuple):
    """A figure from repeats: mean, coefficient of variation (None for one), how many, and whether it holds."""

    value: float
    spread: Optional[float]
    n: int
    stable: Optional[bool]


def limit(device: str, on_gpu: float = STABLE_THROUGHPUT) -> float:
    """The spread that still counts as stable on this device."""
    return on_gpu if device == "cuda" else max(on_gpu, STABLE_ON_CPU)


def of(values: Sequence[float], limit: float = STABLE_THROUGHPUT) -> Repeats:
    """Sum up repeats of one throughput."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2 or mean == 0:
        return Repeats(mean, None, len(values), None)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    spread = math.sqrt(variance) / abs(mean)
    return Repeats(mean, spread, len(values), spread <= limit)


def median(values: Sequence[float]) -> float:
    """The middle value (the mean of the two middle ones)."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the sorted values do not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def steady(measure: Callable[[], Tuple[T, Repeats]]) -> Tuple[T, Repeats]:
    """Measure; where the spread was too wide, measure once more and keep the second, whatever it says."""
    first = measure()
    return first if first[1].stable is not False else measure()
