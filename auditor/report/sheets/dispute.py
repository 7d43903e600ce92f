"""Dispute: per provider a letter ready to send: facts, times in UTC, hashes, and what is asked for."""

from __future__ import annotations

from auditor.judge.texts import N_
from auditor.report import letter
from auditor.report.view import Report, Seen
from auditor.report.workbook import Book, Column, Layout, Put

ORDER = 120
TITLE = N_("Dispute")
EMPTY = N_("no server has a finding to put before its provider")
NOTE = N_("Copy column A and send it. Every figure stands on Findings and Readings; nothing here is an estimate.")
COLUMNS = (Column("", "wrap", (86, 86)),)


class _Dispute:
    def __init__(self, book: Book, report: Report) -> None:
        self.book, self.report = book, report

    def take(self, seen: Seen) -> None:
        """A letter speaks of all servers of a provider."""

    def end(self) -> None:
        """One letter below the other."""
        letters = letter.letters(self.report)
        if not letters:
            return
        page = self.book.page(ORDER, TITLE, COLUMNS, Layout(NOTE, table=False, portrait=True))
        for subject, paragraphs in letters:
            page.add([])
            page.add([Put(subject, "wrap", "section", bold=True)])
            for paragraph in paragraphs:
                page.add([Put(paragraph, "wrap")])


def start(book: Book, report: Report) -> _Dispute:
    """In the order in which the runs were given."""
    return _Dispute(book, report)
