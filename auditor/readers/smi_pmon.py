"""`nvidia-smi pmon`: which processes use which GPU; "-" means not sampled."""

from __future__ import annotations

import re

from auditor.readers.parsed import Book, Parsed, shown

KIND = "smi_pmon"
TOOL = "nvidia-smi"
HINTS = ("# gpu",)
BEGINS = re.compile(r"^[ \t]*+# gpu[ \t]+pid[ \t]+type\b", re.M)
_ROW = re.compile(r"[ \t]*(\d{1,3})[ \t]+(\d+|-)[ \t]+([CG](?:\+[CG])?|-)[ \t]+\S+")


def recognise(text: str) -> float:
    """Its header line."""
    return 0.95 if BEGINS.search(text) else 0.0


def read(text: str) -> Parsed:
    """The number of processes seen on each GPU over all samples."""
    book = Book(KIND, TOOL)
    pids: dict[int, set[str]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        row = _ROW.match(line)
        if row:
            found = pids.setdefault(int(row[1]), set())
            if row[2] != "-":
                found.add(row[2])
        elif line.strip() and not line.lstrip().startswith("#"):
            book.unreadable(number, f"no row of pmon: {shown(line)}")
    for index, found in pids.items():
        book.add("gpu_identity_processes_total", len(found), book.gpu(index))
    return book.parsed()
