"""What NVML's samples say about a stretch of load: extremes, means, shares of event reasons, bounded series."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

REASONS: Dict[str, int] = {
    "idle": 0x1,
    "applications_clocks": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal": 0x20,
    "hw_thermal": 0x40,
    "hw_power_brake": 0x80,
    "display_clock": 0x100,
}
"""Names of NVML's clock event reasons (nvmlClocksEventReason*), by bit."""

POINTS = 600
STEADY_CELSIUS = 1.0


class Track:
    """One sampled value over time: start, extremes and mean of all samples, and at most 600 points of its course."""

    def __init__(self) -> None:
        self.count = 0
        self.start = self.least = self.most = 0.0
        self._total = 0.0
        self._every, self._seen = 1, 0
        self.points: List[Tuple[float, float]] = []

    def add(self, t: float, value: Optional[float]) -> None:
        """One more sample; None (unreadable) is left out."""
        if value is None:
            return
        if not self.count:
            self.start = self.least = self.most = value
        self.count += 1
        self._total += value
        self.least, self.most = min(self.least, value), max(self.most, value)
        if self._seen % self._every == 0:
            self.points.append((t, value))
        self._seen += 1
        if len(self.points) > POINTS:
            self.points = self.points[::2]
            self._every *= 2

    @property
    def mean(self) -> float:
        """Over all samples."""
        return self._total / self.count

    def since(self, t: float) -> List[float]:
        """The kept values from a moment on."""
        return [value for at, value in self.points if at >= t]


class Counter(NamedTuple):
    """A growing counter's first and last sample."""

    first: Tuple[float, float]
    last: Tuple[float, float]

    @property
    def rate(self) -> Optional[float]:
        """Growth per second."""
        seconds = self.last[0] - self.first[0]
        return (self.last[1] - self.first[1]) / seconds if seconds > 0 else None


class Watch:
    """All tracks of one load; fed with the samples of each stretch, times counted from `opened`."""

    FIELDS = (
        "gpu_celsius",
        "memory_celsius",
        "watts",
        "sm_clock_hertz",
        "memory_clock_hertz",
        "gpu_use_ratio",
        "memory_use_ratio",
        "pcie_rx",
        "pcie_tx",
    )

    def __init__(self, opened: float) -> None:
        self.opened = opened
        self.tracks: Dict[str, Track] = {name: Track() for name in self.FIELDS}
        self.reasons = dict.fromkeys(REASONS, 0)
        self.reasons_known = 0
        self.rows = 0
        self.nvlink: Optional[Counter] = None

    def add(self, rows: Sequence[Any]) -> None:
        """The samples of one more stretch."""
        for row in rows:
            t = row.t - self.opened
            self.rows += 1
            for name, track in self.tracks.items():
                track.add(t, getattr(row, name))
            if row.event_reasons is not None:
                self.reasons_known += 1
                for name, bit in REASONS.items():
                    self.reasons[name] += bool(row.event_reasons & bit)
            if row.nvlink_bytes is not None:
                now = (t, float(row.nvlink_bytes))
                self.nvlink = Counter(self.nvlink.first if self.nvlink else now, now)


def steady_from(track: Track) -> Optional[float]:
    """Seconds from which the value stays within 1 degree of its final level; None if only in the last third.

    The final level is the mean of the last third.
    """
    if len(track.points) < 6:
        return None
    begin, end = track.points[0][0], track.points[-1][0]
    third = begin + (end - begin) * 2 / 3
    last = track.since(third)
    level = sum(last) / len(last)
    reached: Optional[float] = None
    for t, value in track.points:
        if abs(value - level) > STEADY_CELSIUS:
            reached = None
        elif reached is None:
            reached = t
    return reached if reached is not None and reached <= third else None
