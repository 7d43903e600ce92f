"""Not measured: everything a reader might look for and will not find, with the reason."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.judge.texts import N_
from auditor.report.sheets import Row, Table
from auditor.report.show import show
from auditor.report.unmeasured import ending_text, unmeasured
from auditor.report.view import Report, Seen
from auditor.report.words import missing_text, reason_text, span, word
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
    Column(N_("Where"), "text", (12, 24)),
    Column(N_("How it ended"), "text", (14, 22)),
    Column(N_("Reason"), "wrap", (64, 64)),
    Column(N_("Left out for want of time"), "wrap", (30, 30)),
    Column(N_("Needed for the verdict"), "wrap", (26, 26)),
)


def start(book: Book, report: Report) -> Table:
    """In the order of the inventory."""
    return Table(book, __name__, COLUMNS, lambda seen: rows(report, seen), note=NOTE)


def rows(report: Report, seen: Seen) -> Iterator[Row]:
    """A server without a record is one row; else what is not plainly `measured`, equal GPUs in one row."""
    server, texts = seen.server, report.texts
    name = report.name(server)
    if seen.record is None:
        reason = reason_text(texts, server.reason) or texts._(N_("no record came"))
        yield (name, None, "server", word(texts, server.phase), reason, None, missing_text(texts, server.missing))
        return
    for (probe, status, reason, cut), subjects in unmeasured(seen.record).items():
        needed = [m for m in server.missing if _met_by(m, probe, subjects)]
        yield (
            name,
            show(probe),
            show(span(subjects)),
            ending_text(texts, status, cut),
            reason_text(texts, reason),
            show(", ".join(cut), 2000),
            missing_text(texts, needed) or None,
        )


# The probe that would have met a need of policy.yaml, where it is not called like the need.
_PROBES = {
    "model": "gpu_identity",
    "count": "server_facts",
    "all_reduce": "collectives",
    "all_reduce_cpu": "collectives",
}


def _met_by(missing: str, probe: str, subjects: list[str]) -> bool:
    need, _, subject = missing.partition(" of ")
    return _PROBES.get(need, need.removesuffix("_cpu")) == probe and (not subject or subject in subjects)
