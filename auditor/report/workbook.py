"""The one place that writes cells: styles, tables, print set-up, and `put`, which lets no text become a formula.

Rows are streamed (openpyxl's write-only mode), so that ten thousand servers fit in memory. Everything a page
shows around its rows (frozen panes, widths, print set-up) must be set before the first row is appended.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.cell.cell import Cell
from openpyxl.formatting.rule import DataBarRule
from openpyxl.styles import Alignment, Border, Font, PatternFill, Side
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.filters import AutoFilter
from openpyxl.worksheet.table import Table as ExcelTable
from openpyxl.worksheet.table import TableStyleInfo

from auditor.finding import SEVERITIES, VERDICTS
from auditor.judge.texts import N_
from auditor.records import Value
from auditor.report.show import clean, width
from auditor.report.texts import Texts
from auditor.report.units import UNITS
from auditor.report.words import MARKS, word

LONGEST_TEXT = 32_767  # Excel's limit for one cell
CUT_MARK = " […]"
LONGEST_TITLE = 31
HEADER_ROW = 4
_PEEK_ROWS = 200  # rows looked at before the column widths are fixed
_RISKY = ("=", "+", "-", "@", "\t", "\r")

# Fill and ink by meaning; never alone: a symbol stands before every coloured word. Contrast is above 7:1.
TINTS: dict[str, tuple[str, str]] = {
    "reject": ("F9D6CF", "7A1400"),
    "incomplete": ("E2E4E9", "333B4A"),
    "review": ("FFE7AE", "5C3B00"),
    "accept": ("CBE9DE", "004733"),
    "advice": ("D9E6F7", "123C73"),
    "info": ("EEF0F3", "3C4350"),
    "header": ("1F3A5F", "FFFFFF"),
    "soft": ("F3F5F8", "1B2430"),
    "nvlink": ("CBE9DE", "004733"),
    "near": ("D9E6F7", "123C73"),
    "host": ("FFE7AE", "5C3B00"),
    "far": ("F9D6CF", "7A1400"),
}
_LINE = Side(style="hair", color="B8C0CC")
_UNDER = Border(bottom=_LINE)
_BAR_COLOUR = "8FB4E3"


@dataclass(frozen=True)
class Column:
    """A column of a table: its header, what its cells hold, and between which widths it may be.

    `kind` is a unit of `units.UNITS` (numbers in base units are converted), or text, wrap, verdict, severity,
    money. `bar` draws data bars from 0 to this value in the shown unit, or to the column's largest (0).
    """

    title: str
    kind: str = "text"
    wide: tuple[float, float] = (8, 30)
    bar: float | None = None
    unit_in_title: bool = True


@dataclass(frozen=True)
class Put:
    """A cell that differs from its column: another kind or a tint."""

    value: Value
    kind: str | None = None
    tint: str | None = None
    bold: bool = False


@dataclass
class _Seen:
    """What a page learns while its rows pass."""

    rows: int = 0
    largest: dict[int, float] = field(default_factory=dict)


class Book:
    """One workbook being written."""

    def __init__(self, texts: Texts, subtitle: str, warning: str | None = None) -> None:
        self.texts = texts
        self.subtitle = subtitle
        self.warning = warning
        self._workbook = Workbook(write_only=True)
        self._styles: dict[tuple[str, str | None, bool, bool, str], Any] = {}
        self._pages: dict[int, Page] = {}
        self.font = "Microsoft YaHei" if texts.code == "zh" else "Calibri"
        self._default_font()

    def _default_font(self) -> None:
        normal = self._workbook._named_styles["Normal"]  # type: ignore[attr-defined]
        normal.font = Font(name=self.font, size=10)
        self._workbook._fonts.__init__([normal.font])  # type: ignore[attr-defined]

    def page(
        self, order: int, title: str, columns: Sequence[Column], note: str = "", *, table: bool = True, frozen: int = 1
    ) -> Page:
        """A new sheet; `order` decides its place among the others, whenever it was made."""
        sheet = self._workbook.create_sheet(self._sheet_title(title))
        page = Page(self, sheet, order, columns, note, table, frozen)
        self._pages[order] = page
        return page

    def has(self, order: int) -> bool:
        """True when the sheet of this order was made."""
        return order in self._pages

    def save(self, path: Path) -> None:
        """Close every page, put the sheets in order, write the file."""
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

    def _sheet_title(self, title: str) -> str:
        name = re.sub(r"[\\/*?:\[\]']", " ", self.texts._(title))[:LONGEST_TITLE].strip() or "Sheet"
        if name.lower() in {s.title.lower() for s in self._workbook.worksheets}:
            raise ValueError(f"two sheets are called {name}")
        return name

    def style(self, kind: str, tint: str | None, bold: bool, quoted: bool, size: str = "") -> Any:
        """The shared style of all cells of one sort; made once."""
        key = (kind, tint, bold, quoted, size)
        if key not in self._styles:
            self._styles[key] = self._make_style(*key)
        return self._styles[key]

    def _make_style(self, kind: str, tint: str | None, bold: bool, quoted: bool, size: str) -> Any:
        sheet = self._workbook.worksheets[0]
        cell: Any = WriteOnlyCell(sheet)
        ink = "1B2430"
        if tint:
            fill, ink = TINTS[tint]
            cell.fill = PatternFill("solid", fgColor=fill)
        points = {"title": 16, "section": 12, "": 10}[size]
        cell.font = Font(name=self.font, size=points, bold=bold or tint == "header" or bool(size), color=ink)
        number = kind in UNITS or kind.startswith("money")
        wrapped = kind == "wrap" or tint == "header"
        cell.alignment = Alignment(
            horizontal="right" if number else "center" if kind == "centre" else "left",
            vertical="center" if tint == "header" or kind == "centre" else "top",
            wrap_text=wrapped,
        )
        if kind in UNITS:
            cell.number_format = UNITS[kind].excel
        elif kind.startswith("money"):
            cell.number_format = "#,##0.0000" if kind == "money4" else "#,##0.00"
        if not size and kind != "plain":
            cell.border = _UNDER
        cell._style.quotePrefix = int(quoted)
        return copy(cell._style)


class Page:
    """One sheet: a title, a note, and rows; its columns are fixed when the first rows have been seen."""

    def __init__(
        self, book: Book, sheet: Any, order: int, columns: Sequence[Column], note: str, table: bool, frozen: int
    ) -> None:
        self.book, self.sheet, self._order, self.columns = book, sheet, order, tuple(columns)
        self._note, self._table, self._frozen = note, table, frozen
        self._waiting: list[tuple[Sequence[Value | Put], float | None]] = []
        self._open = False
        self._seen = _Seen()
        self._at_end: list[Callable[[Page], None]] = []

    @property
    def rows(self) -> int:
        """How many rows were added below the header."""
        return self._seen.rows

    @property
    def next_row(self) -> int:
        """The row of the sheet that the next `add` will fill."""
        return HEADER_ROW + 1 + self._seen.rows if self._table else 3 + self._seen.rows

    def add(self, values: Sequence[Value | Put], height: float | None = None) -> None:
        """Add a row; values are in base units."""
        self._seen.rows += 1
        if self._open:
            self._write(values, height)
            return
        self._waiting.append((values, height))
        if len(self._waiting) >= _PEEK_ROWS:
            self._begin()

    def at_end(self, action: Callable[[Page], None]) -> None:
        """Run `action` when all rows are written: charts, conditional formats."""
        self._at_end.append(action)

    def close(self) -> None:
        """Write what waits, then the table and what was put off to the end."""
        if not self._open:
            self._begin()
        if self._table and self._seen.rows:
            self._add_table()
            self._add_bars()
        for action in self._at_end:
            action(self)
        if not self._table:
            self.sheet.print_area = f"A1:{get_column_letter(len(self.columns))}{max(self.next_row - 1, 1)}"

    def _begin(self) -> None:
        self._open = True
        self._print_setup()
        for index, column in enumerate(self.columns):
            self.sheet.column_dimensions[get_column_letter(index + 1)].width = self._width(index, column)
        texts = self.book.texts
        title = self._put(self.sheet.title, "plain", size="title")
        self._append([title], 26)
        lead = " · ".join(filter(None, (texts._(self._note), self.book.subtitle)))
        self._append([self._put(lead, "plain")], None)
        if self._table:
            warning = self.book.warning
            self._append([self._put(warning, "plain", tint="review", bold=True)] if warning else [], None)
            self._append([self._put(name, "wrap", tint="header") for name in self.titles()], self._header_height())
        for values, height in self._waiting:
            self._write(values, height)
        self._waiting.clear()

    def titles(self) -> list[str]:
        """The headers in the reader's language with their units; unique, as a table demands."""
        out: list[str] = []
        for column in self.columns:
            title = self.book.texts._(column.title)
            unit = UNITS[column.kind].label if column.kind in UNITS and column.unit_in_title else ""
            name = f"{title} ({unit})" if unit and unit not in ("×",) and unit not in title else title
            while name.lower() in (known.lower() for known in out):
                name += "'"
            out.append(name)
        return out

    def _print_setup(self) -> None:
        sheet = self.sheet
        if self._table:
            sheet.freeze_panes = f"{get_column_letter(self._frozen + 1)}{HEADER_ROW + 1}"
            sheet.print_title_rows = f"{HEADER_ROW}:{HEADER_ROW}"
        sheet.sheet_view.showGridLines = False
        sheet.sheet_view.zoomScale = 100
        sheet.sheet_properties.pageSetUpPr.fitToPage = True
        sheet.page_setup.orientation = "landscape"
        sheet.page_setup.paperSize = 9  # A4
        sheet.page_setup.fitToWidth, sheet.page_setup.fitToHeight = 1, 0
        sheet.page_margins.left = sheet.page_margins.right = 0.4
        sheet.page_margins.top, sheet.page_margins.bottom = 0.5, 0.6
        sheet.oddFooter.left.text = self.book.subtitle.replace("&", "&&")[:120]
        sheet.oddFooter.center.text = "&A"
        sheet.oddFooter.right.text = "&P / &N"

    def _width(self, index: int, column: Column) -> float:
        lowest, highest = column.wide
        title = self.titles()[index]
        words = [width(part) for part in re.split(r"[\s/]", title)]
        needed = max([*words, width(title) / 3, lowest - 2])
        if column.kind != "wrap":
            for values, _ in self._waiting:
                if index < len(values):
                    needed = max(needed, width(self._shown(values[index], column)))
        return min(max(lowest, needed * 1.08 + 2.2), highest)

    def _shown(self, value: Value | Put, column: Column) -> str:
        raw = value.value if isinstance(value, Put) else value
        if isinstance(raw, str):
            return "✖ " + word(self.book.texts, raw) if column.kind in ("verdict", "severity") else raw
        if raw is None or isinstance(raw, bool):
            return ""
        return f"{raw / UNITS[column.kind].factor:,.2f}" if column.kind in UNITS else f"{raw:,.4f}"

    def _header_height(self) -> float:
        lines = 1
        for column, title in zip(self.columns, self.titles(), strict=True):
            wide = self.sheet.column_dimensions[get_column_letter(self.columns.index(column) + 1)].width or 10
            lines = max(lines, _lines(title, wide - 1))
        return 15.0 * lines + 4

    def _write(self, values: Sequence[Value | Put], height: float | None) -> None:
        cells = []
        for index, value in enumerate(values):
            column = self.columns[min(index, len(self.columns) - 1)]
            cells.append(self._cell(index, value, column))
        self._append(cells, height)

    def _cell(self, index: int, value: Value | Put, column: Column) -> Any:
        tint, bold, kind = None, False, column.kind
        if isinstance(value, Put):
            tint, bold, kind = value.tint, value.bold, value.kind or kind
            value = value.value
        if value is None:
            return self._put(None, kind, tint)
        if kind in ("verdict", "severity") and isinstance(value, str):
            known = value in VERDICTS or value in SEVERITIES
            text = f"{MARKS.get(value, '')} {word(self.book.texts, value)}".strip()
            return self._put(text, "text", value if known else None, bold=True)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._number(index, float(value), kind, tint, bold)
        return self._put(value, kind, tint, bold)

    def _number(self, index: int, value: float, kind: str, tint: str | None, bold: bool) -> Any:
        if not math.isfinite(value):
            return self._put("?", kind, tint)
        if kind in UNITS:
            # The shown figure, not ten digits of it; a percentage stays a fraction, its format multiplies.
            value = round(value, 6) if kind == "%" else round(value / UNITS[kind].factor, 4)
        self._seen.largest[index] = max(self._seen.largest.get(index, 0.0), value)
        return self._put(value, kind, tint, bold)

    def _put(
        self, value: Value, kind: str = "text", tint: str | None = None, bold: bool = False, size: str = ""
    ) -> Any:
        """One cell. Text is forced to be text, whatever it starts with, and cut at Excel's limit with a mark."""
        cell: Cell = WriteOnlyCell(self.sheet)
        quoted = False
        if isinstance(value, bool):
            value = self.book.texts._(N_("yes") if value else N_("no"))
        if isinstance(value, str):
            text = clean(value)
            if len(text) > LONGEST_TEXT:
                text = text[: LONGEST_TEXT - len(CUT_MARK)] + CUT_MARK
            quoted = text.startswith(_RISKY)
            cell._value = text  # type: ignore[attr-defined]  # value= would read "=…" as a formula, "#N/A" as an error
            cell.data_type = "s"
        elif value is not None:
            cell._value = int(value) if value == int(value) else value  # type: ignore[attr-defined]
            cell.data_type = "n"
        cell._style = self.book.style(kind, tint, bold, quoted, size)  # type: ignore[attr-defined]
        return cell

    def _append(self, cells: Iterable[Any], height: float | None) -> None:
        if height:
            self.sheet.row_dimensions[self.sheet._max_row + 1].height = height
        self.sheet.append(list(cells))

    def _add_table(self) -> None:
        last = HEADER_ROW + self._seen.rows
        reference = f"A{HEADER_ROW}:{get_column_letter(len(self.columns))}{last}"
        table = ExcelTable(displayName=f"Audit_{self._order}", ref=reference)
        table._initialise_columns()  # type: ignore[attr-defined]
        for column, title in zip(table.tableColumns, self.titles(), strict=True):
            column.name = title
        table.autoFilter = AutoFilter(ref=reference)
        table.tableStyleInfo = TableStyleInfo(name="TableStyleLight1", showRowStripes=True)
        self.sheet.tables.add(table)  # add_table warns in write-only mode that columns are ours to name: they are

    def _add_bars(self) -> None:
        last = HEADER_ROW + self._seen.rows
        for index, column in enumerate(self.columns):
            if column.bar is None or not self._seen.largest.get(index):
                continue
            letter = get_column_letter(index + 1)
            top = column.bar or self._seen.largest[index]
            self.sheet.conditional_formatting.add(
                f"{letter}{HEADER_ROW + 1}:{letter}{last}",
                DataBarRule("num", 0, "num", top, color=_BAR_COLOUR),  # type: ignore[no-untyped-call]
            )


def _lines(text: str, wide: float) -> int:
    lines, used = 1, 0.0
    for part in text.split():
        size = width(part) * 1.1
        if used and used + 1 + size > wide:
            lines, used = lines + 1, size
        else:
            used += size + (1 if used else 0)
        while used > wide > 1:
            lines, used = lines + 1, used - wide
    return lines
