"""Summary: the page procurement reads: what was audited, what came of it, what it costs, what to choose."""

from __future__ import annotations

from auditor.finding import VERDICTS
from auditor.judge.texts import N_
from auditor.records import Value
from auditor.report.show import show
from auditor.report.view import Problem, Report, Seen
from auditor.report.workbook import Book, Column, Page, Put, charts

ORDER = 10
TITLE = N_("Summary")
EMPTY = N_("always there")
NOTE = N_("GPU server audit: what was delivered against what was ordered")
COLUMNS = (
    Column("", "text", (27, 27)),
    Column("", "int", (11, 11)),
    Column("", "%", (11, 11)),
    Column("", "wrap", (106, 106)),
)
_WIDE = len(COLUMNS)
_NAMES_SHOWN = 6
_VERDICT_POINTS = 29  # high enough for the chart beside them
_BAR_COLOURS = {"reject": "B3261E", "incomplete": "6B7280", "review": "C77700", "accept": "1B7F5C"}


class _Summary:
    def __init__(self, book: Book, report: Report) -> None:
        self.book, self.report = book, report

    def take(self, seen: Seen) -> None:
        """Summary speaks of the whole."""

    def end(self) -> None:
        """Write the page."""
        page = self.book.page(ORDER, TITLE, COLUMNS, NOTE, table=False, one_page=True)
        self._what(page)
        self._verdicts(page)
        self._problems(page)
        self._money(page)
        self._sign_off(page)

    def _row(self, page: Page, title: Put, value: Value, count: int | None = None) -> None:
        """A title, perhaps a count, and a sentence over the wide columns."""
        page.add([title, count, None, Put(value, "wrap")])

    def _line(self, page: Page, title: str, value: str) -> None:
        self._row(page, Put(self.report.texts._(title), "text", bold=True), value)

    def _section(self, page: Page, title: str) -> None:
        page.add([])
        page.add([Put(self.report.texts._(title), "text", "header", True)] + [Put("", "text", "header")] * (_WIDE - 1))

    def _what(self, page: Page) -> None:
        report, texts = self.report, self.report.texts
        self._section(page, N_("What was audited"))
        for part in report.parts:
            judgement = part.judgement
            count = len(judgement.servers)
            gpus = sum(len(server.gpus) for server in judgement.servers)
            value = texts._(
                N_("{count:int} of {of:int} servers of the inventory, {gpus:int} GPUs found; {start} to {end} (UTC)"),
                count=count,
                of=judgement.of_inventory or count,
                gpus=gpus,
                start=report.when(judgement.started),
                end=report.when(judgement.finished),
            )
            self._row(page, Put(show(judgement.inventory, 60), "text", bold=True), value)
        if not report.servers:
            self._line(page, N_("Servers"), texts._(N_("No server was audited: the inventory is empty.")))
        version = report.parts[0].judgement.version if report.parts else ""
        runs = ", ".join(show(part.judgement.run, 40) for part in report.parts)
        made = texts._(N_("auditor {version}, run {runs}; how stands on the sheet Method"), version=version, runs=runs)
        self._line(page, N_("Made by"), made)

    def _verdicts(self, page: Page) -> None:
        self._section(page, N_("Verdicts"))
        counts, total = self.report.verdicts(), len(self.report.servers)
        first = page.next_row
        for verdict in VERDICTS:
            meaning = self.report.texts._(VERDICT_MEANINGS[verdict])
            share = counts[verdict] / total if total else None
            page.add([Put(verdict, "verdict"), counts[verdict], share, Put(meaning, "wrap")], _VERDICT_POINTS)
        if total > 1:
            page.at_end(lambda: self._chart(page, first))

    def _chart(self, page: Page, first: int) -> None:
        title = self.report.texts._(N_("Servers by verdict"))
        charts.bars(
            page,
            charts.Place(first, len(VERDICTS), 3, 4, _VERDICT_POINTS),
            title,
            charts.Axis("", "#,##0", least=0),
            (1, first, first + len(VERDICTS) - 1),
            [(title, (2, first, first + len(VERDICTS) - 1))],
            [_BAR_COLOURS[verdict] for verdict in VERDICTS],
        )

    def _problems(self, page: Page) -> None:
        self._section(page, N_("The worst problems"))
        problems = self.report.problems()
        if not problems:
            self._line(page, N_("None"), self.report.texts._(N_("No server has a finding above information.")))
        for problem in problems:
            self._row(
                page, Put(problem.example.severity, "severity"), sentence(self.report, problem), len(problem.servers)
            )

    def _money(self, page: Page) -> None:
        report, texts = self.report, self.report.texts
        self._section(page, N_("Money"))
        stakes = (
            (N_("At stake a month"), N_("{money} for rejected servers"), ("reject",)),
            (
                N_("In question a month"),
                N_("{money} for servers to review or to audit again"),
                ("incomplete", "review"),
            ),
            (N_("Accepted a month"), N_("{money} for accepted servers"), ("accept",)),
        )
        for title, sentence_, verdicts in stakes:
            count = sum(report.verdicts()[verdict] for verdict in verdicts)
            money = texts._(sentence_, money=report.money_text(report.money(*verdicts)))
            self._row(page, Put(texts._(title), "text", bold=True), money, count)
        best = report.cheapest()
        for currency, (provider, server) in best.items():
            cost = server.cost
            value = texts._(
                N_("{server} of {provider}: {cost} per delivered PFLOP-hour (bf16)"),
                server=report.name(server),
                provider=show(provider),
                cost=texts.money(cost.per_pflop_hour or 0.0, currency) if cost else "",
            )
            self._line(page, N_("Cheapest good choice"), value)
        if not best:
            reason = N_("none: no accepted server has both a price and a measured bf16 rate")
            self._line(page, N_("Cheapest good choice"), texts._(reason))
        if len({s.order.currency for s in report.servers if s.order and s.order.currency}) > 1:
            note = N_("Amounts in different currencies stand side by side; they are never added up or converted.")
            self._line(page, N_("Currencies"), texts._(note))

    def _sign_off(self, page: Page) -> None:
        texts = self.report.texts
        self._section(page, N_("Sign-off"))
        for title in (N_("Decision"), N_("Name and date"), N_("Signature")):
            page.add([Put(texts._(title), "text", bold=True), *(Put("", "text") for _ in range(_WIDE - 1))], 26)


VERDICT_MEANINGS = {
    "reject": N_("do not pay before it is put right or replaced"),
    "incomplete": N_("a reading that the verdict needs is missing: repeat the audit"),
    "review": N_("usable, but something must be explained or put right before paying in full"),
    "accept": N_("as ordered, as far as it was measured"),
}


def start(book: Book, report: Report) -> _Summary:
    """Written when everything is known."""
    return _Summary(book, report)


def sentence(report: Report, problem: Problem) -> str:
    """One problem in a sentence: how many servers, what, and the first example."""
    said, texts = report.rendered(problem.example), report.texts
    names = ", ".join(show(name, 40) for name in problem.servers[:_NAMES_SHOWN])
    if len(problem.servers) > _NAMES_SHOWN:
        names += " …"
    return texts._(
        N_("{title} ({count}: {names}). Seen: {observed}. Expected: {expected}."),
        title=said.title,
        count=texts.n(N_("{count:int} server"), N_("{count:int} servers"), len(problem.servers)),
        names=names,
        observed=said.observed.rstrip(".。"),
        expected=said.expected.rstrip(".。"),
    )
