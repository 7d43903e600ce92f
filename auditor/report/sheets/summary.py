"""Summary: the page procurement reads: whom to pay, what it costs, whom to write to, what is not known."""

from __future__ import annotations

from auditor.judge.texts import N_
from auditor.report.summary import Line, Section, sections, what_was_audited
from auditor.report.unmeasured import Gaps
from auditor.report.view import Report, Seen
from auditor.report.workbook import Book, Column, Layout, Page, Put

ORDER = 10
TITLE = N_("Summary")
EMPTY = N_("always there")
NOTE = N_("GPU server audit: what was delivered against what was ordered")
COLUMNS = (
    Column("", "wrap", (29, 29)),
    Column("", "int", (9, 9)),
    Column("", "wrap", (22, 22)),
    Column("", "wrap", (78, 78)),
    Column("", "wrap", (42, 42)),
)


class _Summary:
    def __init__(self, book: Book, report: Report) -> None:
        self.book, self.report = book, report
        self.gaps = Gaps()

    def take(self, seen: Seen) -> None:
        """Only what is missing is gathered on the way."""
        self.gaps.take(seen)

    def end(self) -> None:
        """Write the page."""
        page = self.book.page(ORDER, TITLE, COLUMNS, Layout(NOTE, table=False, one_page=True))
        self._head(page, N_("What was audited"))
        for title, text in what_was_audited(self.report):
            self._line(page, Line(title, text))
        if self.report.servers:
            for section in sections(self.report, self.gaps):
                self._section(page, section)
        self._sign_off(page)

    def _head(self, page: Page, title: str, *more: str) -> None:
        """A coloured line across the page."""
        texts = [self.report.texts._(text) if text else "" for text in (title, *more)]
        texts += [""] * (len(COLUMNS) - len(texts))
        page.add([])
        page.add([Put(text, "text", "header", True) for text in texts])

    def _section(self, page: Page, section: Section) -> None:
        texts = self.report.texts
        servers = texts._(N_("Which servers (all: sheet {sheet})"), sheet=texts._(section.more))
        self._head(page, section.title, N_("Servers"), section.amount, N_("What to know"), servers)
        for line in section.lines:
            self._line(page, line)

    def _line(self, page: Page, line: Line) -> None:
        title, amount = Put(line.marked(), "wrap", line.key, True), Put(line.amount, "wrap", bold=True)
        page.add([title, line.count, amount, line.text, line.servers])

    def _sign_off(self, page: Page) -> None:
        self._head(page, N_("Sign-off"))
        for title in (N_("Decision"), N_("Name and date"), N_("Signature")):
            page.add([Put(self.report.texts._(title), "text", bold=True), None, "", "", ""], 26)


def start(book: Book, report: Report) -> _Summary:
    """Written when everything is known."""
    return _Summary(book, report)
