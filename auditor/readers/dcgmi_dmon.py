"""`dcgmi dmon`: fields of every GPU, sampled; median and maximum of each column.

The header names the columns by DCGM's short words and comes again every few rows; `N/A` is a field that the host
engine does not have (profiling needs a right of its own).
"""

from __future__ import annotations

import re
import statistics

from auditor.readers.parsed import Book, Parsed, shown

KIND = "dcgmi_dmon"
TOOL = "dcgmi"
HINTS = ("#Entity", "# Entity")
BEGINS = re.compile(r"^[ \t]*+# ?Entity[ \t]", re.M)
_ROW = re.compile(r"[ \t]*(GPU|GPU-I|GPU-CI|Switch|Link|CPU)[ \t]+(\d{1,3})[ \t]+(\S.*)$")
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,12})?")
_NOTHING = ("N/A", "-")


def recognise(text: str) -> float:
    """Its header line."""
    return 0.95 if BEGINS.search(text) else 0.0


def read(text: str) -> Parsed:
    """Every column of every GPU; the unit is DCGM's own (°C, W, MHz, % or a ratio)."""
    book = Book(KIND, TOOL)
    columns: list[str] = []
    values: dict[tuple[int, str], list[float]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if BEGINS.match(line):
            columns = line.replace("#", " ").split()[1:]
            continue
        row = _ROW.match(line)
        if row is None:
            if line.strip() and line.split()[0].lower() != "id":
                book.unreadable(number, f"no row of dmon: {shown(line)}")
            continue
        cells = row[3].split()
        if row[1] != "GPU":
            continue
        if len(cells) != len(columns):
            book.unreadable(number, f"{len(cells)} values under {len(columns)} columns: {shown(line)}")
            continue
        for column, cell in zip(columns, cells, strict=True):
            if _NUMBER.fullmatch(cell):
                values.setdefault((int(row[2]), column.lower()), []).append(float(cell))
            elif cell not in _NOTHING:
                book.unreadable(number, f"{column}: {shown(cell)!r} is no figure")
    for (index, column), seen in values.items():
        gpu = book.gpu(index)
        book.add("dcgm_field", statistics.median_low(seen), gpu, field=column, stat="p50")
        book.add("dcgm_field", max(seen), gpu, field=column, stat="max")
    return book.parsed()
