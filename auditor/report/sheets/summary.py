"""Summary: the page procurement reads: what was audited, what came of it, what it costs, what to choose."""

from __future__ import annotations

from auditor.finding import VERDICTS
from auditor.judge.texts import N_
from auditor.records import Value
from auditor.report.show import show
from auditor.report.units import digits
from auditor.report.view import Problem, Report, Seen
from auditor.report.workbook import Book, Column, Page, Put

ORDER = 10
TITLE = N_("Summary")
EMPTY = N_("always there")
NOTE = N_("GPU server audit: what was delivered against what was ordered")
COLUMNS = (Column("", "text", (30, 30)), Column("", "wrap", (14, 14)), Column("", "wrap", (92, 92)))
_NAMES_SHOWN = 6


class _Summary:
    def __init__(self, book: Book, report: Report) -> None:
        self.book, self.report = book, report

    def take(self, seen: Seen) -> None:
        """Summary speaks of the whole."""

    def end(self) -> None:
        """Write the page."""
        page = self.book.page(ORDER, TITLE, COLUMNS, NOTE, table=False)
        if self.report.warning:
            page.add([Put(self.report.warning, "plain", "review", True)])
        self._what(page)
        self._verdicts(page)
        self._problems(page)
        self._money(page)
        self._sign_off(page)

    def _line(self, page: Page, title: str, value: Value, **parameters: Value) -> None:
        texts = self.report.texts
        shown = texts._(value, **parameters) if isinstance(value, str) and parameters else value
        page.add([Put(texts._(title), "text", bold=True), None, Put(shown, "wrap")])

    def _section(self, page: Page, title: str) -> None:
        page.add([])
        page.add([Put(self.report.texts._(title), "text", "header")] + [Put("", "text", "header")] * 2)

    def _what(self, page: Page) -> None:
        texts, report = self.report.texts, self.report
        self._section(page, N_("What was audited"))
        for part in report.parts:
            judgement = part.judgement
            of = judgement.of_inventory or len(judgement.servers)
            self._line(
                page,
                N_("Provider"),
                N_("{inventory}: {count:int} of {of:int} servers of the inventory, run {run}, {start} to {end} (UTC)"),
                inventory=show(judgement.inventory),
                count=len(judgement.servers),
                of=of,
                run=show(judgement.run),
                start=show(judgement.started or "?", 40),
                end=show(judgement.finished or "?", 40),
            )
        version = report.parts[0].judgement.version if report.parts else ""
        self._line(page, N_("Made by"), f"auditor {version}")
        gpus = sum(len(server.gpus) for server in report.servers)
        self._line(page, N_("GPUs found"), digits(gpus))
        texts._(TITLE)

    def _verdicts(self, page: Page) -> None:
        self._section(page, N_("Verdicts"))
        counts, total = self.report.verdicts(), len(self.report.servers)
        for verdict in VERDICTS:
            meaning = self.report.texts._(VERDICT_MEANINGS[verdict])
            share = f"{counts[verdict]:,} / {total:,}"
            page.add([Put(verdict, "verdict"), Put(share, "text"), Put(meaning, "wrap")])

    def _problems(self, page: Page) -> None:
        self._section(page, N_("The worst problems"))
        problems = self.report.problems()
        if not problems:
            self._line(page, N_("None"), self.report.texts._(N_("No server has a finding above information.")))
        for problem in problems:
            page.add([Put(problem.example.severity, "severity"), None, Put(sentence(self.report, problem), "wrap")])

    def _money(self, page: Page) -> None:
        report, texts = self.report, self.report.texts
        self._section(page, N_("Money"))
        self._line(page, N_("At stake per month, rejected"), report.money_text(report.money("reject")))
        self._line(page, N_("In question per month"), report.money_text(report.money("incomplete", "review")))
        self._line(page, N_("Accepted per month"), report.money_text(report.money("accept")))
        best = report.cheapest()
        for currency, (provider, server) in best.items():
            cost = server.cost
            self._line(
                page,
                N_("Cheapest good choice"),
                N_("{server} of {provider}: {cost} per delivered PFLOP-hour (bf16)"),
                server=report.name(server),
                provider=show(provider),
                cost=texts.money(cost.per_pflop_hour or 0.0, currency) if cost else "",
            )
        if not best:
            reason = N_("none: no accepted server has both a price and a measured bf16 rate")
            self._line(page, N_("Cheapest good choice"), texts._(reason))

    def _sign_off(self, page: Page) -> None:
        self._section(page, N_("Sign-off"))
        for title in (N_("Decision"), N_("Name"), N_("Date"), N_("Signature")):
            page.add([Put(self.report.texts._(title), "text", bold=True), Put("", "wrap"), Put("", "wrap")], 24)


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
