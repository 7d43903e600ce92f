"""Not measured: everything a reader might look for and will not find, with the reason."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.judge.texts import N_
from auditor.report.sheets import Row, Table
from auditor.report.show import show
from auditor.report.view import Report, Seen
from auditor.report.words import reason_text, word
from auditor.report.workbook import Book, Column

ORDER = 110
TITLE = N_("Not measured")
EMPTY = N_("everything that applies was measured")
NOTE = N_(
    "What was not measured says nothing about health. "
    "A missing reading that the verdict needs makes a server incomplete."
)
COLUMNS = (
    Column(N_("Server"), "text", (16, 34)),
    Column(N_("Probe"), "text", (14, 24)),
    Column(N_("Where"), "text", (9, 16)),
    Column(N_("How it ended"), "text", (13, 20)),
    Column(N_("Reason"), "wrap", (60, 60)),
    Column(N_("Left out for want of time"), "wrap", (28, 28)),
    Column(N_("Needed for the verdict"), "text", (12, 16)),
)


def start(book: Book, report: Report) -> Table:
    """In the order of the inventory."""
    return Table(book, __name__, COLUMNS, lambda seen: rows(report, seen), NOTE)


def rows(report: Report, seen: Seen) -> Iterator[Row]:
    """A server without a record is one row; else every probe row that is not plain `measured`."""
    server, texts = seen.server, report.texts
    name = report.name(server)
    if seen.record is None:
        reason = reason_text(texts, server.reason) or texts._(N_("no record came"))
        yield (name, None, "server", word(texts, server.phase), reason, None, True)
        return
    needed = set(server.missing)
    for probe in seen.record.probes:
        if probe.status == "measured" and not probe.cut:
            continue
        yield (
            name,
            show(probe.probe),
            show(probe.subject),
            word(texts, probe.status),
            show(probe.reason or "", 2000),
            show(", ".join(probe.cut), 2000),
            True if any(probe.probe in name for name in needed) else None,
        )
