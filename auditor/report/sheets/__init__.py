"""The sheets of the workbook, one file each, found by walking this folder.

A sheet module has ORDER (its place), TITLE, EMPTY (why it may be left out, named on Method) and
`start(book, report) -> Sink`. A sink takes every server once, then ends; it makes its page when it has
something to say. `Table` is the sink of a sheet that is one table.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from types import ModuleType
from typing import Protocol

from auditor.finding import ServerResult
from auditor.records import Value
from auditor.report.view import Report, Seen
from auditor.report.workbook import Beside, Book, Column, Layout, Page, Put

_CHART_WIDTH = 150  # characters; narrower, charts beside each other cannot be read
Row = Sequence[Value | Put]


class Sink(Protocol):
    """What a sheet does while servers pass."""

    def take(self, seen: Seen) -> None:
        """Look at one server."""

    def end(self) -> None:
        """All servers have passed."""


@cache
def modules() -> tuple[ModuleType, ...]:
    """Every sheet, in the order of the workbook."""
    names = (found.name for found in pkgutil.iter_modules(__path__))
    return tuple(sorted((importlib.import_module(f"{__name__}.{name}") for name in names), key=lambda m: m.ORDER))


class Table:
    """A sheet that is one table: `rows` turns each server into rows; without a row there is no page.

    `preview` gives rows ahead of time: optional columns that stay empty in all of them are left out.
    """

    def __init__(
        self,
        book: Book,
        module_name: str,
        columns: Sequence[Column],
        rows: Callable[[Seen], Iterable[Row]] = lambda seen: (),
        *,
        note: str = "",
        frozen: int = 1,
        chart_rows: int = 0,
        printed: str | None = None,
        preview: Iterable[Row] | None = None,
        beside: Callable[[int], Beside] | None = None,
    ) -> None:
        self.book, self.rows = book, rows
        self.module = importlib.import_module(module_name)
        self.page: Page | None = None
        self.kept = tuple(range(len(columns))) if preview is None else _kept(columns, preview)
        self.columns = tuple(columns[index] for index in self.kept)
        titles = [column.title for column in self.columns]
        self.layout = Layout(
            note,
            frozen=frozen,
            chart_rows=chart_rows,
            printed=titles.index(printed) + 1 if printed in titles else None,
            beside=beside(len(self.columns)) if beside else None,
            least_width=_CHART_WIDTH if chart_rows else 0,
        )

    def take(self, seen: Seen) -> None:
        """Add this server's rows."""
        self.fill(self.rows(seen))

    def add(self, row: Row) -> None:
        """Add one row, making the page with the first."""
        if self.page is None:
            self.page = self.book.page(self.module.ORDER, self.module.TITLE, self.columns, self.layout)
        self.page.add([row[index] for index in self.kept])

    def fill(self, rows: Iterable[Row]) -> None:
        """Add rows that waited until all servers had passed."""
        for row in rows:
            self.add(row)

    def column(self, title: str) -> int:
        """The number of a column in the sheet, from 1."""
        return [column.title for column in self.columns].index(title) + 1

    def end(self) -> None:
        """Nothing is left to do."""


def of_each_server(
    book: Book,
    report: Report,
    module_name: str,
    columns: Sequence[Column],
    rows: Callable[[Report, str, ServerResult], Iterable[Row]],
    *,
    note: str,
    printed: str,
    frozen: int = 1,
) -> Table:
    """A table that needs no records: its rows are known before the first server passes."""
    return Table(
        book,
        module_name,
        columns,
        lambda seen: rows(report, seen.provider, seen.server),
        note=note,
        frozen=frozen,
        printed=printed,
        preview=(row for provider, server in report for row in rows(report, provider, server)),
    )


def _kept(columns: Sequence[Column], preview: Iterable[Row]) -> tuple[int, ...]:
    wanted = {index for index, column in enumerate(columns) if not column.optional}
    missing = set(range(len(columns))) - wanted
    for row in preview:
        if not missing:
            break
        found = {index for index in missing if _filled(row[index])}
        wanted |= found
        missing -= found
    return tuple(sorted(wanted))


def _filled(value: Value | Put) -> bool:
    shown = value.value if isinstance(value, Put) else value
    return shown is not None and shown != ""
