"""`nvidia-smi topo -m`: who reaches whom, the affinity columns and the legend of NICs.

Columns are told apart by the closed set of cell words and by their number, never by width: glued cells, tabs,
single blanks and wrapped rows read alike. The header gives the number of devices; a row that is missing is listed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from auditor.readers.parsed import Book, Parsed, shown
from auditor.records import Subject

KIND = "topology_matrix"
TOOL = "nvidia-smi"
HINTS = ("GPU", "NIC")
_PATHS = r"NV\d+|PIX|PXB|PHB|NODE|SYS|SOC"
BEGINS = re.compile(
    rf"^[ \t]*+(?:GPU\d+[ \t]*(?=GPU\d|NIC\d|CPU ?Aff|mlx|X[ \t\n]|{_PATHS})"
    rf"|(?:NIC\d+|mlx\d_\w+)[ \t]+(?=X[ \t\n]|{_PATHS})|NIC Legend)",
    re.M,
)
RESTARTS = re.compile(r"^[ \t]*+GPU0[ \t]*(?:GPU1|NIC\d|CPU ?Aff|mlx)", re.M)

_DEVICE = r"GPU\d+|NIC\d+|[a-z][a-z0-9_]*\d"
_MOST_DEVICES = 512
_TRAILING = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_HEADER = re.compile(rf"[ \t]*(?:({_DEVICE})|(CPU ?Affinity|NUMA ?Affinity|GPU ?NUMA ?ID))")
_HEADER_START = re.compile(rf"[ \t]*GPU\d+[ \t]*(?=(?:{_DEVICE})|CPU|$)")
_HEADER_REST = re.compile(rf"[ \t]*(?:(?:{_DEVICE})|[CPUAFNMGID]{{1,4}}|[A-Za-z]{{1,8}}|[ \t])+$")
_ROW_START = re.compile(rf"[ \t]*({_DEVICE})[ \t]*(?=X(?![A-Za-z])|{_PATHS}|N/A|$)")
_CELL = re.compile(rf"[ \t]*(X(?![A-Za-z])|{_PATHS}|N/A)")
_ROW_REST = re.compile(rf"[ \t]*(?:(?:X|{_PATHS}|N/?A?|[A-Z]{{1,4}}|[\d,-]+)[ \t]*)+$")
_LEGEND = re.compile(r"[ \t]*(?:(?:X|SYS|NODE|PHB|PXB|PIX|NV#|SOC)[ \t]*=|(?:NIC )?Legend\b)")
_NIC = re.compile(r"[ \t]*(NIC\d+)[ \t]*:[ \t]*(\S+)[ \t]*$")
_AFFINITY = re.compile(r"(?:\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*,?-?|N/A)$")


@dataclass
class _Line:
    """A header or row with the lines it was wrapped into."""

    number: int
    pieces: list[str] = field(default_factory=list)


@dataclass
class _Row:
    line: int
    cells: list[str]
    rest: list[str]


@dataclass
class _Sheet:
    header: _Line | None = None
    rows: dict[str, _Line] = field(default_factory=dict)
    nics: dict[str, str] = field(default_factory=dict)
    width: int = 0


def recognise(text: str) -> float:
    """A header or row of devices with at least one path word."""
    if re.search(r"^[ \t]*GPU\d+[ \t]*(?:GPU\d|NIC\d|CPU ?Aff|mlx)", text, re.M):
        certain = re.search(rf"\b(?:{_PATHS})|CPU ?Aff", text)
        return 0.9 if certain else 0.3
    return 0.6 if re.search(rf"^[ \t]*(?:GPU|NIC)\d+[ \t]+(?:X[ \t]+)?(?:{_PATHS})", text, re.M) else 0.1


def read(text: str) -> Parsed:
    """The matrix as readings: one per pair of devices, affinity per GPU, the names of the NICs."""
    book = Book(KIND, TOOL)
    sheet = _collect(text.split("\n"), book)
    columns, trailing, whole = _columns(sheet, book)
    if not columns:
        return book.parsed()
    rows = _rows(columns, trailing, sheet, book)
    names = {name: _subject_id(name, columns) for name in columns}
    _devices(names, sheet.nics, book)
    _paths(columns, rows, names, book)
    _affinity(trailing, rows, names, book)
    if whole:
        book.add("server_facts_gpus_nvml_total", sum(1 for name in columns if name.startswith("GPU")))
    return book.parsed()


def _collect(lines: list[str], book: Book) -> _Sheet:
    """Sort the lines into header, rows with their wrapped rest, and legends; the rest is listed."""
    sheet = _Sheet(width=max((len(line.rstrip()) for line in lines), default=0))
    open_: _Line | None = None
    legend = False
    for number, line in enumerate(lines, 1):
        nic, row = _NIC.match(line), _ROW_START.match(line)
        if not line.strip():
            open_ = None if legend else open_
        elif _LEGEND.match(line):
            legend, open_ = True, None
        elif nic:
            sheet.nics[nic[1]] = nic[2]
            legend, open_ = True, None
        elif legend and not _HEADER_START.match(line):
            if not _legend_tail(line):
                book.unreadable(number, f"no part of the matrix: {shown(line)}")
        elif _HEADER_START.match(line):
            if sheet.header is None:
                sheet.header = open_ = _Line(number, [line])
            elif open_ is sheet.header and not sheet.rows and not re.match(r"[ \t]*GPU0\b", line):
                sheet.header.pieces.append(line)
            else:
                book.unreadable(number, "a second header line")
        elif row and row[1] in sheet.rows:
            if sheet.rows[row[1]].pieces[0].split() != line[row.end(1) :].split():
                book.unreadable(number, f"a second, different row of {row[1]}; the first is kept")
            open_ = None
        elif row and (sheet.header is None or _in_header(row[1], sheet.header)):
            open_ = _Line(number, [line[row.end(1) :]])
            sheet.rows[row[1]] = open_
        elif open_ and (_HEADER_REST if open_ is sheet.header else _ROW_REST).match(line):
            open_.pieces.append(line)
        else:
            book.unreadable(number, f"no row of the matrix: {shown(line)}")
    return sheet


def _legend_tail(line: str) -> bool:
    """The rest of a legend line that a narrow terminal wrapped: words of the legend, not an output of its own."""
    words = "NUMA nodes within a node PCIe Host Bridges Bridge bridges the CPU QPI/UPI NVLinks traversing typically"
    known = set(words.split())
    parts = re.findall(r"[\w/]+", line)
    return bool(parts) and sum(1 for part in parts if part in known) * 2 >= len(parts) and len(parts) <= 12


def _in_header(name: str, header: _Line) -> bool:
    return any(name in re.findall(_DEVICE, text) for text in _joined(header))


def _joined(line: _Line) -> list[str]:
    return [" ".join(line.pieces), "".join(piece.rstrip("\n") for piece in line.pieces)][: len(line.pieces)]


def _columns(sheet: _Sheet, book: Book) -> tuple[list[str], list[str], bool]:
    """The devices and trailing columns of the header, and whether it says no more; without one, the rows in order."""
    if sheet.header is None:
        if sheet.rows:
            book.unreadable(min(row.number for row in sheet.rows.values()), "the header of the matrix is missing")
        return list(sheet.rows), list(_TRAILING), False
    best: tuple[list[str], list[str]] = ([], [])
    for text in _joined(sheet.header):
        devices: list[str] = []
        trailing: list[str] = []
        at = 0
        while match := _HEADER.match(text, at):
            if match[1] in devices or len(devices) == _MOST_DEVICES:
                break
            at = match.end()
            if match[1]:
                devices.append(match[1])
            else:
                trailing.append(next(name for name in _TRAILING if name.replace(" ", "") == match[2].replace(" ", "")))
        if not text[at:].strip():
            return devices, trailing, True
        best = max(best, (devices, trailing), key=lambda pair: len(pair[0]) + len(pair[1]))
    book.unreadable(sheet.header.number, "the end of the header line was not understood")
    return *best, False


def _rows(columns: list[str], trailing: list[str], sheet: _Sheet, book: Book) -> dict[str, _Row]:
    common = Counter(re.findall(r"NV\d+(?=\s)", " ".join(p for row in sheet.rows.values() for p in row.pieces)))
    rows: dict[str, _Row] = {}
    for name, line in sheet.rows.items():
        allowed = len(trailing) if name.startswith("GPU") else 0
        hard = all(len(piece.rstrip("\n")) + len(name) >= sheet.width for piece in line.pieces[:-1])
        tries = _joined(line)[:: -1 if hard else 1]
        parsed = [row for text in tries if (row := _row(text, len(columns), allowed, common)) is not None]
        if parsed:
            rows[name] = _Row(line.number, *parsed[0])
            continue
        cells, _ = _split(tries[0], len(columns), common)
        if sheet.header is None or len(cells) >= len(columns):
            book.unreadable(line.number, f"the row of {name} does not fit the columns")
            continue
        if cells and re.fullmatch(r"NV\d+", cells[-1]):
            cells.pop()  # its number may be cut as well
        rows[name] = _Row(line.number, cells, [])
        book.unreadable(line.number, f"the row of {name} is cut after {len(cells)} of {len(columns)} cells")
    for name in columns:
        if name not in rows and sheet.header:
            book.unreadable(sheet.header.number, f"the row of {name} is missing")
    return rows


def _row(text: str, count: int, allowed: int, common: Counter[str]) -> tuple[list[str], list[str]] | None:
    """The cells and the trailing fields of one row; None when it does not fit."""
    cells, rest = _split(text, count, common)
    fields = rest.split()
    if len(cells) != count or len(fields) > allowed or not all(_AFFINITY.match(one) for one in fields):
        return None
    return cells, fields


def _split(text: str, count: int, common: Counter[str]) -> tuple[list[str], str]:
    cells: list[str] = []
    at = 0
    while len(cells) < count and (match := _CELL.match(text, at)):
        cell, at = match[1], match.end()
        if cell.startswith("NV") and text[at : at + 1] in ("-", ","):
            # A link count glued to a CPU list: the count that other cells show decides where it ends.
            known = [seen for seen, _ in common.most_common() if cell.startswith(seen) and seen != cell]
            if not known:
                break
            at -= len(cell) - len(known[0])
            cell = known[0]
        cells.append(cell)
    return cells, text[at:]


def _subject_id(name: str, columns: list[str]) -> str:
    if name.startswith("GPU"):
        return f"gpu{int(name[3:])}"
    if name.startswith("NIC"):
        return f"nic{int(name[3:])}"
    nics = [one for one in columns if not one.startswith("GPU")]
    return f"nic{nics.index(name)}"


def _devices(names: dict[str, str], legend: dict[str, str], book: Book) -> None:
    for name, subject in names.items():
        if name.startswith("GPU"):
            book.gpu(int(name[3:]))
            continue
        own = legend.get(name) or (None if name.startswith("NIC") else name)
        book.subject(Subject(id=subject, kind="nic", index=int(subject[3:]), name=own))
        if own:
            book.add("topology_nic_name", own, subject)


def _paths(columns: list[str], rows: dict[str, _Row], names: dict[str, str], book: Book) -> None:
    """One reading per pair; two, told apart by `from`, where the two cells of a pair differ (that is evidence)."""
    cells = {
        (name, other): cell
        for name, row in rows.items()
        for other, cell in zip(columns, row.cells, strict=False)
        if name != other
    }
    for at, one in enumerate(columns):
        if one in rows and len(rows[one].cells) > at and rows[one].cells[at] != "X":
            book.unreadable(rows[one].line, f"the row of {one} has no X under itself")
        for other in columns[at + 1 :]:
            pair = f"{names[one]}-{names[other]}"
            there, back = cells.get((one, other)), cells.get((other, one))
            if there and back and there != back:
                book.add("topology_path", there, pair, from_=names[one])
                book.add("topology_path", back, pair, from_=names[other])
            elif there or back:
                book.add("topology_path", there or back, pair)


def _affinity(trailing: list[str], rows: dict[str, _Row], names: dict[str, str], book: Book) -> None:
    for name, row in rows.items():
        if not name.startswith("GPU") or len(row.cells) < len(names):
            continue
        fields: dict[str, str] = dict.fromkeys(trailing, "")
        if row.rest == ["N/A"]:
            fields[trailing[-1]] = "N/A"  # WSL leaves the affinities blank and prints only the last column
        elif len(row.rest) == 2 and len(trailing) == 3 and row.rest[1] == "N/A":
            fields[trailing[0]], fields[trailing[2]] = row.rest
        else:
            fields.update(zip(trailing, row.rest, strict=False))
        subject = names[name]
        if "CPU Affinity" in fields:
            book.add("topology_cpu_affinity", fields["CPU Affinity"], subject)
        if fields.get("NUMA Affinity"):
            book.add("topology_numa_node", _node(fields["NUMA Affinity"]), subject)
        if fields.get("GPU NUMA ID"):
            book.add("topology_gpu_numa_id", _node(fields["GPU NUMA ID"]), subject)


def _node(text: str) -> int | str | None:
    """A node number; a range of nodes stays text; N/A, which the driver prints for a hidden node, is None."""
    if text == "N/A":
        return None
    return int(text) if text.isdigit() else text
