"""From a judgement to what people and programs read: workbook, pages, documents, terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from auditor.report.texts import load
from auditor.report.view import Judged, Report

FORMATS = ("xlsx",)


def write(
    judged: Judged | Sequence[Judged], folder: Path, formats: Iterable[str], lang: str = "en", redact: bool = False
) -> list[Path]:
    """Write the report in the given formats into a folder; returns the files, the workbook first.

    `judged` may be several runs: they stand side by side.
    """
    from auditor.report import sheets  # the Excel library is loaded only when something is written
    from auditor.report.workbook import Book

    report = Report(judged if isinstance(judged, Sequence) else [judged], load(lang))
    book = Book(report.texts, report.subtitle, report.warning)
    sinks = [module.start(book, report) for module in sheets.modules()]
    for seen in report.seen():
        for sink in sinks:
            sink.take(seen)
    for sink in sinks:
        sink.end()
    path = folder / "report.xlsx"
    book.save(path)
    return [path]
