"""Thermal: heat, power and clocks of every GPU under load, and their course over time for the worst servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from auditor.finding import ServerResult
from auditor.judge.texts import N_
from auditor.judge.view import ServerView
from auditor.records import Record
from auditor.report.sheets import Row, Table
from auditor.report.show import show
from auditor.report.units import UNITS
from auditor.report.view import Report, Seen
from auditor.report.workbook import Beside, Book, Column, Page, charts

ORDER = 90
TITLE = N_("Thermal")
EMPTY = N_("no temperature was read under load")
NOTE = N_("Under the load of the thermal probe. The charts show the servers with findings first, then a good one.")
COLUMNS = (
    Column(N_("Server"), "text", (16, 34)),
    Column(N_("GPU"), "text", (8, 9)),
    Column(N_("Temperature at start"), "°C", (11, 13)),
    Column(N_("Hottest"), "°C", (9, 11)),
    Column(N_("Steady"), "°C", (9, 11)),
    Column(N_("Hottest memory"), "°C", (10, 11), optional=True),
    Column(N_("Below slow-down threshold"), "°C", (11, 13), optional=True),
    Column(N_("Mean power"), "W", (9, 11)),
    Column(N_("Highest power"), "W", (9, 11), optional=True),
    Column(N_("Mean SM clock"), "MHz", (9, 12)),
    Column(N_("Lowest SM clock"), "MHz", (9, 12), optional=True),
    Column(N_("Time to steady"), "s", (9, 11), optional=True),
    Column(N_("Rate at the end against the start"), "%", (12, 14), unit_in_title=False, optional=True),
    Column(N_("Power cap active"), "%", (10, 12), unit_in_title=False, optional=True),
    Column(N_("Thermal slow-down active"), "%", (11, 13), unit_in_title=False, optional=True),
    Column(N_("Power brake active"), "%", (10, 12), unit_in_title=False, optional=True),
    Column(N_("Load"), "s", (8, 10), optional=True),
)
CHART_ROWS = 17
_MOST_SERVERS = 2
_MOST_POINTS = 120
_MOST_LINES = 8
_COURSES = (
    ("thermal_gpu_celsius", N_("Temperature of the GPUs"), "°C", None),
    ("thermal_watts", N_("Power of the GPUs"), "W", 0.0),
    ("thermal_sm_clock_hertz", N_("SM clock of the GPUs"), "MHz", None),
)


class _Thermal:
    """Rows wait for the end: beside them, in the same rows of the sheet, stand the figures of the charts."""

    def __init__(self, book: Book, report: Report) -> None:
        self.book, self.report = book, report
        self.chosen = {id(s): place for place, s in enumerate(report.shown_in_charts(_has_heat, _MOST_SERVERS))}
        self.rows: list[Row] = []
        self.courses: list[tuple[int, str, Record]] = []

    def take(self, seen: Seen) -> None:
        """Keep the server's rows, and the record of the few that are drawn."""
        self.rows.extend(rows(self.report, seen))
        if seen.record is not None and id(seen.server) in self.chosen and seen.record.series:
            self.courses.append((id(seen.server), self.report.name(seen.server), seen.record))

    def end(self) -> None:
        """Charts on top, the table below, the figures of the charts to the right of it."""
        if not self.rows:
            return
        self.courses.sort(key=lambda course: self.chosen[course[0]])
        drawn = [course for _, name, record in self.courses for course in courses(self.report, name, record)]
        table = Table(
            self.book,
            __name__,
            COLUMNS,
            note=NOTE,
            frozen=2,
            chart_rows=CHART_ROWS * len({course.server for course in drawn}),
            preview=self.rows,
            beside=(lambda columns: _beside(columns + 2, drawn)) if drawn else None,
        )
        table.fill(self.rows)
        page = table.page
        if page is not None and drawn:
            page.at_end(lambda: self._draw(page, len(table.columns) + 2, drawn))

    def _draw(self, page: Page, column: int, drawn: list[Course]) -> None:
        texts = self.report.texts
        first = page.header_row + 1
        for place, server in enumerate(dict.fromkeys(course.server for course in drawn)):
            for number, (metric, title, unit, least) in enumerate(_COURSES):
                lines = [
                    charts.Line(c.subject, (column + 2 * k, first, last), (column + 2 * k + 1, first, last))
                    for k, c in enumerate(drawn)
                    if (c.server, c.metric) == (server, metric) and (last := first + len(c.points) - 1) > first
                ]
                charts.lines(
                    page,
                    charts.Place(4 + CHART_ROWS * place, CHART_ROWS, number, len(_COURSES)),
                    f"{server} · {texts._(title)} ({unit})",
                    charts.Axis(texts._(N_("Time under load (s)")), least=0),
                    charts.Axis("", "#,##0", least=least),
                    lines,
                )


