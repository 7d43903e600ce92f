"""How many seconds each probe may take: its own figure, or its share of a budget that is shorter than the plan."""

from __future__ import annotations

import time
from typing import Optional

from .catalogue import Probe

_SMALLEST_GRACE, _LARGEST_GRACE = 10.0, 120.0


class Budget:
    """Shares what is left among what is still to come; recomputed before each probe."""

    def __init__(self, total: Optional[float], began: float) -> None:
        self.total, self._began = total, began

    @property
    def ends(self) -> float:
        """When it is over, by the monotonic clock."""
        return float("inf") if self.total is None else self._began + self.total

    @property
    def left(self) -> float:
        """Seconds left of the whole budget."""
        return self.ends - time.monotonic()

    def share(self, wanted: float, still: float) -> float:
        """This probe's seconds, when it wants `wanted` of the `still` seconds that all remaining probes want."""
        return wanted if self.left >= still else max(0.0, self.left) * wanted / max(still, wanted)


def wanted(probe: Probe, profile: str, soak_seconds: float) -> float:
    """The seconds a probe's file names for this profile; a soak's load is as long as asked."""
    seconds = float(probe.seconds.get(profile, 10.0))
    return max(seconds, soak_seconds + 60.0) if probe.key == "thermal" and profile == "soak" else seconds


def grace(probe: Probe, share: float) -> float:
    """How long after its time a probe may go on before its worker is taken for hung; a probe's file may name it."""
    if probe.grace is not None:
        return probe.grace
    return min(_LARGEST_GRACE, max(_SMALLEST_GRACE, 0.5 * share))
