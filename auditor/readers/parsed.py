"""What a reader hands back, and the small book it keeps while it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from auditor.records import Condition, Reading, Subject, Value

_MAX_UNREADABLE = 200
_SHOWN = 60


@dataclass(frozen=True)
class Unreadable:
    """A line (1 is the first) that was not understood, and why."""

    line: int
    why: str


@dataclass(frozen=True)
class Parsed:
    """What one output of one tool says: readings, the subjects they are about, and what was not understood."""

    readings: tuple[Reading, ...] = ()
    subjects: tuple[Subject, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()


def key_of(metric: str, subject: str, source: str, conditions: Mapping[str, Condition]) -> tuple[object, ...]:
    """What makes a reading the same reading: metric, subject, source and conditions."""
    if len(conditions) > 1:
        return metric, subject, source, *sorted(conditions.items())
    return metric, subject, source, *conditions.items()


class Book:
    """Collects one output's readings; a second reading of the same fact replaces the first."""

    def __init__(self, kind: str, tool: str) -> None:
        self._kind = kind
        self._source = f"text/{tool}"
        self._readings: dict[tuple[object, ...], Reading] = {}
        self._subjects: dict[str, Subject] = {}
        self._unreadable: list[Unreadable] = []
        self._left_out = 0

    def add(self, metric: str, value: Value, subject: str = "server", /, **conditions: Condition) -> None:
        """Note one reading; `from_` is written `from`."""
        if "from_" in conditions:
            conditions["from"] = conditions.pop("from_")
        if subject not in self._subjects and "-" in subject:
            self._subjects[subject] = Subject(id=subject, kind="pair")
        self._readings[key_of(metric, subject, "", conditions)] = Reading(
            probe=self._kind, metric=metric, subject=subject, value=value, source=self._source, conditions=conditions
        )

    def drop(self, metric: str, subject: str) -> None:
        """Take a reading back that says nothing without another one that did not come."""
        self._readings = {k: r for k, r in self._readings.items() if (r.metric, r.subject) != (metric, subject)}

    def gpu(self, index: int, uuid: str | None = None, pci: str | None = None, name: str | None = None) -> str:
        """The id of a GPU, known from now on; what an earlier line said about it stays."""
        known = self._subjects.get(f"gpu{index}")
        self._subjects[f"gpu{index}"] = Subject(
            id=f"gpu{index}",
            kind="gpu",
            index=index,
            uuid=uuid or (known.uuid if known else None),
            pci=pci or (known.pci if known else None),
            name=name or (known.name if known else None),
        )
        return f"gpu{index}"

    def subject(self, subject: Subject) -> str:
        """Make a subject that is no GPU known."""
        self._subjects[subject.id] = subject
        return subject.id

    def unreadable(self, line: int, why: str) -> None:
        """List a line that was not understood; past a cap only their number is kept."""
        if len(self._unreadable) < _MAX_UNREADABLE:
            self._unreadable.append(Unreadable(line, why))
        else:
            self._left_out += 1

    def parsed(self) -> Parsed:
        """What was collected, in the order it was read."""
        rest: tuple[Unreadable, ...] = ()
        if self._left_out:
            last = self._unreadable[-1].line
            rest = (Unreadable(last, f"{self._left_out} more lines were not understood"),)
        return Parsed(tuple(self._readings.values()), tuple(self._subjects.values()), (*self._unreadable, *rest))


def shown(line: str) -> str:
    """A line as it may stand in a message: short, on one line, without control characters."""
    plain = "".join(c if c.isprintable() else " " for c in line).strip()
    return plain if len(plain) <= _SHOWN else plain[: _SHOWN - 1] + "…"


def pci_address(text: str) -> str | None:
    """A PCI address in the kernel's form `0000:19:00.0`, from the forms the tools print; None when it is none."""
    parts = text.strip().lower().split(":")
    if len(parts) not in (2, 3):
        return None
    domain = parts[0] if len(parts) == 3 else "0"
    bus, rest = parts[-2], parts[-1]
    device, _, function = rest.partition(".")
    try:
        return f"{int(domain, 16):04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{int(function or '0', 16):x}"
    except ValueError:
        return None
