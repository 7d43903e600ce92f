"""Collectives: bandwidth against message size, as a table and as curves beside what others published."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from auditor.catalog.achievable import low
from auditor.judge.texts import N_
from auditor.records import Reading
from auditor.report import published
from auditor.report.sheets import Row, Table
from auditor.report.show import show
from auditor.report.view import Report, Seen
from auditor.report.workbook import Book, Column, Page, charts

ORDER = 70
TITLE = N_("Collectives")
EMPTY = N_("no collective was measured")
NOTE = N_(
    "Algorithm bandwidth is bytes over seconds; bus bandwidth is what each link carried, "
    "comparable between counts of GPUs."
)
COLUMNS = (
    Column(N_("Server"), "text", (16, 46)),
    Column(N_("Operation"), "text", (14, 20)),
    Column(N_("Ranks"), "int", (8, 9)),
    Column(N_("Type"), "text", (10, 12)),
    Column(N_("Message size"), "MB", (10, 13)),
    Column(N_("Algorithm bandwidth"), "GB/s", (12, 15)),
    Column(N_("Bus bandwidth"), "GB/s", (12, 15)),
    Column(N_("Spread of repeats"), "%", (10, 13), unit_in_title=False),
    Column(N_("Source"), "wrap", (40, 40)),
)
CHART_ROWS = 16
_MOST_LINES = 6
_ALGBW = ("collectives_algbw_bytes_per_second", "nccl_tests_algbw_bytes_per_second")
_SIZE, _BUS = 5, 7


class _Collectives(Table):
    def __init__(self, book: Book, report: Report) -> None:
        chosen = report.shown_in_charts(lambda s: s.figures.get("allreduce_busbw") is not None, _MOST_LINES)
        super().__init__(
            book,
            __name__,
            COLUMNS,
            lambda seen: rows(report, seen),
            note=NOTE,
            chart_rows=CHART_ROWS if chosen else 0,
        )
        self.report = report
        self.chosen = {id(server): place for place, server in enumerate(chosen)}
        self.drawn: list[tuple[int, charts.Line]] = []
        self.kinds: dict[tuple[str, int], None] = {}
        self.sizes: set[float] = set()

    def take(self, seen: Seen) -> None:
        """Add the server's rows, and remember where the all-reduce of a chosen one stands."""
        spans: dict[tuple[str, int], list[int]] = defaultdict(list)
        for row in self.rows(seen):
            self.add(row)
            page = self.page
            if page is not None and row[1] == "all_reduce" and isinstance(row[2], int) and row[6] is not None:
                spans[str(row[3]), row[2]].append(page.next_row - 1)
                self.sizes.add(float(row[4]) if isinstance(row[4], int | float) else 1e6)
        if id(seen.server) in self.chosen and spans:
            best = max(spans, key=lambda key: (key[1], key[0] == "float32"))
            span = spans[best]
            if len(span) > 1 and span[-1] - span[0] == len(span) - 1:
                line = _line(self.report.name(seen.server), span[0], span[-1])
                self.drawn.append((self.chosen[id(seen.server)], line))
        if seen.server.model and spans:
            self.kinds[seen.server.model, len(seen.server.gpus)] = None

    def end(self) -> None:
        """What others published for these models goes below, and as grey lines into the chart."""
        page = self.page
        if page is None:
            return
        for model, gpus in list(self.kinds)[:2]:
            for name, found in published.rows(model, gpus):
                first = page.next_row
                for size, row in found:
                    cited = published.citation(row)
                    label = self.report.texts._(name, model=model, gpus=gpus)
                    algbw = row.algbw_gb_s * 1e9 if row.algbw_gb_s else None
                    figures = (algbw, low(row.busbw_gb_s) * 1e9)
                    self.add((label, "all_reduce", gpus, row.element, size, *figures, None, show(cited, 400)))
                self.drawn.append((_MOST_LINES, _line(label, first, page.next_row - 1, reference=True)))
        if self.layout.chart_rows:
            page.at_end(lambda: self._draw(page))

    @property
    def ends(self) -> tuple[float, float]:
        """The powers of two, in MB, that all drawn sizes lie between."""
        shown = [size / 1e6 for size in self.sizes] or [1.0, 1024.0]
        return 2.0 ** math.floor(math.log2(min(shown))), max(1024.0, 2.0 ** math.ceil(math.log2(max(shown))))

    def _draw(self, page: Page) -> None:
        texts = self.report.texts
        charts.lines(
            page,
            charts.Place(4, CHART_ROWS),
            texts._(N_("All-reduce: bus bandwidth by message size")),
            charts.Axis(texts._(N_("Message size (MB)")), "0", *self.ends, doubling=True),
            charts.Axis(texts._(N_("Bus bandwidth (GB/s)")), least=0),
            [line for _, line in sorted(self.drawn, key=lambda one: one[0])],
        )


def start(book: Book, report: Report) -> _Collectives:
    """Every measured size of every operation."""
    return _Collectives(book, report)


def rows(report: Report, seen: Seen) -> Iterator[Row]:
    """A server's collectives by operation, ranks and size."""
    if seen.record is None:
        return
    found: dict[tuple[str, str, str, int, str, float], dict[str, Reading]] = {}
    for reading in seen.record.readings:
        for metric in _ALGBW:
            stem = metric.split("algbw", 1)[0]
            if reading.metric in (metric, f"{stem}busbw_bytes_per_second"):
                which = "busbw" if "busbw" in reading.metric else "algbw"
                found.setdefault(_key(stem, reading), {})[which] = reading
    name = report.name(seen.server)
    for key in sorted(found, key=lambda key: (key[0], key[1], key[2] != "all_reduce", *key[2:])):
        _, place, operation, ranks, dtype, size = key
        algbw, busbw = found[key].get("algbw"), found[key].get("busbw")
        one = algbw or busbw
        yield (
            name,
            show(f"{operation} ({place})" if place else operation),
            ranks or None,
            show(dtype),
            size or None,
            _figure(algbw),
            _figure(busbw),
            one.spread if one else None,
            show(one.source) if one else None,
        )


def _line(name: str, first: int, last: int, reference: bool = False) -> charts.Line:
    return charts.Line(name, (_SIZE, first, last), (_BUS, first, last), reference)


def _key(stem: str, reading: Reading) -> tuple[str, str, str, int, str, float]:
    with_ = reading.conditions
    ranks, size = with_.get("ranks", 0), with_.get("bytes", 0)
    return (
        stem,
        str(with_.get("place", "")),
        str(with_.get("op", "")),
        int(ranks) if isinstance(ranks, int | float) else 0,
        str(with_.get("dtype", "")),
        float(size) if isinstance(size, int | float) else 0.0,
    )


def _figure(reading: Reading | None) -> float | None:
    value = reading.value if reading else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
