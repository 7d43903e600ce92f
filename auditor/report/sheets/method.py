"""Method: how the figures came about: versions, weights, left-out sheets, every metric."""

from __future__ import annotations

from auditor.judge.texts import N_
from auditor.report import sheets
from auditor.report.metrics import documented
from auditor.report.show import show
from auditor.report.view import Report, Seen
from auditor.report.words import word
from auditor.report.workbook import Book, Column

ORDER = 130
TITLE = N_("Method")
EMPTY = N_("always there")
NOTE = N_("How the figures of this workbook were made and what they were held against.")
COLUMNS = (
    Column(N_("Topic"), "text", (18, 26)),
    Column(N_("What"), "wrap", (44, 44)),
    Column(N_("How"), "wrap", (70, 70)),
    Column(N_("Unit"), "text", (10, 16)),
    Column(N_("Source"), "wrap", (40, 40)),
)


class _Method:
    def __init__(self, book: Book, report: Report) -> None:
        self.book, self.report = book, report

    def take(self, seen: Seen) -> None:
        """Method speaks of the whole."""

    def end(self) -> None:
        """Versions, sheets left out, weights, metrics."""
        report, texts = self.report, self.report.texts
        table = sheets.Table(self.book, __name__, COLUMNS, lambda seen: (), NOTE)
        for part in report.parts:
            judgement = part.judgement
            run = texts._(N_("Run"))
            table.add((run, show(judgement.inventory), show(judgement.run), None, f"auditor {judgement.version}"))
            table.add((run, texts._(N_("Policy in force, SHA-256")), judgement.policy_sha256, None, None))
            table.add((run, texts._(N_("GPU catalogue, SHA-256")), judgement.catalog_sha256, None, None))
            for use, weights in judgement.weights.items():
                shares = ", ".join(f"{name} {share:.0%}" for name, share in weights.items())
                table.add((texts._(N_("Score weights")), word(texts, use), shares, None, "policy.yaml"))
        for module in sheets.modules():
            if module.ORDER != ORDER and not self.book.has(module.ORDER):
                table.add((texts._(N_("Sheet left out")), texts._(module.TITLE), texts._(module.EMPTY), None, None))
        for metric in documented():
            table.add((metric.probe, metric.name, texts._(metric.meaning), metric.unit, metric.sources))


def start(book: Book, report: Report) -> _Method:
    """Written last, when it is known which sheets were left out."""
    return _Method(book, report)
