"""One sheet: a title, a note, perhaps room for charts, and rows that are streamed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from openpyxl.formatting.rule import DataBarRule
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.filters import AutoFilter
from openpyxl.worksheet.pagebreak import Break
from openpyxl.worksheet.table import Table as ExcelTable
from openpyxl.worksheet.table import TableStyleInfo

from auditor.records import Value
from auditor.report.show import width
from auditor.report.units import UNITS
from auditor.report.words import word
from auditor.report.workbook.cells import Cells, Column, Put, in_unit

HEADER_ROW = 4
_PEEK_ROWS = 200  # rows looked at before the widths are fixed
_LINE_POINTS = {"en": 13.5, "zh": 16.0}  # Chinese fonts stand higher
_CHART_PAGE = 28  # so many rows of charts are a page of their own
_LETTER = 0.9
_BAR_COLOUR = "8FB4E3"
_A4 = 9

CHART_ROW_POINTS = 15.0

Row = Sequence[Value | Put]


@dataclass(frozen=True)
class Beside:
    """Figures of charts that stand to the right of the table: a title per column, then rows of plain figures."""

    column: int
    titles: Sequence[str]
    rows: Sequence[Sequence[float | None]]


@dataclass(frozen=True)
class Layout:
    """How a sheet is laid out: on screen, and on paper, where only the first `printed` columns go.

    With `table` the rows become an Excel table below one header row; `chart_rows` are left free above it.
    """

    note: str = ""
    table: bool = True
    frozen: int = 1
    chart_rows: int = 0
    printed: int | None = None
    beside: Beside | None = None
    least_width: float = 0
    one_page: bool = False
    portrait: bool = False


class Page:
    """A sheet being written."""

    def __init__(
        self,
        cells: Cells,
        sheet: Any,
        name: str,
        columns: Sequence[Column],
        layout: Layout,
        footer: str = "",
        warning: str | None = None,
    ) -> None:
        self.cells, self.sheet, self.columns = cells, sheet, tuple(columns)
        self._name, self._layout, self._footer, self._warning = name, layout, footer, warning
        self._table, self._chart_rows, self._beside = layout.table, layout.chart_rows, layout.beside
        self._printed = layout.printed or len(self.columns)
        self._line_points = _LINE_POINTS[cells.texts.code]
        self._titles = self._unique_titles()
        self._widths: list[float] = []
        self._waiting: list[tuple[Row, float | None]] = []
        self._count = self._row = self._written = 0
        self._largest: dict[int, float] = {}
        self._at_end: list[Callable[[], None]] = []

    @property
    def header_row(self) -> int:
        """The row of the table's header, or the last row before the free ones."""
        return HEADER_ROW + self._chart_rows if self._table else 3

    @property
    def next_row(self) -> int:
        """The row of the sheet that the next `add` fills."""
        return self.header_row + 1 + self._count

    def add(self, values: Row, height: float | None = None) -> None:
        """Add a row, figures in base units; without `height` it is as high as its wrapped texts need."""
        self._count += 1
        if self._widths:
            self._write(values, height)
            return
        self._waiting.append((values, height))
        if len(self._waiting) >= _PEEK_ROWS:
            self._begin()

    @property
    def widths(self) -> Sequence[float]:
        """The columns' widths, known once rows are written."""
        return self._widths

    @property
    def printed(self) -> int:
        """How many columns go on paper."""
        return self._printed

    def break_here(self) -> None:
        """On paper, the next row begins a new page."""
        self.sheet.row_breaks.append(Break(id=self.next_row - 1))

    def at_end(self, action: Callable[[], None]) -> None:
        """Run `action` when all rows are written: charts need to know where their figures ended up."""
        self._at_end.append(action)

    def close(self) -> None:
        """Write what waits, then the table, the bars and what was put off to the end."""
        if not self._widths:
            self._begin()
        table_rows = self._count
        while self._beside and self._count < len(self._beside.rows):
            self._count += 1
            self._write((), None)
        self._count = table_rows
        if self._table and self._count:
            self._add_table()
            self._add_bars()
        self.sheet.print_area = f"A1:{get_column_letter(self._printed)}{max(self._row, 1)}"
        for action in self._at_end:
            action()

    def _begin(self) -> None:
        self._widths = [self._width(index) for index in range(len(self.columns))]
        printed = sum(self._widths[: self._printed])
        if printed < self._layout.least_width:
            self._widths = [wide * self._layout.least_width / printed for wide in self._widths]
        for index, wide in enumerate(self._widths):
            self.sheet.column_dimensions[get_column_letter(index + 1)].width = wide
        self._print_setup()
        put = self.cells.put
        self._append([put(self.sheet, self.sheet.title, "plain", bold=True, size="title")], 27)
        self._append([put(self.sheet, self.cells.texts._(self._layout.note), "plain", size="lead")], 15)
        warned = [put(self.sheet, self._warning, "plain", "review", True)] if self._warning else []
        self._append(warned + self._tinted(bool(warned)), 16 if warned else None)
        if self._table:
            for _ in range(self._chart_rows):
                self._append([], CHART_ROW_POINTS)
            titles = zip(self._titles, self.columns, strict=True)
            heads = [self.cells.heading(self.sheet, t, c.numeric) for t, c in titles]
            if self._beside:
                heads += [None] * (self._beside.column - 1 - len(heads))
                heads += [put(self.sheet, title, "wrap", "section", True) for title in self._beside.titles]
            self._append(heads, self._header_height())
            if self._chart_rows >= _CHART_PAGE:
                self.sheet.row_breaks.append(Break(id=self.header_row - 1))
        for values, height in self._waiting:
            self._write(values, height)
        self._waiting.clear()

    def _tinted(self, wanted: bool) -> list[Any]:
        """The rest of the warning's line in its colour."""
        rest = min(len(self.columns), 6) - 1
        return [self.cells.put(self.sheet, None, "plain", "review") for _ in range(rest)] if wanted else []

    def _unique_titles(self) -> list[str]:
        """Headers in the reader's language with their units; unique texts, as a table demands."""
        out: list[str] = []
        for column in self.columns:
            title = self.cells.texts._(column.title)
            unit = UNITS[column.kind].label if column.kind in UNITS and column.unit_in_title else ""
            name = f"{title} ({unit})" if unit and unit != "×" and unit not in re.split(r"[\s()]", title) else title
            while name.casefold() in (known.casefold() for known in out) and self._table:
                name += "'"
            out.append(name)
        return out

    def _print_setup(self) -> None:
        sheet = self.sheet
        if self._table:
            row = 1 if self._chart_rows else self.header_row + 1
            sheet.freeze_panes = f"{get_column_letter(self._layout.frozen + 1)}{row}"
            sheet.print_title_rows = f"{self.header_row}:{self.header_row}"
        sheet.sheet_view.showGridLines = False
        sheet.sheet_properties.pageSetUpPr.fitToPage = True
        sheet.page_setup.orientation = "portrait" if self._layout.portrait else "landscape"
        sheet.page_setup.paperSize = _A4
        sheet.page_setup.fitToWidth, sheet.page_setup.fitToHeight = 1, int(self._layout.one_page)
        sheet.page_margins.left = sheet.page_margins.right = 0.4
        sheet.page_margins.top, sheet.page_margins.bottom, sheet.page_margins.footer = 0.5, 0.75, 0.35
        sheet.oddFooter.left.text = self._footer.replace("&", "&&")[:120]
        sheet.oddFooter.center.text = "&A"
        sheet.oddFooter.right.text = "&P / &N"

    def _width(self, index: int) -> float:
        column = self.columns[index]
        lowest, highest = column.wide
        title = self._titles[index]
        needed = max([lowest - 2.2, width(title) / 2.6, *(width(part) * 1.2 for part in re.split(r"[\s/]", title))])
        if column.kind != "wrap":
            texts = (self._shown(row[index], column) for row, _ in self._waiting if index < len(row))
            needed = max([needed, *(width(text) for text in texts)])
        return min(max(lowest, needed * 1.06 + 2.2), highest)

    def _shown(self, value: Value | Put, column: Column) -> str:
        raw = value.value if isinstance(value, Put) else value
        if isinstance(raw, str):
            return f"✖ {word(self.cells.texts, raw)} " if column.kind in ("verdict", "severity") else raw
        if raw is None or isinstance(raw, bool):
            return ""
        shown = in_unit(float(raw), column.kind)
        return f"{shown:,.1f}" if isinstance(shown, int | float) else str(shown)

    def _header_height(self) -> float:
        sizes = zip(self._titles, self._widths, strict=True)
        return self._line_points * max(lines(title, (wide - 1.5) / 1.15) for title, wide in sizes) + 6

    def _write(self, values: Row, height: float | None) -> None:
        made: list[Any] = []
        needed = 1
        for index, value in enumerate(values):
            column = self.columns[min(index, len(self.columns) - 1)]
            cell = self.cells.cell(self.sheet, value, column)
            if cell.data_type == "n" and cell._value is not None and column.bar is not None:
                self._largest[index] = max(self._largest.get(index, 0.0), float(cell._value))
            elif height is None and cell.data_type == "s" and self._wraps(value, column):
                needed = max(needed, lines(cell._value, self._widths[min(index, len(self._widths) - 1)] - 1.5))
            made.append(cell)
        self._written += 1
        if self._beside and self._written <= len(self._beside.rows):
            made += [None] * (self._beside.column - 1 - len(made))
            figures = self._beside.rows[self._written - 1]
            made += [self.cells.put(self.sheet, figure, "number") for figure in figures]
        self._append(made, height or (min(needed, 30) * self._line_points + 2 if needed > 1 else None))

    def _wraps(self, value: Value | Put, column: Column) -> bool:
        return ((value.kind if isinstance(value, Put) else None) or column.kind) == "wrap"

    def _append(self, cells: Iterable[Any], height: float | None) -> None:
        self._row += 1
        if height:
            self.sheet.row_dimensions[self._row].height = height
        self.sheet.append(list(cells))
        self.sheet.row_dimensions.pop(self._row, None)  # it is written; kept, it would cost a kilobyte a row

    def _add_table(self) -> None:
        reference = f"A{self.header_row}:{get_column_letter(len(self.columns))}{self.header_row + self._count}"
        table = ExcelTable(displayName=self._name, ref=reference)
        table._initialise_columns()  # type: ignore[attr-defined]
        for column, title in zip(table.tableColumns, self._titles, strict=True):
            column.name = title
        table.autoFilter = AutoFilter(ref=reference)
        table.tableStyleInfo = TableStyleInfo(name="TableStyleLight1", showRowStripes=True)
        self.sheet.tables.add(table)  # add_table warns in write-only mode that the column names are ours to set

    def _add_bars(self) -> None:
        for index, column in enumerate(self.columns):
            if column.bar is None or not self._largest.get(index):
                continue
            letter = get_column_letter(index + 1)
            self.sheet.conditional_formatting.add(
                f"{letter}{self.header_row + 1}:{letter}{self.header_row + self._count}",
                DataBarRule("num", 0, "num", column.bar or self._largest[index], color=_BAR_COLOUR),  # type: ignore[no-untyped-call]
            )


def lines(text: str, wide: float) -> int:
    """How many lines a wrapped text takes in a column; wide characters may break anywhere."""
    return sum(_lines_of(part, wide) for part in text.split("\n"))


def _lines_of(text: str, wide: float) -> int:
    count, used = 1, 0.0
    for part in re.findall(r"[⺀-鿿＀-￯]|[^\s⺀-鿿＀-￯]+\s*|\s+", text):
        size = _drawn(part)
        if used and used + _drawn(part.rstrip()) > wide:
            count, used = count + 1, 0.0
        used += size
        while used > wide > 1 and size > wide:
            count, used = count + 1, used - wide
    return count


def _drawn(text: str) -> float:
    """A column's width counts digits; letters of running text are narrower on the average, wide characters are not."""
    return width(text) * (_LETTER if text.isascii() else 1.0)
