"""A record as rules look at it: readings indexed by metric and subject, nothing else.

Readings of a method older than the lines were set for are put aside (`outdated`), so that no rule
compares figures that were taken another way. None is never a value: it is absence with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeGuard

from auditor.finding import Evidence
from auditor.records import Condition, ProbeRow, Reading, Record, Subject, Value, family

_TOLD_BY = {  # whose word a text repeats
    "nvidia-smi": "driver",
    "dcgmi": "driver",
    "fabricmanager": "driver",
    "dmesg": "kernel",
    "lspci": "kernel",
    "lscpu": "kernel",
    "nccl-tests": "measured",
    "nvbandwidth": "measured",
    "gpu-stream": "measured",
    "fio": "measured",
    "deviceQuery": "driver",
    "dmidecode": "kernel",
    "cpuinfo": "kernel",
}


def told_by(source: str) -> str:
    """The family of a source; a pasted text counts as the family of the tool that printed it."""
    kind = family(source)
    return _TOLD_BY.get(source.partition("/")[2], "text") if kind == "text" else kind


class ServerView:
    """One server's readings; empty when there is no record."""

    __slots__ = ("_index", "_rows", "gpus", "links", "nics", "outdated", "pairs", "record", "subjects", "unreadable")

    def __init__(self, record: Record | None, oldest_method: Mapping[str, int] | None = None) -> None:
        self.record = record
        self._index: dict[str, dict[str, list[Reading]]] = {}
        self.unreadable: list[Reading] = []
        self.outdated: dict[str, int] = {}
        self._rows: dict[tuple[str, str], ProbeRow] = {}
        self.subjects: dict[str, Subject] = {}
        if record is not None:
            self._fill(record, oldest_method or {})
        self.gpus = self._of_kind("gpu")
        self.pairs = self._of_kind("pair")
        self.links = self._of_kind("link")
        self.nics = self._of_kind("nic")

    def _fill(self, record: Record, oldest: Mapping[str, int]) -> None:
        for row in record.probes:
            self._rows[row.probe, row.subject] = row
            if row.method < oldest.get(row.probe, 1):
                self.outdated[row.probe] = row.method
        for subject in record.subjects:
            self.subjects[subject.id] = subject
        index, outdated = self._index, self.outdated
        for reading in record.readings:
            if reading.value is None:
                self.unreadable.append(reading)
            elif reading.probe not in outdated:
                by_subject = index.get(reading.metric)
                if by_subject is None:
                    by_subject = index[reading.metric] = {}
                rows = by_subject.get(reading.subject)
                if rows is None:
                    by_subject[reading.subject] = [reading]
                else:
                    rows.append(reading)

    def put_aside(self, readings: Iterable[Reading]) -> None:
        """Takes readings out of what rules see: figures nobody can have measured."""
        for reading in readings:
            rows = self._index[reading.metric][reading.subject]
            self._index[reading.metric][reading.subject] = [row for row in rows if row is not reading]

    def _of_kind(self, kind: str) -> tuple[str, ...]:
        found = [s for s in self.subjects.values() if s.kind == kind]
        found.sort(key=lambda s: (s.index is None, s.index or 0, s.id))
        return tuple(s.id for s in found)

    def all(self, metric: str, subject: str | None = None, **conditions: Condition) -> Iterator[Reading]:
        """Every reading of a metric with a value, of one subject or of all, under the named conditions."""
        by_subject = self._index.get(metric)
        if by_subject is None:
            return
        for readings in by_subject.values() if subject is None else (by_subject.get(subject, ()),):
            for reading in readings:
                if _meets(reading, conditions):
                    yield reading

    def one(
        self, metric: str, subject: str = "server", *, told: str | None = None, **conditions: Condition
    ) -> Reading | None:
        """The first reading that fits; `told` asks for one family (driver, kernel, measured)."""
        for reading in self._of(metric, subject):
            if _meets(reading, conditions) and (told is None or told_by(reading.source) == told):
                return reading
        return None

    def number(self, metric: str, subject: str = "server", **conditions: Condition) -> float | None:
        """The figure of the first reading that fits and is a number."""
        for reading in self._of(metric, subject):
            if _meets(reading, conditions) and is_number(reading.value):
                return float(reading.value)
        return None

    def text(self, metric: str, subject: str = "server", **conditions: Condition) -> str | None:
        """The words of the first reading that fits and is text."""
        for reading in self._of(metric, subject):
            if _meets(reading, conditions) and isinstance(reading.value, str):
                return reading.value
        return None

    def flag(self, metric: str, subject: str = "server", **conditions: Condition) -> bool | None:
        """The truth of the first reading that fits and is a bool."""
        for reading in self._of(metric, subject):
            if _meets(reading, conditions) and isinstance(reading.value, bool):
                return reading.value
        return None

    def _of(self, metric: str, subject: str) -> Sequence[Reading]:
        by_subject = self._index.get(metric)
        return () if by_subject is None else by_subject.get(subject, ())

    def by_metric(self) -> Iterator[tuple[str, list[Reading]]]:
        """Every metric with all its readings that have a value."""
        for metric, by_subject in self._index.items():
            yield metric, [reading for readings in by_subject.values() for reading in readings]

    def has(self, metric: str) -> bool:
        """True when any subject has a value for the metric."""
        return metric in self._index

    def row(self, probe: str, subject: str = "server") -> ProbeRow | None:
        """How a probe went on a subject."""
        return self._rows.get((probe, subject))

    def all_rows(self) -> Iterator[ProbeRow]:
        """Every probe row of the record."""
        yield from self._rows.values()

    def uuid(self, subject: str) -> str | None:
        """The GPU's UUID, as the record's subject list has it."""
        found = self.subjects.get(subject)
        return found.uuid if found else None

    def members(self, pair: str) -> tuple[str, str] | None:
        """The two subjects of a pair: `gpu0-gpu1` → (`gpu0`, `gpu1`)."""
        first, dash, second = pair.partition("-")
        return (first, second) if dash and second else None

    def evidence(self, reading: Reading) -> Evidence:
        """A reading as findings keep it."""
        row = self._rows.get((reading.probe, reading.subject)) or self._rows.get((reading.probe, "server"))
        return Evidence(
            reading.metric,
            reading.subject,
            reading.value,
            reading.source,
            reading.conditions,
            reading.spread,
            row.method if row else None,
        )


def _meets(reading: Reading, conditions: Mapping[str, Condition]) -> bool:
    given = reading.conditions
    for name in conditions:  # noqa: SIM110  # this loop is the judge's innermost; all() costs it double
        if given.get(name) != conditions[name]:
            return False
    return True


NO_VALUE = frozenset(
    ("", "N/A", "[N/A]", "UNKNOWN", "UNKNOWN ERROR", "[UNKNOWN ERROR]", "NOT SUPPORTED", "[NOT SUPPORTED]", "ERR!")
)
_DEPRECATED = "FUNCTIONALITY HAS BEEN DEPRECATED"


def says_something(value: Value) -> bool:
    """False for a text that a driver prints where it has no value."""
    if not isinstance(value, str):
        return value is not None
    bare = value.strip().upper()
    return bare not in NO_VALUE and _DEPRECATED not in bare


def is_number(value: Value) -> TypeGuard[int | float]:
    """True for a figure; a bool is none."""
    return type(value) is float or type(value) is int
