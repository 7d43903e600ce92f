"""Topology: a coloured matrix per server, which path joins which GPUs and how fast the pair is."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.judge.texts import N_
from auditor.records import Reading, Record
from auditor.report.show import show
from auditor.report.view import Report, Seen
from auditor.report.workbook import Book, Column, Page, Put

ORDER = 80
TITLE = N_("Topology")
EMPTY = N_("no server showed two GPUs, or their paths were not read")
NOTE = N_(
    "NV# = that many NVLinks (green) · PIX, PXB = one PCIe switch (blue) · PHB, NODE = through the host (amber) · "
    "SYS = across CPU sockets (red); below the path the measured pair bandwidth in GB/s"
)
_MOST_GPUS = 16
COLUMNS = (
    Column("", "text", (14, 14)),
    *(Column("", "centre", (9, 9)) for _ in range(_MOST_GPUS)),
)


@dataclass(frozen=True)
class Path:
    """What joins two GPUs."""

    word: str
    bytes_per_second: float | None = None


class _Topology:
    def __init__(self, book: Book, report: Report) -> None:
        self.book, self.report = book, report
        self.page: Page | None = None

    def take(self, seen: Seen) -> None:
        """Draw one server's matrix."""
        found = matrix(seen.record) if seen.record else None
        if not found:
            return
        if self.page is None:
            self.page = self.book.page(ORDER, TITLE, COLUMNS, NOTE, table=False)
        gpus, paths = found
        page = self.page
        page.add([])
        page.add([Put(self.report.name(seen.server), "plain", bold=True)])
        page.add([None, *(Put(gpu, "centre", "header") for gpu in gpus)])
        for row in gpus:
            cells = [_cell(paths.get((row, column))) if row != column else Put("·", "centre") for column in gpus]
            page.add([Put(row, "text", bold=True), *cells], 28)

    def end(self) -> None:
        """Nothing is left to do."""


def start(book: Book, report: Report) -> _Topology:
    """One matrix per server with two GPUs or more."""
    return _Topology(book, report)


def matrix(record: Record) -> tuple[list[str], dict[tuple[str, str], Path]] | None:
    """The GPUs by index and what joins each two of them; None without a single path."""
    gpus = sorted((s for s in record.subjects if s.kind == "gpu"), key=lambda s: (s.index is None, s.index or 0, s.id))
    names = [gpu.id for gpu in gpus][:_MOST_GPUS]
    words: dict[str, str] = {}
    rates: dict[str, float] = {}
    for reading in record.readings:
        if reading.metric == "topology_path" and isinstance(reading.value, str):
            words.setdefault(reading.subject, reading.value)
        elif _one_way(reading):
            rates[reading.subject] = min(float(reading.value or 0), rates.get(reading.subject, float("inf")))
    paths: dict[tuple[str, str], Path] = {}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            pair = f"{a}-{b}"
            if pair in words or pair in rates:
                paths[a, b] = paths[b, a] = Path(words.get(pair, "?"), rates.get(pair))
    return (names, paths) if paths else None


def _one_way(reading: Reading) -> bool:
    one_way = reading.metric == "peer_copy_bytes_per_second" and reading.conditions.get("direction") == "one_way"
    return one_way and isinstance(reading.value, int | float)


def tint(word: str) -> str | None:
    """The colour of a path's word."""
    if word.startswith("NV"):
        return "nvlink"
    return {"PIX": "near", "PXB": "near", "PHB": "host", "NODE": "host", "SYS": "far"}.get(word)


def _cell(path: Path | None) -> Put:
    if path is None:
        return Put("?", "centre")
    rate = f"\n{path.bytes_per_second / 1e9:,.0f}" if path.bytes_per_second is not None else ""
    return Put(show(path.word, 12) + rate, "centre", tint(path.word))
