"""nccl-tests (`all_reduce_perf` and kin): size, algbw and busbw of each row, out of place and in place.

The text names no collective; it follows from the columns and from busbw over algbw. "#wrong" (or "error") N/A means
that correctness was not checked. Launchers write rank prefixes into rows, and NCCL logs between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from auditor.readers.parsed import Book, Parsed, pci_address, shown

KIND = "nccl_tests"
TOOL = "nccl-tests"
HINTS = ("nThread", "Using devices", "busbw", "nccl-tests", "Collective", "float", "half", "int", "double")
_PREFIX = r"(?:\[?\d+(?:,\d+)?\]?(?:<std\w+>)?:?[ \t]*)?"
_ROW_BEGIN = rf"{_PREFIX}\d+[ \t]+\d+[ \t]+(?:float|double|half|bfloat16|u?int(?:8|32|64)|f8e\w+|fp8\w*)[ \t]"
BEGINS = re.compile(
    rf"^[ \t]*+(?:{_PREFIX}# nThread \d+|{_PREFIX}# Using devices|{_PREFIX}#[ \t]+size[ \t]+count[ \t]+type"
    rf"|{_PREFIX}# nccl-tests version|{_PREFIX}# Collective test starting|{_ROW_BEGIN})",
    re.M,
)
RESTARTS = re.compile(rf"^[ \t]*+{_PREFIX}# nThread \d+", re.M)
_COMMENT = re.compile(rf"[ \t]*{_PREFIX}#")
_RANK = re.compile(
    r"#[ \t]+Rank[ \t]+(\d+)[ \t]+(?:Group[ \t]+\d+[ \t]+)?Pid[ \t]+\d+[ \t]+on[ \t]+(\S+)[ \t]+device[ \t]+(\d+)"
    r"[ \t]+\[([0-9a-fA-Fx:.]+)\][ \t]+(\S.*?)[ \t]*$"
)
_STARTING = re.compile(r"Collective test starting:[ \t]*(\w+)_perf|(?:^|[/ \t])(\w+)_perf\b")
_TYPES = r"float|double|half|bfloat16|u?int(?:8|32|64)|f8e\w+|fp8\w*"
_TRIPLET = r"([\d.]+)[ \t]+([\d.]+)[ \t]+([\d.]+)[ \t]+(\d+(?:\.\d+)?(?:e[+-]?\d+)?|N/A)"
_ROW = re.compile(
    rf"[ \t]*(\d+)[ \t]+(\d+)[ \t]+({_TYPES})[ \t]+(?:(sum|prod|min|max|avg|mulsum|all|none)[ \t]+)?(?:(-?\d+)[ \t]+)?"
    rf"{_TRIPLET}(?:[ \t]+{_TRIPLET})?[ \t]*$"
)
_NOISE = re.compile(r"NCCL (?:INFO|WARN|version)|^[ \t]*+$")
DTYPES = {"float": "float32", "bfloat16": "bf16", "half": "fp16", "double": "fp64"}
OPS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "broadcast": "broadcast",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "hypercube": "hypercube",
}


@dataclass
class _Row:
    size: int
    dtype: str
    redop: bool
    root: int | None
    places: tuple[tuple[str, float, float, str], ...]


def recognise(text: str) -> float:
    """Its header, or rows of its form."""
    if re.search(r"#[ \t]+size[ \t]+count[ \t]+type|# Avg bus bandwidth|# nThread \d+ ", text):
        return 0.95
    return 0.7 if re.search(rf"^[ \t]*{_ROW_BEGIN}", text, re.M) else 0.0


def read(text: str) -> Parsed:
    """Rates and errors per size and place; names of the GPUs of a run on one host."""
    book = Book(KIND, TOOL)
    rows: list[_Row] = []
    ranks: dict[int, tuple[str, int, str, str]] = {}
    named: str | None = None
    prefix = _common_prefix(text)
    for number, raw in enumerate(text.split("\n"), 1):
        line = prefix.sub("", raw) if prefix else raw
        starting = _STARTING.search(line)
        if starting and not _ROW.match(line):
            named = OPS.get(starting[1] or starting[2], named)
        rank = _RANK.search(line)
        if rank:
            ranks[int(rank[1])] = (rank[2], int(rank[3]), rank[4], rank[5])
        elif _COMMENT.match(line) or _NOISE.search(line) or starting:
            continue
        elif row := _row(line):
            rows.append(row)
        else:
            book.unreadable(number, f"no row of results: {shown(raw)}")
    _gpus(book, ranks)
    _results(book, rows, named or _op(rows, len(ranks)), len(ranks))
    return book.parsed()


def _common_prefix(text: str) -> re.Pattern[str] | None:
    """The rank prefix of a launcher: at the start of each line, or written into the rows as well."""
    if re.search(r"^\[\d+\][ \t]*\d", text, re.M):
        return re.compile(r"\[\d+\]")
    if re.search(r"^\d+:[ \t]+[#\d]", text, re.M):
        return re.compile(r"^\d+:[ \t]")
    return re.compile(r"^\[\d+,\d+\]<std\w+>:") if re.search(r"^\[\d+,\d+\]<std", text, re.M) else None


def _row(line: str) -> _Row | None:
    match = _ROW.match(line)
    if not match:
        return None
    values = match.groups()
    try:
        places = [("out", float(values[6]), float(values[7]), values[8])]
        if values[9] is not None:
            places.append(("in", float(values[10]), float(values[11]), values[12]))
    except ValueError:
        return None
    root = int(values[4]) if values[4] is not None else None
    return _Row(int(values[0]), values[2], values[3] not in (None, "none"), root, tuple(places))


def _op(rows: list[_Row], ranks: int) -> str | None:
    """The collective, from its columns and from busbw over algbw at the largest size; None when two fit."""
    rated = [(row, algbw, busbw) for row in rows for _, algbw, busbw, _ in row.places if algbw >= 0.2]
    if not rated:
        return None
    row, algbw, busbw = max(rated, key=lambda one: one[0].size)
    factor = busbw / algbw
    rooted = row.root is not None and row.root >= 0
    if row.redop:
        if factor > 1.05:
            return "all_reduce"
        return "reduce" if rooted else "all_reduce" if ranks == 2 and factor > 0.95 else "reduce_scatter"
    return "broadcast" if rooted and factor > 0.95 else None


def _results(book: Book, rows: list[_Row], op: str | None, ranks: int) -> None:
    known = {"ranks": ranks} if ranks else {}
    for row in rows:
        if row.size == 0:
            continue
        dtype = DTYPES.get(row.dtype, row.dtype)
        for place, algbw, busbw, wrong in row.places:
            for name, rate in (("algbw", algbw), ("busbw", busbw)):
                book.add(
                    f"nccl_tests_{name}_bytes_per_second",
                    rate * 1e9,
                    op=op or "unknown",
                    bytes=row.size,
                    place=place,
                    dtype=dtype,
                    **known,
                )
            checked = None if wrong == "N/A" or not wrong.isdigit() else int(wrong)
            book.add("nccl_tests_errors_total", checked, op=op or "unknown", bytes=row.size, place=place)


def _gpus(book: Book, ranks: dict[int, tuple[str, int, str, str]]) -> None:
    """The GPUs by name; ranks of several hosts, or two of one device, say nothing about one server's GPUs."""
    devices = [device for _, device, _, _ in ranks.values()]
    if len({host for host, *_ in ranks.values()}) != 1 or len(set(devices)) != len(devices):
        return
    for _, device, bus, name in ranks.values():
        subject = book.gpu(device, pci=pci_address(bus) if ":" in bus else None)
        book.add("gpu_identity_name", name, subject)
