"""The workbook; above 50,000 readings they go into readings.csv beside it."""

from __future__ import annotations

from pathlib import Path

from auditor.report.formats import Sink, csv
from auditor.report.view import Report, Seen

NAME = "xlsx"
FILE = "report.xlsx"
MOST_READINGS = 50_000


class _Workbook:
    def __init__(self, report: Report, path: Path) -> None:
        from auditor.report import sheets  # the Excel library is loaded only when a workbook is wanted
        from auditor.report.workbook import Book

        self.path = path
        self.book = Book(report.texts, report.subtitle, report.warning)
        self.sinks = [module.start(self.book, report) for module in sheets.modules()]
        self.beside = csv.start(report, path.with_name(csv.FILE))
        self.readings = 0

    def take(self, seen: Seen) -> None:
        """Every sheet looks at the server."""
        self.readings += len(seen.record.readings) if seen.record else 0
        self.beside.take(seen)
        for sink in self.sinks:
            sink.take(seen)

    def end(self) -> list[Path]:
        """Close the sheets and save."""
        for sink in self.sinks:
            sink.end()
        self.book.save(self.path)
        return [self.path, *(self.beside.end() if self.readings > MOST_READINGS else self.beside.drop())]


def start(report: Report, path: Path) -> Sink:
    """Begin the workbook."""
    return _Workbook(report, path)
