"""Findings: one row each, consequences under their root, with what to say to the provider."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import VERDICTS, Finding
from auditor.judge.texts import N_
from auditor.report.sheets import Row, Table
from auditor.report.show import show
from auditor.report.view import Report, Seen, conditions_text, with_consequences
from auditor.report.wording import worded
from auditor.report.words import word
from auditor.report.workbook import Book, Column

ORDER = 30
TITLE = N_("Findings")
EMPTY = N_("nothing was found on any server")
NOTE = N_("One row per finding; a row marked ↳ follows from the one above it.")
COLUMNS = (
    Column(N_("Server"), "text", (14, 30)),
    Column(N_("Severity"), "severity", (12, 16)),
    Column(N_("Finding"), "wrap", (28, 28)),
    Column(N_("Where"), "text", (9, 16)),
    Column(N_("Observed"), "wrap", (32, 32)),
    Column(N_("Expected"), "wrap", (30, 30)),
    Column(N_("What it means"), "wrap", (42, 42)),
    Column(N_("What to ask the provider"), "wrap", (42, 42)),
    Column(N_("Held against"), "wrap", (18, 18)),
    Column(N_("Source of the expectation"), "wrap", (50, 50)),
    Column(N_("Evidence: rows on Readings"), "wrap", (90, 90)),
    Column(N_("Kind"), "wrap", (18, 18)),
    Column(N_("GPU UUID"), "text", (12, 44)),
    Column(N_("Follows from"), "text", (12, 30)),
    Column(N_("Finding id"), "text", (16, 30)),
    Column(N_("Provider"), "text", (12, 24)),
)
_MOST_EVIDENCE = 3


class _Findings:
    """Rows wait for the end, so that the worst servers come first."""

    def __init__(self, book: Book, report: Report) -> None:
        self.book, self.report = book, report
        self.waiting: list[tuple[int, int, list[Row]]] = []

    def take(self, seen: Seen) -> None:
        """Keep the server's rows."""
        server = seen.server
        if server.findings:
            self.waiting.append((VERDICTS.index(server.verdict), len(self.waiting), list(rows(self.report, seen))))

    def end(self) -> None:
        """Worst first, and within a verdict in the order of the inventory."""
        table = _table(self.book)
        for _, _, group in sorted(self.waiting, key=lambda one: one[:2]):
            table.fill(group)
        self.waiting.clear()


def start(book: Book, report: Report) -> _Findings:
    """Rejected servers first, each one's worst finding first."""
    return _Findings(book, report)


def _table(book: Book) -> Table:
    return Table(book, __name__, COLUMNS, note=NOTE, frozen=3, printed=N_("What to ask the provider"))


def rows(report: Report, seen: Seen) -> Iterator[Row]:
    """A server's findings, each root with its consequences below it."""
    by_key = {finding.key: finding for finding in seen.server.findings}
    for finding, follows in with_consequences(seen.server):
        yield row(report, seen, finding, by_key.get(finding.root or "") if follows else None)


def row(report: Report, seen: Seen, finding: Finding, root: Finding | None) -> Row:
    """One finding in words, with its sources."""
    texts, said = report.texts, report.rendered(finding)
    return (
        report.name(seen.server),
        finding.severity,
        f"↳ {said.title}" if root else said.title,
        show(finding.subject),
        said.observed,
        said.expected,
        said.meaning,
        said.ask,
        word(texts, finding.basis),
        worded(texts, finding.source),
        evidence(report, seen, finding),
        word(texts, finding.category),
        show(finding.uuid or ""),
        f"{root.id} {root.subject}" if root else None,
        finding.id,
        report.place(seen.provider),
    )


def evidence(report: Report, seen: Seen, finding: Finding) -> str:
    """Where the raw figures stand: the row number on Readings, and the metric."""
    lines = []
    for one in finding.evidence[:_MOST_EVIDENCE]:
        number = seen.reading_number(one)
        where = f"#{number} " if number else ""
        lines.append(show(f"{where}{one.metric} {one.subject} {conditions_text(one)} [{one.source}]"))
    if len(finding.evidence) > _MOST_EVIDENCE:
        more = len(finding.evidence) - _MOST_EVIDENCE
        lines.append(report.texts._(N_("and {count:int} more"), count=more))
    return "\n".join(lines)
