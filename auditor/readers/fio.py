"""fio's JSON: rate of sequential jobs, operations a second and latencies of random ones.

A job's pattern stands in its options (and in the global ones where a job leaves them out), its figures once for
reads and once for writes. A job that moved nothing, or that ended with an error, has no figure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from auditor.readers import json_text
from auditor.readers.json_text import Broken, document, rows
from auditor.readers.parsed import Book, Parsed, shown
from auditor.records import Condition

KIND = "fio"
TOOL = "fio"
HINTS = ("fio version",)
BEGINS = re.compile(r"^[ \t]*+\{(?=\s{0,40}\"fio version\")", re.M)
end = json_text.closing
_SIZE = re.compile(r"(\d{1,15})([kmgt]?)i?b?", re.I)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def recognise(text: str) -> float:
    """The key that only fio writes."""
    return 0.98 if '"fio version"' in text else 0.0


def read(text: str) -> Parsed:
    """Figures of every job, by operation and pattern."""
    book = Book(KIND, TOOL)
    try:
        found, line = document(text)
    except Broken as broken:
        book.unreadable(broken.line, broken.why)
        return book.parsed()
    common = _options(found.get("global options"))
    for job in rows(found.get("jobs")):
        options = {**common, **_options(job.get("job options"))}
        name = shown(str(job.get("jobname", "")))
        if job.get("error"):
            book.unreadable(line, f"job {name} ended with error {job['error']}")
            continue
        for op in ("read", "write"):
            figures = job.get(op)
            if isinstance(figures, dict) and _number(figures.get("io_bytes")):
                _job(book, op, figures, options)
    return book.parsed()


def _options(given: object) -> dict[str, str]:
    return {str(name): str(value) for name, value in given.items()} if isinstance(given, dict) else {}


def _job(book: Book, op: str, figures: Mapping[str, Any], options: Mapping[str, str]) -> None:
    pattern = "random" if "rand" in options.get("rw", options.get("readwrite", "")) else "sequential"
    direct = options.get("direct", "0") not in ("0", "")
    with_: dict[str, Condition] = {
        "op": op,
        "pattern": pattern,
        "block": _bytes(options.get("bs", options.get("blocksize", "4096"))),
        "bytes": _bytes(options.get("size", options.get("filesize", "0"))),
        "direct": direct,
        "tool": "fio",
    }
    if pattern == "random":
        rate = _number(figures.get("iops"))
        if rate:
            book.add("storage_operations_per_second", rate, **with_)
        _latencies(book, op, figures, direct)
    else:
        rate = _number(figures.get("bw_bytes"))
        if rate:
            book.add("storage_bytes_per_second", rate, **with_)


def _latencies(book: Book, op: str, figures: Mapping[str, Any], direct: bool) -> None:
    latency = figures.get("clat_ns")
    percentiles = latency.get("percentile") if isinstance(latency, dict) else None
    for stat, key in (("p50", "50.000000"), ("p99", "99.000000")):
        nanoseconds = _number(percentiles.get(key)) if isinstance(percentiles, dict) else None
        if nanoseconds:
            seconds = nanoseconds / 1e9
            book.add("storage_latency_seconds", seconds, op=op, pattern="random", stat=stat, direct=direct, tool="fio")


def _number(value: object) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e18:
        return float(value)
    return None


def _bytes(text: str) -> int:
    match = _SIZE.fullmatch(text.split(",")[0].strip())
    return int(match[1]) << _UNITS[match[2].lower()] if match else 0
