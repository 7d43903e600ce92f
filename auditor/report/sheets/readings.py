"""Readings: every raw value with its source. Above the cap they go into a CSV beside the workbook."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.judge.texts import N_
from auditor.records import Reading
from auditor.report.figures import exact
from auditor.report.sheets import Row, Table
from auditor.report.show import show
from auditor.report.units import UNITS, unit_of
from auditor.report.view import Report, Seen, conditions_text
from auditor.report.workbook import Book, Column

ORDER = 140
TITLE = N_("Readings")
EMPTY = N_("more than 50,000 readings: they stand in readings.csv beside this workbook; or there are none")
NOTE = N_("Every raw value in its base unit, as the server sent it. Findings name these rows by their number.")
MOST_ROWS = 50_000
COLUMNS = (
    Column(N_("No."), "int", (8, 10), unit_in_title=False),
    Column(N_("Server"), "text", (16, 34)),
    Column(N_("Where"), "text", (9, 16)),
    Column(N_("Metric"), "text", (30, 46)),
    Column(N_("Conditions"), "text", (20, 50)),
    Column(N_("Value in base units"), "text", (16, 40)),
    Column(N_("Shown"), "number", (11, 16)),
    Column(N_("Unit"), "text", (8, 12)),
    Column(N_("Spread of repeats"), "%", (10, 12), unit_in_title=False),
    Column(N_("Repeats"), "int", (8, 10)),
    Column(N_("Stable"), "text", (8, 10)),
    Column(N_("Source"), "text", (14, 20)),
)


class _Readings:
    def __init__(self, book: Book, report: Report) -> None:
        self.report = report
        self.table = Table(book, __name__, COLUMNS, note=NOTE, frozen=2)
        self.waiting: list[Row] = []
        self.count = 0

    def take(self, seen: Seen) -> None:
        """Keep rows until it is known that they are not too many."""
        if seen.record is None:
            return
        self.count += len(seen.record.readings)
        if self.count > MOST_ROWS:
            self.waiting.clear()
            return
        self.waiting.extend(rows(self.report, seen))

    def end(self) -> None:
        """Write the kept rows."""
        for row in self.waiting:
            self.table.add(row)
        self.waiting.clear()


def start(book: Book, report: Report) -> _Readings:
    """In the order of the records."""
    return _Readings(book, report)


def rows(report: Report, seen: Seen) -> Iterator[Row]:
    """A record's readings."""
    name = report.name(seen.server)
    for index, reading in enumerate(seen.record.readings if seen.record else ()):
        shown, unit = _shown(reading)
        yield (
            seen.first_reading + index,
            name,
            show(reading.subject),
            reading.metric,
            show(conditions_text(reading)),
            exact(reading.value),
            shown,
            unit,
            reading.spread,
            reading.n,
            reading.stable,
            show(reading.source),
        )


def _shown(reading: Reading) -> tuple[float | None, str | None]:
    value, unit = reading.value, unit_of(reading.metric)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None, None
    return value / UNITS[unit].factor, UNITS[unit].label or None
