"""Summary: the page procurement reads: what was audited, what came of it, what it costs, what to choose."""

from __future__ import annotations

from auditor.finding import VERDICTS
from auditor.judge.texts import N_
from auditor.report.summary import VERDICT_MEANINGS, money_lines, sentence, what_was_audited
from auditor.report.view import Report, Seen
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
        self._section(page, N_("What was audited"))
        for title, text in what_was_audited(self.report):
            self._row(page, Put(title, "text", bold=True), text)
        self._verdicts(page)
        self._problems(page)
        self._section(page, N_("Money"))
        for title, text in money_lines(self.report):
            self._row(page, Put(title, "text", bold=True), text)
        self._sign_off(page)

    def _row(self, page: Page, title: Put, value: str, count: int | None = None) -> None:
        """A title, perhaps a count, and a sentence in the wide column."""
        page.add([title, count, None, Put(value, "wrap")])

    def _section(self, page: Page, title: str) -> None:
        page.add([])
        page.add([Put(self.report.texts._(title), "text", "header", True)] + [Put("", "text", "header")] * (_WIDE - 1))

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
        title, last = self.report.texts._(N_("Servers by verdict")), first + len(VERDICTS) - 1
        charts.bars(
            page,
            charts.Place(first, len(VERDICTS), 3, 4, _VERDICT_POINTS),
            title,
            charts.Axis("", "#,##0", least=0),
            (1, first, last),
            [(title, (2, first, last))],
            [_BAR_COLOURS[verdict] for verdict in VERDICTS],
        )

    def _problems(self, page: Page) -> None:
        self._section(page, N_("The worst problems"))
        problems = self.report.problems()
        if not problems:
            none, why = N_("None"), N_("No server has a finding above information.")
            self._row(page, Put(self.report.texts._(none), "text", bold=True), self.report.texts._(why))
        for problem in problems:
            severity = Put(problem.example.severity, "severity")
            self._row(page, severity, sentence(self.report, problem), len(problem.servers))

    def _sign_off(self, page: Page) -> None:
        texts = self.report.texts
        self._section(page, N_("Sign-off"))
        for title in (N_("Decision"), N_("Name and date"), N_("Signature")):
            page.add([Put(texts._(title), "text", bold=True), *(Put("", "text") for _ in range(_WIDE - 1))], 26)


def start(book: Book, report: Report) -> _Summary:
    """Written when everything is known."""
    return _Summary(book, report)
