"""Scaling: how much faster training gets with every GPU added, beside the ideal."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import ServerResult
from auditor.judge.texts import N_
from auditor.judge.view import ServerView
from auditor.report.sheets import Row, Table
from auditor.report.view import Report, Seen
from auditor.report.workbook import Book, Column, Page, charts

ORDER = 100
TITLE = N_("Scaling")
EMPTY = N_("no training step was measured")
NOTE = N_("The same training step on 1, 2, 4 … GPUs. Efficiency is the speed-up over the count of GPUs.")
COLUMNS = (
    Column(N_("Server"), "text", (18, 34)),
    Column(N_("GPUs used"), "int", (8, 10)),
    Column(N_("Tokens per second"), "tokens/s", (12, 15)),
    Column(N_("Speed-up"), "×", (10, 12)),
    Column(N_("Ideal"), "×", (8, 10)),
    Column(N_("Efficiency"), "%", (11, 13), 1.0, unit_in_title=False),
    Column(N_("Step, median"), "ms", (10, 13), optional=True),
    Column(N_("Step, 99th percentile"), "ms", (11, 13), optional=True),
    Column(N_("Model FLOP/s of the measured rate"), "%", (13, 16), unit_in_title=False, optional=True),
    Column(N_("Time spent communicating"), "%", (13, 16), unit_in_title=False, optional=True),
    Column(N_("Peak memory of the fullest GPU"), "GiB", (12, 15), optional=True),
    Column(N_("Estimated memory"), "GiB", (11, 14), optional=True),
)
CHART_ROWS = 16
_MOST_LINES = 6
_RANKS, _SPEEDUP, _IDEAL = 2, 4, 5


class _Scaling:
    """Rows wait for the end: only then it is known which columns have a figure."""

    def __init__(self, book: Book, report: Report) -> None:
        self.book, self.report = book, report
        self.chosen = {id(s): place for place, s in enumerate(report.shown_in_charts(_scales, _MOST_LINES))}
        self.rows: list[Row] = []
        self.spans: list[tuple[int, str, int, int]] = []

    def take(self, seen: Seen) -> None:
        """Keep the server's rows."""
        first = len(self.rows)
        self.rows.extend(rows(self.report, seen))
        if id(seen.server) in self.chosen and len(self.rows) - first > 1:
            place = self.chosen[id(seen.server)]
            self.spans.append((place, self.report.name(seen.server), first, len(self.rows) - 1))

    def end(self) -> None:
        """The chart on top, the table below."""
        if not self.rows:
            return
        table = Table(
            self.book,
            __name__,
            COLUMNS,
            note=NOTE,
            chart_rows=CHART_ROWS if self.spans else 0,
            preview=self.rows,
        )
        table.fill(self.rows)
        page = table.page
        if page is not None and self.spans:
            page.at_end(lambda: self._draw(page))

    def _draw(self, page: Page) -> None:
        texts, top = self.report.texts, page.header_row + 1
        drawn = [
            charts.Line(name, (_RANKS, top + first, top + last), (_SPEEDUP, top + first, top + last))
            for _, name, first, last in sorted(self.spans)
        ]
        _, _, first, last = max(self.spans, key=lambda span: span[3] - span[2])
        ideal = texts._(N_("Ideal"))
        drawn.append(charts.Line(ideal, (_RANKS, top + first, top + last), (_IDEAL, top + first, top + last), True))
        charts.lines(
            page,
            charts.Place(4, CHART_ROWS),
            texts._(N_("Training speed-up by GPUs used")),
            charts.Axis(texts._(N_("GPUs used")), least=0),
            charts.Axis(texts._(N_("Speed-up")), least=0),
            drawn,
        )


def start(book: Book, report: Report) -> _Scaling:
    """In the order of the inventory."""
    return _Scaling(book, report)


def rows(report: Report, seen: Seen) -> Iterator[Row]:
    """A server's training steps by count of GPUs."""
    if seen.record is None or not _scales(seen.server):
        return
    view = ServerView(seen.record)
    speedups = {
        int(reading.conditions["ranks"]): float(reading.value or 0)
        for reading in view.all("training_step_speedup_ratio", "server")
        if isinstance(reading.conditions.get("ranks"), int) and isinstance(reading.value, int | float)
    }
    for ranks in sorted(speedups):
        number = view.number
        yield (
            report.name(seen.server),
            ranks,
            number("training_step_tokens_per_second", ranks=ranks),
            speedups[ranks],
            ranks,
            speedups[ranks] / ranks if ranks else None,
            number("training_step_seconds", ranks=ranks, stat="p50"),
            number("training_step_seconds", ranks=ranks, stat="p99"),
            number("training_step_mfu_ratio", ranks=ranks),
            number("training_step_communication_ratio", ranks=ranks),
            number("training_step_memory_bytes", ranks=ranks),
            number("training_step_memory_estimate_bytes", ranks=ranks),
        )


def _scales(server: ServerResult) -> bool:
    return server.figures.get("training_speedup") is not None
