"""The workbook: its pages in their order, whenever they were made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from openpyxl import Workbook
from openpyxl.styles import Font

from auditor.report.texts import Texts
from auditor.report.workbook.cells import Cells, Column
from auditor.report.workbook.page import Layout, Page

_LONGEST_TITLE = 31
_NOT_IN_TITLES = re.compile(r"[\\/*?:\[\]']")


class Book:
    """One workbook being written."""

    def __init__(self, texts: Texts, footer: str, warning: str | None = None) -> None:
        self.texts, self._footer, self._warning = texts, footer, warning
        self._workbook = Workbook(write_only=True)
        self.cells = Cells(self._workbook, texts)
        self._pages: dict[int, Page] = {}
        normal = Font(name=self.cells.font, size=10)
        self._workbook._named_styles["Normal"].font = normal  # type: ignore[attr-defined]
        self._workbook._fonts.__init__([normal])  # type: ignore[attr-defined]

    def page(self, order: int, title: str, columns: Sequence[Column], layout: Layout) -> Page:
        """A new sheet; `order` decides its place among the others."""
        sheet = self._workbook.create_sheet(self._title(title))
        page = Page(self.cells, sheet, f"Audit_{order}", columns, layout, self._footer, self._warning)
        self._pages[order] = page
        return page

    def has(self, order: int) -> bool:
        """True when the sheet of this order was made."""
        return order in self._pages

    def save(self, path: Path) -> None:
        """Close every page, put the sheets in order, write the file whole."""
        for page in self._pages.values():
            page.close()
        self._workbook._sheets = [self._pages[order].sheet for order in sorted(self._pages)]  # type: ignore[attr-defined]
        self._workbook.active = 0
        self._workbook.properties.title = "GPU server audit"
        self._workbook.properties.creator = "auditor"
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".new")
        self._workbook.save(temporary)
        temporary.replace(path)

    def _title(self, title: str) -> str:
        name = _NOT_IN_TITLES.sub(" ", self.texts._(title))[:_LONGEST_TITLE].strip() or "Sheet"
        if name.casefold() in {sheet.title.casefold() for sheet in self._workbook.worksheets}:
            raise ValueError(f"two sheets are called {name}")
        return name
