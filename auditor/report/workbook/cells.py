"""Cells: what a column holds, how a cell looks, and `Cells.put`, which lets no text become a formula."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from typing import Any

from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.styles import Alignment, Border, Font, PatternFill, Side

from auditor.finding import SEVERITIES, VERDICTS
from auditor.judge.texts import N_
from auditor.records import Value
from auditor.report.show import clean
from auditor.report.texts import Texts
from auditor.report.units import UNITS
from auditor.report.words import MARKS, word

LONGEST_TEXT = 32_767  # Excel's limit for one cell
CUT_MARK = " […]"
FONTS = {"en": "Arial", "zh": "Microsoft YaHei"}
_RISKY = ("=", "+", "-", "@", "\t", "\r")
_MONEY = {"money": "#,##0.00", "money4": "#,##0.0000"}

# Fill and ink by meaning; never alone: a symbol stands before every coloured word or figure. Contrast above 7:1.
TINTS: dict[str, tuple[str, str]] = {
    "reject": ("F9D6CF", "7A1400"),
    "incomplete": ("E2E4E9", "333B4A"),
    "review": ("FFE7AE", "5C3B00"),
    "accept": ("CBE9DE", "004733"),
    "advice": ("D9E6F7", "123C73"),
    "info": ("EEF0F3", "3C4350"),
    "header": ("1F3A5F", "FFFFFF"),
    "section": ("DDE5EF", "1F3A5F"),
    "nvlink": ("CBE9DE", "004733"),
    "near": ("D9E6F7", "123C73"),
    "host": ("FFE7AE", "5C3B00"),
    "far": ("F9D6CF", "7A1400"),
}
INK = "1B2430"
_UNDER = Border(bottom=Side(style="hair", color="B8C0CC"))
_APART = Border(left=Side(style="thin", color="FFFFFF"), right=Side(style="thin", color="FFFFFF"))
_POINTS = {"title": 16, "lead": 9, "big": 20}


@dataclass(frozen=True)
class Column:
    """A column: its header, what its cells hold, and between which widths it may be.

    `kind` is a unit of `units.UNITS` (numbers in base units are converted), or text, wrap, centre, verdict,
    severity, money, money4. `bar` draws data bars up to this shown value (0: the column's largest).
    An `optional` column is left out where no row has a value for it.
    """

    title: str
    kind: str = "text"
    wide: tuple[float, float] = (8, 30)
    bar: float | None = None
    unit_in_title: bool = True
    optional: bool = False

    @property
    def numeric(self) -> bool:
        """True when its cells are figures."""
        return self.kind in UNITS or self.kind in _MONEY


@dataclass(frozen=True)
class Put:
    """A cell that differs from its column: another kind, a tint, or a mark before the figure."""

    value: Value
    kind: str | None = None
    tint: str | None = None
    bold: bool = False
    size: str = ""


@dataclass(frozen=True)
class _Look:
    kind: str
    tint: str | None = None
    bold: bool = False
    size: str = ""
    quoted: bool = False
    heading: bool = False


class Cells:
    """Makes the cells of one workbook; equal looks share one style."""

    def __init__(self, workbook: Workbook, texts: Texts) -> None:
        self.texts = texts
        self.font = FONTS[texts.code]
        self._workbook = workbook
        self._styles: dict[_Look, Any] = {}

    def cell(self, sheet: Any, value: Value | Put, column: Column) -> Any:
        """A value as the column shows it; `Put` may say otherwise."""
        made = value if isinstance(value, Put) else Put(value)
        kind, shown = made.kind or column.kind, made.value
        if kind in ("verdict", "severity") and isinstance(shown, str):
            return self._word(sheet, shown)
        if isinstance(shown, int | float) and not isinstance(shown, bool):
            shown = in_unit(float(shown), kind)
        return self.put(sheet, shown, kind, made.tint, made.bold, made.size)

    def heading(self, sheet: Any, title: str, numeric: bool) -> Any:
        """A table's header cell."""
        return self._made(sheet, title, _Look("money" if numeric else "wrap", "header", True, heading=True))

    def put(
        self, sheet: Any, value: Value, kind: str = "text", tint: str | None = None, bold: bool = False, size: str = ""
    ) -> Any:
        """One cell; text is text whatever it starts with."""
        return self._made(sheet, value, _Look(kind, tint, bold, size))

    def _word(self, sheet: Any, key: str) -> Any:
        known = key in VERDICTS or key in SEVERITIES
        shown = f"{MARKS.get(key, '')} {word(self.texts, key)}".strip()
        return self.put(sheet, shown, "text", key if known else None, bold=True)

    def _made(self, sheet: Any, value: Value, look: _Look) -> Any:
        """Every cell passes here: control characters visible, cut at Excel's limit, text forced to be text.

        `value=` would read "=…" as a formula and "#N/A" as an error; the value is set beside it.
        """
        cell: Any = WriteOnlyCell(sheet)
        if isinstance(value, bool):
            value = self.texts._(N_("yes") if value else N_("no"))
        if isinstance(value, str):
            text = clean(value)
            if len(text) > LONGEST_TEXT:
                text = text[: LONGEST_TEXT - len(CUT_MARK)] + CUT_MARK
            if text.startswith(_RISKY):
                look = _Look(look.kind, look.tint, look.bold, look.size, True, look.heading)
            cell._value, cell.data_type = text, "s"
        elif value is not None:
            cell._value, cell.data_type = (int(value) if value == int(value) else value), "n"
        cell._style = self._style(look)
        return cell

    def _style(self, look: _Look) -> Any:
        if look not in self._styles:
            self._styles[look] = self._make(look)
        return self._styles[look]

    def _make(self, look: _Look) -> Any:
        cell: Any = WriteOnlyCell(self._workbook.worksheets[0])
        fill, ink = TINTS.get(look.tint or "", (None, INK))
        if fill:
            cell.fill = PatternFill("solid", fgColor=fill)
        cell.font = Font(name=self.font, size=_POINTS.get(look.size, 10), bold=look.bold, color=ink)
        numeric = look.kind in UNITS or look.kind in _MONEY
        cell.alignment = Alignment(
            horizontal="center"
            if look.kind == "centre" or (numeric and look.heading)
            else "right"
            if numeric
            else "left",
            vertical="center" if look.heading or look.kind == "centre" or look.size else "top",
            wrap_text=look.heading or look.kind in ("wrap", "centre"),
            indent=0 if numeric or look.kind in ("plain", "centre") else 1,
        )
        if numeric and not look.heading:
            mark = MARKS.get(look.tint or "")
            number = UNITS[look.kind].excel if look.kind in UNITS else _MONEY[look.kind]
            cell.number_format = _marked(number, mark) if mark else number
        if look.heading:
            cell.border = _APART
        elif look.kind != "plain" and not look.size:
            cell.border = _UNDER
        cell._style.quotePrefix = int(look.quoted)
        return copy(cell._style)


def _marked(number: str, mark: str) -> str:
    """The number format with the mark before the figure, in each of its sections."""
    sections = []
    for section in number.split(";"):
        condition, bracket, rest = section.rpartition("]")
        sections.append(f'{condition}{bracket}"{mark} "{rest}')
    return ";".join(sections)


def in_unit(value: float, kind: str) -> Value:
    """A base-unit figure in the column's unit, without ten digits nobody measured; "?" when it is no figure."""
    if not math.isfinite(value):
        return "?"
    if kind not in UNITS:
        return round(value, 6)
    # A percentage stays a fraction in the cell, its number format multiplies.
    return round(value, 5) if kind == "%" else _significant(value / UNITS[kind].factor)


def _significant(value: float) -> float:
    """Six significant digits: more than any figure here is good for."""
    if value == 0 or value == int(value):
        return value
    return round(value, max(0, 5 - math.floor(math.log10(abs(value)))))
