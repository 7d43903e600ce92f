"""Providers: side by side, what was delivered of what was ordered, how even it is, and what it costs."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from auditor.finding import ServerResult
from auditor.judge.texts import N_
from auditor.report.costs import Kind, kinds, per_hour, per_pflop_hour
from auditor.report.sheets import Row, Table
from auditor.report.show import show
from auditor.report.view import HOURS_PER_MONTH, Report, Seen
from auditor.report.workbook import Book, Column, Page, charts
from auditor.runs import LOOSE

ORDER = 40
TITLE = N_("Providers")
EMPTY = N_("no server was audited")
NOTE = N_(
    "One row per provider, run, GPU model and currency. Costs are of the delivered, measured work; "
    "currencies are never added up or converted."
)
COLUMNS = (
    Column(N_("Provider"), "text", (16, 30)),
    Column(N_("Run"), "text", (18, 24), optional=True),
    Column(N_("GPU model"), "text", (16, 28)),
    Column(N_("Servers"), "int", (9, 10)),
    Column(N_("Accepted"), "int", (10, 11)),
    Column(N_("Rejected"), "int", (10, 11)),
    Column(N_("Share rejected"), "%", (10, 12), unit_in_title=False),
    Column(N_("GPUs ordered"), "int", (9, 11)),
    Column(N_("GPUs delivered"), "int", (10, 12)),
    Column(N_("bf16 a GPU, median"), "TFLOPS", (11, 13), optional=True),
    Column(N_("bf16 spread, largest against smallest"), "%", (13, 16), unit_in_title=False, optional=True),
    Column(N_("Memory read a GPU, median"), "GB/s", (12, 14), optional=True),
    Column(N_("All-reduce bus bandwidth, median"), "GB/s", (13, 15), optional=True),
    Column(N_("All-reduce, lowest"), "GB/s", (11, 13), optional=True),
    Column(N_("Price per hour, all servers"), "money", (12, 14), optional=True),
    Column(N_("Price per month, all servers"), "money", (12, 14), optional=True),
    Column(N_("Servers without a price"), "int", (10, 12), optional=True),
    Column(N_("Currency"), "text", (10, 11), optional=True),
    Column(N_("Cost per delivered PFLOP-hour"), "money", (13, 15), optional=True),
    Column(N_("Cost per PFLOP-hour, accepted servers"), "money", (14, 16), optional=True),
    Column(N_("Cost per GB/s of all-reduce and hour"), "money4", (13, 16), optional=True),
)
CHART_ROWS = 15
_TITLES = [column.title for column in COLUMNS]
_COST, _CURRENCY = _TITLES.index("Cost per delivered PFLOP-hour"), _TITLES.index("Currency")


class _Providers:
    def __init__(self, book: Book, report: Report) -> None:
        self.book, self.report = book, report

    def take(self, seen: Seen) -> None:
        """Providers are compared when all servers are known."""

    def end(self) -> None:
        """One row per provider and kind; bars when there are several to compare."""
        made = list(rows(self.report))
        if not made:
            return
        compared = len(made) > 1 and sum(row[_COST] is not None for row in made) > 1
        compared = compared and len({row[_CURRENCY] for row in made}) == 1  # no axis for two currencies
        table = Table(
            self.book,
            __name__,
            COLUMNS,
            note=NOTE,
            chart_rows=CHART_ROWS if compared else 0,
            preview=made,
        )
        table.fill(made)
        page = table.page
        if page is not None and compared:
            last = page.header_row + min(len(made), 12)
            currency = str(made[0][_CURRENCY] or "")
            page.at_end(lambda: self._draw(page, table, last, currency))

    def _draw(self, page: Page, table: Table, last: int, currency: str) -> None:
        texts, first = self.report.texts, page.header_row + 1
        titles = (N_("Cost per delivered PFLOP-hour"), N_("Share rejected"))
        formats = ("#,##0.00", "0%")
        for number, (title, form) in enumerate(zip(titles, formats, strict=True)):
            charts.bars(
                page,
                charts.Place(4, CHART_ROWS, number, 2),
                texts._(title) if number else f"{texts._(title)} ({currency})",
                charts.Axis("", form, least=0),
                (1, first, last),
                [(texts._(title), (table.column(title), first, last))],
            )


def start(book: Book, report: Report) -> _Providers:
    """In the order in which the runs were given."""
    return _Providers(book, report)


def rows(report: Report) -> Iterator[Row]:
    """One row per provider, run, model and currency."""
    for kind in kinds(report):
        run = kind.judgement.run
        yield (
            report.place(kind.judgement.inventory),
            None if run == LOOSE else show(run),
            kind.model,
            *_row(kind),
        )


def _row(kind: Kind) -> tuple[float | str | None, ...]:
    servers, accepted = kind.servers, kind.accepted
    rejected = sum(server.verdict == "reject" for server in servers)
    unpriced = sum(server.order is None or server.order.price_per_hour is None for server in servers)
    rates = [g.figures.get("matmul_bf16_sustained") for server in servers for g in server.gpus]
    bf16 = [rate for rate in rates if rate is not None]
    busbw = _figures(servers, "allreduce_busbw")
    price = per_hour(servers)
    return (
        len(servers),
        len(accepted),
        rejected,
        rejected / len(servers),
        sum(server.order.gpus for server in servers if server.order) or None,
        sum(len(server.gpus) for server in servers),
        _median(bf16),
        max(bf16) / min(bf16) - 1 if len(bf16) > 1 and min(bf16) > 0 else None,
        _median(_figures(servers, "memory_read")),
        _median(busbw),
        min(busbw, default=None),
        price,
        price * HOURS_PER_MONTH if price is not None else None,
        unpriced or None,
        kind.currency,
        per_pflop_hour(servers),
        per_pflop_hour(accepted),
        _median([s.cost.per_gb_per_second_hour for s in servers if s.cost and s.cost.per_gb_per_second_hour]),
    )


def _figures(servers: Sequence[ServerResult], name: str) -> list[float]:
    return [value for server in servers if (value := server.figures.get(name)) is not None]


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
