"""Ranking: the servers that passed, by use; below them those that could not be compared, then those that failed."""

from __future__ import annotations

from auditor.finding import USES, ServerResult
from auditor.judge.texts import N_
from auditor.report.sheets import Row, Table
from auditor.report.show import show
from auditor.report.view import HOURS_PER_MONTH, Report, Seen, worst_first
from auditor.report.wording import worded
from auditor.report.words import reason_text
from auditor.report.workbook import Book, Column

ORDER = 20
_PASSING = ("accept", "review")
TITLE = N_("Ranking")
EMPTY = N_("no server was audited")
NOTE = N_(
    "Servers that pass, best first for the use they were compared in, then those that pass and could not be compared; "
    "rejected and incomplete servers stand below, unscored. Ranks within the tie line of the policy are shared."
)
COLUMNS = (
    Column(N_("Server"), "text", (16, 34)),
    Column(N_("Provider"), "text", (12, 24), optional=True),
    Column(N_("Verdict"), "verdict", (13, 18)),
    Column(N_("GPU model"), "text", (14, 28), optional=True),
    Column(N_("GPUs"), "int", (7, 9), optional=True),
    Column(N_("Rank: training on all GPUs"), "int", (12, 14), optional=True),
    Column(N_("Rank: training on one GPU"), "int", (12, 14), optional=True),
    Column(N_("Rank: inference"), "int", (11, 14), optional=True),
    Column(N_("Score: training on all GPUs"), "%", (12, 14), 1.0, unit_in_title=False, optional=True),
    Column(N_("bf16 delivered, all GPUs"), "PFLOPS", (13, 16), optional=True),
    Column(N_("Slowest GPU against the median"), "%", (13, 16), unit_in_title=False, optional=True),
    Column(N_("All-reduce bus bandwidth"), "GB/s", (13, 16), optional=True),
    Column(N_("Price per hour"), "money", (11, 14), optional=True),
    Column(N_("Price per month"), "money", (11, 14), optional=True),
    Column(N_("Currency"), "text", (9, 11), optional=True),
    Column(N_("Cost per delivered PFLOP-hour"), "money", (14, 16), optional=True),
    Column(N_("Cost per GB/s of all-reduce and hour"), "money4", (15, 17), optional=True),
    Column(N_("Remark"), "wrap", (36, 36)),
)


class _Ranking:
    def __init__(self, book: Book, report: Report) -> None:
        self.book, self.report = book, report

    def take(self, seen: Seen) -> None:
        """Ranking needs all servers before its first row."""

    def end(self) -> None:
        """Best first, then who was not scored; who failed stands below, worst first."""
        passing = [server for server in self.report.servers if server.verdict in _PASSING]
        failing = worst_first(server for server in self.report.servers if server.verdict not in _PASSING)
        made = [row(self.report, server) for server in [*sorted(passing, key=_standing), *failing]]
        table = Table(self.book, __name__, COLUMNS, note=NOTE, preview=made)
        table.fill(made)


def start(book: Book, report: Report) -> _Ranking:
    """The ranking of all runs; ranks count within each provider's run."""
    return _Ranking(book, report)


def row(report: Report, server: ServerResult) -> Row:
    """One server's line."""
    scores = {score.use: score for score in server.scores}
    main = scores.get(USES[0])
    ranks = [scores[use].rank if use in scores else None for use in USES]
    figures, cost, order = server.figures, server.cost, server.order
    price = order.price_per_hour if order else None
    return (
        report.name(server),
        report.provider_of(server) if report.several else None,
        server.verdict,
        show(server.model or ""),
        len(server.gpus) or None,
        *ranks,
        main.value if main else None,
        figures.get("flops_delivered"),
        figures.get("slowest_ratio"),
        figures.get("allreduce_busbw"),
        price,
        price * HOURS_PER_MONTH if price is not None else None,
        show(order.currency or "") if order else None,
        cost.per_pflop_hour if cost else None,
        cost.per_gb_per_second_hour if cost else None,
        _remark(report, server),
    )


def _standing(server: ServerResult) -> tuple[list[int], int, str]:
    """By its ranks; what has none stands last, accepted before review."""
    ranks = [min((s.rank for s in server.scores if s.use == use and s.rank), default=10**9) for use in USES]
    return ranks, _PASSING.index(server.verdict), server.name


def _remark(report: Report, server: ServerResult) -> str:
    """Why there is no rank, or with whom it is shared."""
    texts = report.texts
    if server.reason:
        return reason_text(texts, server.reason)
    if server.verdict in ("reject", "incomplete"):
        roots = [report.rendered(finding).title for finding in server.roots[:2]]
        return texts.strung(dict.fromkeys(roots))
    remarks = []
    main = next((score for score in server.scores if score.rank is not None), None)
    if main and main.tied_with:
        remarks.append(texts._(N_("level with {names}"), names=texts.listed(show(n, 40) for n in main.tied_with[:4])))
    apart = next((score.not_comparable for score in server.scores if score.not_comparable), None)
    if apart:
        remarks.append(worded(texts, apart))
    return texts.strung(remarks)
