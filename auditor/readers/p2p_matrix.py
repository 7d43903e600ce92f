"""`nvidia-smi topo -p2p`: whether each GPU may reach each other one; the command line names the capability."""

from __future__ import annotations

import re

from auditor.readers.parsed import Book, Parsed, shown

KIND = "p2p_matrix"
TOOL = "nvidia-smi"
HINTS = ("GPU",)
_WORDS = r"OK|CNS|GNS|TNS|DR|NS|U"
BEGINS = re.compile(rf"^[ \t]*+GPU\d+[ \t]*(?=GPU\d|(?:X[ \t]+)?(?:{_WORDS})(?:[ \t]|$))", re.M)
RESTARTS = re.compile(r"^[ \t]*+GPU0[ \t]*GPU1", re.M)
_ROW = re.compile(rf"[ \t]*GPU(\d+)[ \t]+((?:(?:X|{_WORDS}|N/A)[ \t]*)+)$")
_CELL = re.compile(rf"X|{_WORDS}|N/A")
_HEADER = re.compile(r"[ \t]*(?:GPU\d+[ \t]*)+$")
_LEGEND = re.compile(rf"[ \t]*(?:Legend:|(?:X|{_WORDS})[ \t]*=)")
_CAPABILITY = re.compile(r"topo\s+(?:-p2p|--p2p_status)\s+([rwnap])\b")


def recognise(text: str) -> float:
    """Rows of P2P words, or their legend."""
    rows = re.search(rf"^[ \t]*GPU\d+[ \t]+(?:X[ \t]+)?(?:{_WORDS})(?:[ \t]|$)", text, re.M)
    return 0.95 if rows else 0.4 if "Chipset not supported" in text else 0.0


def read(text: str) -> Parsed:
    """One reading per ordered pair: the word of the row's GPU towards the column's."""
    book = Book(KIND, TOOL)
    capability = {"r": "read", "w": "write", "n": "nvlink", "a": "atomics", "p": "pci"}
    named = _CAPABILITY.search(text)
    which = capability[named[1]] if named else "read"
    columns: list[int] = []
    rows: dict[int, tuple[int, list[str]]] = {}
    legend = False
    for number, line in enumerate(text.split("\n"), 1):
        row = _ROW.match(line)
        if not line.strip() or _CAPABILITY.search(line):
            continue
        if _LEGEND.match(line):
            legend = True
        elif _HEADER.match(line) and not rows:
            columns += [int(one) for one in re.findall(r"\d+", line)]
        elif row:
            rows.setdefault(int(row[1]), (number, _CELL.findall(row[2])))
        elif not legend:
            book.unreadable(number, f"no row of the matrix: {shown(line)}")
    if rows and not columns:
        columns = sorted(rows)
        book.unreadable(min(number for number, _ in rows.values()), "the header of the matrix is missing")
    for one, (number, cells) in rows.items():
        book.gpu(one)
        if len(cells) != len(columns) or one not in columns or cells[columns.index(one)] != "X":
            book.unreadable(number, f"the row of GPU{one} does not fit the columns")
            continue
        for other, cell in zip(columns, cells, strict=True):
            if other != one and cell != "N/A":
                pair = f"gpu{min(one, other)}-gpu{max(one, other)}"
                word = "unknown" if cell == "U" else cell.lower()
                book.add("topology_p2p_status", word, pair, capability=which, from_=f"gpu{one}")
    for one in columns:
        book.gpu(one)
        if one not in rows:
            book.unreadable(1, f"the row of GPU{one} is missing")
    return book.parsed()
