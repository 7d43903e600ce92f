"""What a record says it did not measure, equal GPUs together; and what is missing over all servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from auditor.finding import ServerResult
from auditor.judge.texts import N_
from auditor.records import Record
from auditor.report.show import show
from auditor.report.wording import worded
from auditor.report.words import needs_text, why_missing, word

if TYPE_CHECKING:
    from auditor.report.texts import Texts
    from auditor.report.view import Seen

Ending = tuple[str, str, str, tuple[str, ...]]


def unmeasured(record: Record) -> dict[Ending, list[str]]:
    """(probe, status, reason, what was cut) → the subjects; whatever is not plainly `measured`."""
    groups: dict[Ending, list[str]] = {}
    for row in record.probes:
        if row.status != "measured" or row.cut:
            groups.setdefault((row.probe, row.status, row.reason or "", row.cut), []).append(row.subject)
    return groups


def ending_text(texts: Texts, status: str, cut: tuple[str, ...]) -> str:
    """How a probe ended; one that was cut short measured in part."""
    return texts._(N_("measured in part")) if status == "measured" and cut else word(texts, status)


@dataclass
class Gap:
    """One thing that is missing for one reason, and the servers that miss it."""

    needed: bool
    name: str
    status: str = ""
    reason: str = ""
    cut: tuple[str, ...] = ()
    servers: list[ServerResult] = field(default_factory=list)

    def what(self, texts: Texts) -> str:
        """What is missing: a need of policy.yaml in words, else the probe's name."""
        return needs_text(texts, self.name) if self.needed else show(self.name, 40)

    def why(self, texts: Texts) -> str:
        """The reason in words."""
        if self.cut and self.status == "measured":
            return left_out(texts, self.cut)
        if self.status and self.reason:
            return why_missing(texts, f"{self.status}: {self.reason}")
        return why_missing(texts, self.reason) if self.reason else word(texts, self.status)


def left_out(texts: Texts, cut: Sequence[str]) -> str:
    """What a probe left out of what it measured, in words."""
    return texts._(N_("left out: {names}"), names=texts.strung(worded(texts, name) for name in cut))


class Gaps:
    """Gathers what is missing while the servers pass."""

    def __init__(self) -> None:
        self._found: dict[tuple[bool, str, str, str, tuple[str, ...]], Gap] = {}

    def take(self, seen: Seen) -> None:
        """Look at one server."""
        server = seen.server
        if seen.record is None:
            self._add(Gap(True, "record", reason=server.reason or N_("no record came")), server)
            return
        told = set()
        for finding in server.findings:
            what, reason = finding.parameters.get("what"), finding.parameters.get("reason")
            if finding.id == "not-measured" and finding.severity != "info":
                self._add(Gap(True, str(what), reason=str(reason)), server)
                told.add(str(reason))
        for probe, status, reason, cut in unmeasured(seen.record):
            if f"{status}: {reason}" not in told:
                self._add(Gap(False, probe, status, reason, cut), server)

    def sorted(self) -> list[Gap]:
        """What the verdicts need first, then what most servers miss."""
        return sorted(self._found.values(), key=lambda gap: (not gap.needed, -len(gap.servers), gap.name, gap.reason))

    def _add(self, new: Gap, server: ServerResult) -> None:
        gap = self._found.setdefault((new.needed, new.name, new.status, new.reason, new.cut), new)
        if not gap.servers or gap.servers[-1] is not server:
            gap.servers.append(server)
