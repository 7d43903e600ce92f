"""Native charts over cells that are already written. Lines differ by colour and by dash, never by colour alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from openpyxl.chart import BarChart, ScatterChart, Series
from openpyxl.chart.data_source import AxDataSource, StrRef
from openpyxl.chart.marker import DataPoint
from openpyxl.chart.shapes import GraphicalProperties
from openpyxl.chart.text import RichText
from openpyxl.drawing.line import LineProperties
from openpyxl.drawing.spreadsheet_drawing import AnchorMarker, OneCellAnchor
from openpyxl.drawing.text import CharacterProperties, Font, Paragraph, ParagraphProperties
from openpyxl.drawing.xdr import XDRPositiveSize2D
from openpyxl.utils import get_column_letter, quote_sheetname

from auditor.report.show import clean
from auditor.report.workbook.page import CHART_ROW_POINTS, Page

# Okabe and Ito's palette for every kind of colour vision, darkened where it was too light on white.
COLOURS = ("0072B2", "D55E00", "009E73", "B0568F", "8C6D00", "3399CC", "555555", "A03030")
DASHES: tuple[Any, ...] = ("solid", "dash", "sysDot", "lgDash", "dashDot", "solid", "dash", "sysDot")
_GREY = "8A94A3"
_REFERENCE_DASH: Any = "sysDash"
_EMU_PER_POINT = 12_700
_EMU_PER_PIXEL = 9_525


@dataclass(frozen=True)
class Line:
    """One line of a chart: its name and the cells of its points, as (column, first row, last row)."""

    name: str
    x: tuple[int, int, int]
    y: tuple[int, int, int]
    reference: bool = False


@dataclass(frozen=True)
class Axis:
    """An axis: its title, its number format, its ends, and whether it doubles from tick to tick."""

    title: str
    format: str = "0"
    least: float | None = None
    most: float | None = None
    doubling: bool = False


@dataclass(frozen=True)
class Place:
    """Where a chart stands: its first row, how many rows high, and which of how many beside each other."""

    row: int
    rows: int
    number: int = 0
    of: int = 1
    row_points: float = CHART_ROW_POINTS


def lines(page: Page, place: Place, title: str, x: Axis, y: Axis, drawn: Sequence[Line]) -> None:
    """A line chart over cells of the page; nothing is drawn without a line."""
    if not drawn:
        return
    chart: Any = ScatterChart()
    chart.style = 2
    chart.scatterStyle = "lineMarker"
    _frame(chart, page, title, x, y)
    if place.number == place.of - 1:
        chart.legend.position = "r"
        chart.legend.txPr = _text(page, 900)
    else:
        chart.legend = None  # charts beside each other share the last one's legend
    colour = 0
    for line in drawn:
        series: Any = Series(_cells(page, line.y), _cells(page, line.x), title=clean(line.name)[:80])
        series.smooth = False
        ink = _GREY if line.reference else COLOURS[colour % len(COLOURS)]
        series.graphicalProperties = GraphicalProperties(
            ln=LineProperties(
                w=int((1.25 if line.reference else 2.0) * _EMU_PER_POINT),
                solidFill=ink,
                prstDash=_REFERENCE_DASH if line.reference else DASHES[colour % len(DASHES)],
            )
        )
        points = line.y[2] - line.y[1] + 1
        series.marker.symbol = "circle" if points <= 16 and not line.reference else "none"
        series.marker.size = 5
        series.marker.graphicalProperties = GraphicalProperties(solidFill=ink)
        series.marker.graphicalProperties.line.solidFill = ink
        colour += 0 if line.reference else 1
        chart.series.append(series)
    _add(page, chart, place)


def bars(
    page: Page,
    place: Place,
    title: str,
    value: Axis,
    names: tuple[int, int, int],
    values: Sequence[tuple[str, tuple[int, int, int]]],
    colours: Sequence[str] | None = None,
) -> None:
    """Horizontal bars, one group per name; `colours` paints each bar of a single group of values."""
    chart: Any = BarChart()
    chart.type = "bar"
    chart.style = 2
    chart.gapWidth = 60
    _frame(chart, page, title, Axis(""), value)
    chart.x_axis.scaling.orientation = "maxMin"
    chart.y_axis.crosses = "max"
    for index, (name, cells) in enumerate(values):
        series: Any = Series(_cells(page, cells), title=clean(name)[:80])
        series.cat = _categories(page, names)
        series.graphicalProperties = GraphicalProperties(solidFill=COLOURS[index % len(COLOURS)])
        for point, colour in enumerate(colours or ()):
            series.dPt.append(DataPoint(idx=point, spPr=GraphicalProperties(solidFill=colour)))
        chart.series.append(series)
    if len(values) == 1:
        chart.legend = None
    else:
        chart.legend.position = "b"
    _add(page, chart, place)


def _add(page: Page, chart: Any, place: Place) -> None:
    """Fit the chart into its share of the printed columns, whatever their widths came to."""
    pixels = [wide * 7 + 5 for wide in page.widths[: page.printed]]
    share = sum(pixels) / place.of
    left = share * place.number + 4
    column = 0
    while column < len(pixels) - 1 and left >= pixels[column]:
        left -= pixels[column]
        column += 1
    wide, high = int((share - 8) * _EMU_PER_PIXEL), int((place.rows * place.row_points - 8) * _EMU_PER_POINT)
    marker = AnchorMarker(col=column, colOff=int(left * _EMU_PER_PIXEL), row=place.row - 1, rowOff=4 * _EMU_PER_POINT)
    chart.anchor = OneCellAnchor(_from=marker, ext=XDRPositiveSize2D(wide, high))
    page.sheet.add_chart(chart)


def _cells(page: Page, cells: tuple[int, int, int]) -> str:
    column, first, last = cells
    letter = get_column_letter(column)
    return f"{quote_sheetname(page.sheet.title)}!${letter}${first}:${letter}${last}"


def _categories(page: Page, cells: tuple[int, int, int]) -> AxDataSource:
    return AxDataSource(strRef=StrRef(f=_cells(page, cells)))


def _frame(chart: Any, page: Page, title: str, x: Axis, y: Axis) -> None:
    chart.title = clean(title)
    chart.title.tx.rich.p[0].pPr = ParagraphProperties(defRPr=_letters(page, 1100, True))
    for run in chart.title.tx.rich.p[0].r:
        run.rPr = _letters(page, 1100, True)
    chart.title.overlay = False
    for axis, wanted in ((chart.x_axis, x), (chart.y_axis, y)):
        axis.delete = False  # left to itself openpyxl says nothing, and Excel then draws no axis
        axis.title = clean(wanted.title) if wanted.title else None
        if axis.title is not None:
            axis.title.tx.rich.p[0].pPr = ParagraphProperties(defRPr=_letters(page, 900, False))
            for run in axis.title.tx.rich.p[0].r:
                run.rPr = _letters(page, 900, False)
            axis.title.overlay = False
        axis.number_format = wanted.format
        axis.numFmt.sourceLinked = False
        axis.majorTickMark = "out"
        axis.txPr = _text(page, 900)
        axis.graphicalProperties = GraphicalProperties(ln=LineProperties(solidFill=_GREY))
        axis.scaling.min, axis.scaling.max = wanted.least, wanted.most
        if wanted.doubling:
            axis.scaling.logBase = 2
    chart.x_axis.majorGridlines = None
    chart.y_axis.majorGridlines.spPr = GraphicalProperties(ln=LineProperties(solidFill="E3E7ED"))
    chart.layout = None
    chart.graphical_properties = GraphicalProperties(ln=LineProperties(solidFill="C9D1DC"))


def _text(page: Page, size: int) -> RichText:
    return RichText(p=[Paragraph(pPr=ParagraphProperties(defRPr=_letters(page, size, False)), endParaRPr=None)])


def _letters(page: Page, size: int, bold: bool) -> CharacterProperties:
    face = Font(typeface=page.cells.font)
    return CharacterProperties(sz=size, b=bold, latin=face, ea=face, solidFill="1B2430")
