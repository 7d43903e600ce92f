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

from auditor.records import Value
from auditor.report.view import Seen
from auditor.report.workbook import Book, Column, Page, Put

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
    """A sheet that is one table: `rows` turns each server into rows; no row, no page."""

    def __init__(
        self,
        book: Book,
        module_name: str,
        columns: Sequence[Column],
        rows: Callable[[Seen], Iterable[Row]],
        note: str = "",
        frozen: int = 1,
    ) -> None:
        self.book, self.columns, self.rows, self.note, self.frozen = book, columns, rows, note, frozen
        self.module = importlib.import_module(module_name)
        self.page: Page | None = None

    def take(self, seen: Seen) -> None:
        """Add this server's rows."""
        for row in self.rows(seen):
            self.add(row)

    def add(self, row: Row) -> None:
        """Add one row, making the page with the first."""
        if self.page is None:
            self.page = self.book.page(
                self.module.ORDER, self.module.TITLE, self.columns, self.note, frozen=self.frozen
            )
        self.page.add(row)

    def end(self) -> None:
        """Nothing is left to do."""
