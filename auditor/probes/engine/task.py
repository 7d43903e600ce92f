"""One probe on its seats: the bookkeeping of who still runs it, what each said, and what becomes of its rows."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Dict, List, Optional

from auditor.records import ProbeRow

from .catalogue import Probe
from .meeting import Meeting
from .seats import Seat


@dataclass
class Part:
    """The probe on one seat."""

    seat: Seat
    subject: str
    began: float
    status: Optional[str] = None
    reason: Optional[str] = None
    ended: float = 0.0
    cut: List[str] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    readings: int = 0
    served: int = 0

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.status is None

    def end(self, status: str, reason: Optional[str]) -> None:
        """It is over."""
        self.status, self.reason, self.ended = status, reason, time.monotonic()


class Task:
    """A probe that runs now."""

    def __init__(self, probe: Probe, hook: str, deadline: float, hard: float) -> None:
        self.probe, self.hook, self.deadline, self.hard = probe, hook, deadline, hard
        self.parts: Dict[str, Part] = {}
        self.meeting = Meeting([])

    def start(self, seats: List[Seat], subjects: List[str]) -> None:
        """The seats that run it, in order of index."""
        began = time.monotonic()
        self.parts = {
            seat.name: Part(seat, subject, began, served=seat.served) for seat, subject in zip(seats, subjects)
        }
        self.meeting = Meeting(list(self.parts))

    @property
    def running(self) -> List[Part]:
        """Parts that have not ended."""
        return [part for part in self.parts.values() if part.running]

    def rows(self) -> List[ProbeRow]:
        """One row a subject; a collective probe has one, told by whoever fared worst."""
        parts = list(self.parts.values())
        if self.probe.scope == "all":
            worst = max(parts, key=lambda part: (_RANK[part.status or "failed"], -part.ended))
            cut = list(dict.fromkeys(what for part in parts for what in part.cut))
            notes = list(dict.fromkeys(what for part in parts for what in part.notes))
            return [self._row(worst, cut, notes, max(part.ended - part.began for part in parts))]
        return [self._row(part, part.cut, part.notes, part.ended - part.began) for part in parts]

    def _row(self, part: Part, cut: List[str], notes: List[str], seconds: float) -> ProbeRow:
        reason = part.reason
        if reason is None and notes:
            reason = "; ".join(dict.fromkeys(notes))[:500]
        return ProbeRow(
            probe=self.probe.key,
            method=self.probe.method,
            subject=part.subject,
            status=part.status or "failed",
            reason=reason,
            seconds=round(seconds, 3),
            cut=tuple(dict.fromkeys(cut)),
        )


_RANK = {"measured": 0, "not_applicable": 1, "skipped": 2, "timed_out": 3, "failed": 4}
