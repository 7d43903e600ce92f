"""nccl-tests `-J`: the same figures as its text, by name. The environment it prints holds secrets and is not read."""

from __future__ import annotations

import re
from typing import Any

from auditor.readers import json_text
from auditor.readers.json_text import Broken, document, rows
from auditor.readers.nccl_tests import DTYPES, OPS
from auditor.readers.parsed import Book, Parsed

KIND = "nccl_tests_json"
TOOL = "nccl-tests"
HINTS = ("out_of_place",)
BEGINS = re.compile(r"^[ \t]*+\{(?=\s{0,40}\"(?:version|start_time|args|nccl_version|config|results)\")", re.M)
end = json_text.closing


def recognise(text: str) -> float:
    """Keys that only it writes."""
    return 0.97 if '"out_of_place"' in text and ('"bus_bw"' in text or '"nccl_version"' in text) else 0.0


def read(text: str) -> Parsed:
    """Rates and errors per size and place."""
    book = Book(KIND, TOOL)
    try:
        found, _ = document(text)
    except Broken as broken:
        book.unreadable(broken.line, broken.why)
        return book.parsed()
    version = found.get("nccl_version")
    if isinstance(version, (str, int)):
        book.add("collectives_nccl_version", str(version))
    ranks = len(rows(found.get("devices")))
    op = _op(found)
    for row in rows(found.get("results")):
        size, dtype = row.get("size"), str(row.get("type", ""))
        if not isinstance(size, int) or size <= 0:
            continue
        for key, place in (("out_of_place", "out"), ("in_place", "in")):
            body = row.get(key)
            if isinstance(body, dict):
                _place(book, body, op, size, DTYPES.get(dtype, dtype), place, ranks)
    return book.parsed()


def _place(book: Book, body: dict[str, Any], op: str, size: int, dtype: str, place: str, ranks: int) -> None:
    known = {"ranks": ranks} if ranks else {}
    for key, metric in (("alg_bw", "algbw"), ("bus_bw", "busbw")):
        value = body.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            book.add(
                f"nccl_tests_{metric}_bytes_per_second",
                value * 1e9,
                op=op,
                bytes=size,
                place=place,
                dtype=dtype,
                **known,
            )
    wrong = body.get("nwrong")
    checked = wrong if isinstance(wrong, int) and not isinstance(wrong, bool) and wrong >= 0 else None
    book.add("nccl_tests_errors_total", checked, op=op, bytes=size, place=place)


def _op(found: dict[str, Any]) -> str:
    """The collective, from the program's name in `args`."""
    args = found.get("args")
    words = args if isinstance(args, str) else " ".join(str(one) for one in args) if isinstance(args, list) else ""
    program = re.search(r"(\w+?)_perf", words)
    return OPS.get(program[1], "unknown") if program else "unknown"