@dataclass(frozen=True)
class Course:
    """One GPU's figure over time, as drawn: seconds and shown values."""

    server: str
    metric: str
    subject: str
    title: str
    points: tuple[tuple[float, float | None], ...]


def start(book: Book, report: Report) -> _Thermal:
    """In the order of the inventory, then of the GPU's index."""
    return _Thermal(book, report)


def rows(report: Report, seen: Seen) -> Iterator[Row]:
    """The GPUs of one server that were under load."""
    if seen.record is None or not _has_heat(seen.server):
        return
    view = ServerView(seen.record)
    name = report.name(seen.server)
    for gpu in view.gpus:
        yield (name, show(gpu), *_figures(view, gpu))


def _figures(view: ServerView, gpu: str) -> Iterator[float | None]:
    heat, number = "thermal_gpu_celsius", view.number
    first = number("thermal_flops_per_second", gpu, window="first")
    last = number("thermal_flops_per_second", gpu, window="last")
    yield number(heat, gpu, stat="start")
    yield number(heat, gpu, stat="max")
    yield number(heat, gpu, stat="steady")
    yield number("thermal_memory_celsius", gpu, stat="max")
    yield number("thermal_slowdown_margin_celsius", gpu)
    yield number("thermal_watts", gpu, stat="mean")
    yield number("thermal_watts", gpu, stat="max")
    yield number("thermal_sm_clock_hertz", gpu, stat="mean")
    yield number("thermal_sm_clock_hertz", gpu, stat="min")
    yield number("thermal_steady_seconds", gpu)
    yield last / first if first and last is not None else None
    yield _reasons(view, gpu, "sw_power_cap")
    yield _reasons(view, gpu, "sw_thermal", "hw_thermal")
    yield _reasons(view, gpu, "hw_power_brake")
    yield number("thermal_window_seconds", gpu)


def _reasons(view: ServerView, gpu: str, *reasons: str) -> float | None:
    shares = [view.number("thermal_event_reason_ratio", gpu, reason=reason) for reason in reasons]
    known = [share for share in shares if share is not None]
    return max(known) if known else None


def courses(report: Report, name: str, record: Record) -> Iterator[Course]:
    """The series that are drawn, thinned to what a chart can show."""
    for metric, title, unit, _ in _COURSES:
        found = [series for series in record.series if series.metric == metric][:_MOST_LINES]
        for series in found:
            step = max(1, -(-len(series.t) // _MOST_POINTS))
            factor = UNITS[unit].factor
            pairs = zip(series.t[::step], series.v[::step], strict=True)
            points = tuple((round(t, 1), None if v is None else round(v / factor, 1)) for t, v in pairs)
            heading = f"{name} {series.subject} {report.texts._(title)} ({unit})"
            yield Course(name, metric, show(series.subject), show(heading), points)


def _beside(column: int, drawn: list[Course]) -> Beside:
    titles = [title for course in drawn for title in (f"{course.title}: s", course.title)]
    longest = max(len(course.points) for course in drawn)
    blank = (None, None)
    table = [
        [value for c in drawn for value in (c.points[line] if line < len(c.points) else blank)]
        for line in range(longest)
    ]
    return Beside(column, titles, table)


def _has_heat(server: ServerResult) -> bool:
    return server.figures.get("celsius_max") is not None
