"""Providers: side by side, what was delivered of what was ordered, how even it is, and what it costs."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence

from auditor.finding import ServerResult
from auditor.judge.texts import N_
from auditor.report.sheets import Row, Table
from auditor.report.show import show
from auditor.report.view import Report, Seen
from auditor.report.workbook import Book, Column, Page, charts

ORDER = 40
TITLE = N_("Providers")
EMPTY = N_("no server was audited")
NOTE = N_(
    "One row per provider, run, GPU model and currency. Costs are of the delivered, measured work; "
    "currencies are never added up or converted."
)
COLUMNS = (
    Column(N_("Provider"), "text", (16, 30)),
    Column(N_("Run"), "text", (18, 24)),
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
    Column(N_("Servers without a price"), "int", (10, 12), optional=True),
    Column(N_("Currency"), "text", (10, 11), optional=True),
    Column(N_("Cost per delivered PFLOP-hour"), "money", (13, 15), optional=True),
    Column(N_("Cost per PFLOP-hour, accepted servers"), "money", (14, 16), optional=True),
    Column(N_("Cost per GB/s of all-reduce and hour"), "money4", (13, 16), optional=True),
)
CHART_ROWS = 15


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
        compared = len(made) > 1 and sum(row[17] is not None for row in made) > 1
        table = Table(
            self.book,
            __name__,
            COLUMNS,
            lambda seen: (),
            note=NOTE,
            chart_rows=CHART_ROWS if compared else 0,
            preview=made,
        )
        for row in made:
            table.add(row)
        page = table.page
        if page is not None and compared:
            last = page.header_row + min(len(made), 12)
            page.at_end(lambda: self._draw(page, table, last))

    def _draw(self, page: Page, table: Table, last: int) -> None:
        texts, first = self.report.texts, page.header_row + 1
        titles = (N_("Cost per delivered PFLOP-hour"), N_("Share rejected"))
        formats = ("#,##0.00", "0%")
        for number, (title, form) in enumerate(zip(titles, formats, strict=True)):
            charts.bars(
                page,
                charts.Place(4, CHART_ROWS, number, 2),
                texts._(title),
                charts.Axis("", form, least=0),
                (1, first, last),
                [(texts._(title), (table.column(title), first, last))],
            )


def start(book: Book, report: Report) -> _Providers:
    """In the order in which the runs were given."""
    return _Providers(book, report)


def rows(report: Report) -> Iterator[Row]:
    """One row per provider, run, model and currency."""
    for part in report.parts:
        kinds: dict[tuple[str, str], list[ServerResult]] = defaultdict(list)
        for server in part.judgement.servers:
            kinds[_model(report, server), _currency(server)].append(server)
        for (model, currency), servers in sorted(kinds.items()):
            yield (show(part.judgement.inventory), show(part.judgement.run), model, *_row(servers, currency))


def _model(report: Report, server: ServerResult) -> str:
    """What was delivered; of a server that showed nothing, what was ordered."""
    ordered = server.order.gpu if server.order and server.order.gpu else None
    if server.model or not ordered:
        return show(server.model or report.texts._(N_("no GPU")))
    same = {s.model for s in report.servers if s.model and s.order and s.order.gpu == ordered}
    return show(same.pop() if len(same) == 1 else ordered)


def _currency(server: ServerResult) -> str:
    return show(server.order.currency or "") if server.order else ""


def _row(servers: Sequence[ServerResult], currency: str) -> tuple[float | str | None, ...]:
    accepted = [server for server in servers if server.verdict == "accept"]
    rejected = sum(server.verdict == "reject" for server in servers)
    priced = [s for s in servers if s.order and s.order.price_per_hour is not None]
    rates = [g.figures.get("matmul_bf16_sustained") for server in servers for g in server.gpus]
    bf16 = [rate for rate in rates if rate is not None]
    busbw = _figures(servers, "allreduce_busbw")
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
        sum(s.order.price_per_hour or 0 for s in priced if s.order) if priced else None,
        len(servers) - len(priced) or None,
        currency,
        per_pflop_hour(servers),
        per_pflop_hour(accepted),
        _median([s.cost.per_gb_per_second_hour for s in servers if s.cost and s.cost.per_gb_per_second_hour]),
    )


def per_pflop_hour(servers: Sequence[ServerResult]) -> float | None:
    """All their prices over all they deliver: what a PFLOP-hour costs from this provider, one currency."""
    both = [(s.cost.price_per_hour, s.figures.get("flops_delivered")) for s in servers if s.cost]
    counted = [(price, flops) for price, flops in both if flops]
    delivered = sum(flops for _, flops in counted)
    return sum(price for price, _ in counted) / (delivered / 1e15) if delivered else None


def _figures(servers: Sequence[ServerResult], name: str) -> list[float]:
    return [value for server in servers if (value := server.figures.get(name)) is not None]


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
