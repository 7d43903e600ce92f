"""Topology: a coloured matrix per server, which path joins which GPUs and how fast the pair is."""

from __future__ import annotations

from auditor.judge.texts import N_
from auditor.report.paths import MOST_GPUS, Path, matrix, tint
from auditor.report.show import show
from auditor.report.view import Report, Seen, worst_first
from auditor.report.workbook import Book, Column, Layout, Page, Put

ORDER = 80
TITLE = N_("Topology")
EMPTY = N_("no server showed two GPUs, or their paths were not read")
NOTE = N_("NV# = NVLinks · PIX, PXB = PCIe switch · PHB, NODE = through the host · SYS = across sockets")
BELOW = N_("Below the path: measured bandwidth of the pair in GB/s.")
MOST_SERVERS = 200
COLUMNS = (Column("", "text", (11, 11)), *(Column("", "centre", (9, 9)) for _ in range(MOST_GPUS)))
_ROW_POINTS, _PAGE_POINTS = 28.0, 700.0


class _Topology:
    def __init__(self, book: Book, report: Report) -> None:
        self.book, self.report = book, report
        self.page: Page | None = None
        self.drawn = {id(server) for server in worst_first(report.servers)[:MOST_SERVERS]}
        self.used = 0.0
        self.widest = 8 if all(len(server.gpus) <= 8 for server in report.servers) else MOST_GPUS

    def take(self, seen: Seen) -> None:
        """Draw one server's matrix."""
        found = matrix(seen.record) if seen.record and id(seen.server) in self.drawn else None
        if not found:
            return
        gpus, paths = found
        page = self._page(34 + _ROW_POINTS * len(gpus))
        page.add([])
        name = Put(self.report.name(seen.server), "plain", bold=True)
        page.add([name, None, None, None, Put(seen.server.verdict, "verdict")])
        page.add([None, *(Put(gpu, "centre", "header", True) for gpu in gpus)])
        for row in gpus:
            cells = [_cell(paths.get((row, column))) if row != column else Put("·", "centre") for column in gpus]
            page.add([Put(row, "text", bold=True), *cells], _ROW_POINTS)

    def _page(self, points: float) -> Page:
        """The page, with a break where the next matrix would be torn apart on paper."""
        if self.page is None:
            columns = COLUMNS[: self.widest + 1]
            layout = Layout(NOTE, table=False, portrait=True, least_width=84)
            self.page = self.book.page(ORDER, TITLE, columns, layout)
            self.page.add([Put(self.report.texts._(BELOW), "plain", size="lead")])
        elif self.used + points > _PAGE_POINTS:
            self.page.break_here()
            self.used = 0.0
        self.used += points
        return self.page

    def end(self) -> None:
        """Say who was left out."""
        left = len(self.report.servers) - len(self.drawn)
        if self.page is not None and left > 0:
            more = N_("{count:int} more servers are not drawn; their paths stand in the readings.")
            self.page.add([])
            self.page.add([Put(self.report.texts._(more, count=left), "plain")])


def start(book: Book, report: Report) -> _Topology:
    """One matrix per server with two GPUs or more; of very many servers the worst."""
    return _Topology(book, report)


def _cell(path: Path | None) -> Put:
    if path is None:
        return Put("?", "centre")
    rate = f"\n{path.bytes_per_second / 1e9:,.0f}" if path.bytes_per_second is not None else ""
    return Put(show(path.word, 12) + rate, "centre", tint(path.word))
