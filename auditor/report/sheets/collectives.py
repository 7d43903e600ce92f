"""Collectives: bandwidth against message size, as a table and as curves."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.judge.texts import N_
from auditor.records import Reading
from auditor.report.sheets import Row, Table
from auditor.report.show import show
from auditor.report.view import Report, Seen
from auditor.report.workbook import Book, Column

ORDER = 70
TITLE = N_("Collectives")
EMPTY = N_("no collective was measured")
NOTE = N_(
    "Algorithm bandwidth is bytes over seconds; bus bandwidth is what each link carried, "
    "comparable between counts of GPUs."
)
COLUMNS = (
    Column(N_("Server"), "text", (16, 34)),
    Column(N_("Operation"), "text", (12, 16)),
    Column(N_("Ranks"), "int", (7, 9)),
    Column(N_("Type"), "text", (9, 12)),
    Column(N_("Message"), "MB", (10, 13)),
    Column(N_("Algorithm bandwidth"), "GB/s", (12, 15)),
    Column(N_("Bus bandwidth"), "GB/s", (12, 15)),
    Column(N_("Spread of repeats"), "%", (10, 13), unit_in_title=False),
    Column(N_("Source"), "text", (12, 20)),
)
_ALGBW = ("collectives_algbw_bytes_per_second", "nccl_tests_algbw_bytes_per_second")


def start(book: Book, report: Report) -> Table:
    """Every measured size of every operation."""
    return Table(book, __name__, COLUMNS, lambda seen: rows(report, seen), NOTE)


def rows(report: Report, seen: Seen) -> Iterator[Row]:
    """A server's collectives by operation, ranks and size."""
    if seen.record is None:
        return
    found: dict[tuple[str, str, str, int, str, float], dict[str, Reading]] = {}
    for reading in seen.record.readings:
        for metric in _ALGBW:
            stem = metric.split("algbw", 1)[0]
            if reading.metric in (metric, f"{stem}busbw_bytes_per_second"):
                which = "busbw" if "busbw" in reading.metric else "algbw"
                found.setdefault(_key(stem, reading), {})[which] = reading
    name = report.name(seen.server)
    for key in sorted(found):
        _, place, operation, ranks, dtype, size = key
        algbw, busbw = found[key].get("algbw"), found[key].get("busbw")
        one = algbw or busbw
        yield (
            name,
            show(f"{operation} ({place})" if place else operation),
            ranks or None,
            show(dtype),
            size or None,
            _figure(algbw),
            _figure(busbw),
            one.spread if one else None,
            show(one.source) if one else None,
        )


def _key(stem: str, reading: Reading) -> tuple[str, str, str, int, str, float]:
    with_ = reading.conditions
    ranks, size = with_.get("ranks", 0), with_.get("bytes", 0)
    return (
        stem,
        str(with_.get("place", "")),
        str(with_.get("op", "")),
        int(ranks) if isinstance(ranks, int | float) else 0,
        str(with_.get("dtype", "")),
        float(size) if isinstance(size, int | float) else 0.0,
    )


def _figure(reading: Reading | None) -> float | None:
    value = reading.value if reading else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
