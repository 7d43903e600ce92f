"""`dcgmi diag` as a text table: one row a test; rows below a test name the GPUs and carry the warnings."""

from __future__ import annotations

import re

from auditor.readers.parsed import Book, Parsed, shown

KIND = "dcgmi_table"
TOOL = "dcgmi"
HINTS = ("Diagnostic", "diagnostic")
BEGINS = re.compile(r"^[ \t]*+(?:Successfully ran diagnostic for group|\|[ \t]*Diagnostic[ \t]*\|[ \t]*Result)", re.M)
RESTARTS = re.compile(r"^[ \t]*+Successfully ran diagnostic for group", re.M)
_ROW = re.compile(r"[ \t]*\|[ \t]*([^|]*?)[ \t]*\|[ \t]*([^|]*?)[ \t]*\|?[ \t]*$")
_STATUS = re.compile(r"(Pass|Fail|Warn|Skip)\b(?:[ \t]*-[ \t]*All|.*?GPUs?:?[ \t]*([\d, ]+))?", re.I)
_HEADING = re.compile(r"[ \t]*[|+]-+[ \t]*\w[\w ]*-*\+?")
_FRAME = re.compile(r"[ \t|+=-]*$")
_NOTE = re.compile(r"(?:Warnings?|Info|Errors?)\b", re.I)
_GPU = re.compile(r"GPU:?[ \t]?(\d+)", re.I)


def recognise(text: str) -> float:
    """Its sentence or its head line."""
    return 0.9 if BEGINS.search(text) else 0.0


def read(text: str) -> Parsed:
    """A result per test; a row that the paste cut is listed."""
    book = Book(KIND, TOOL)
    test: str | None = None
    seen: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        row = _ROW.match(line)
        if _FRAME.match(line) or "Successfully ran" in line or _HEADING.match(line):
            continue
        if not row:
            book.unreadable(number, f"no whole row: {shown(line)}")
            continue
        name, value = row.groups()
        status = _STATUS.match(value)
        if name.lower().startswith(("diagnostic", "metadata")) and value.lower() in ("result", ""):
            continue
        if name.startswith("DCGM Version"):
            book.add("dcgm_version", value)
        elif name.startswith("Driver Version"):
            book.add("server_facts_driver_version", value)
        elif status and not _NOTE.match(name):
            test = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or test or "unnamed"
            gpus = [int(one) for one in re.findall(r"\d+", status[2] or "") if len(one) < 4]
            gpus += [int(one) for one in _GPU.findall(name) if len(one) < 4]
            for subject in [book.gpu(gpu) for gpu in gpus] or ["server"]:
                book.add("dcgm_result", status[1].lower(), subject, test=test)
        elif test and value and (not name or _NOTE.match(name)):
            seen[test] = seen.get(test, -1) + 1
            if not name.lower().startswith("info"):
                book.add("dcgm_warning", value, test=test, error=0, row=seen[test])
        elif not re.match(r"(?:GPU Device IDs|Number of|EUD)", name):
            book.unreadable(number, f"no result: {shown(line)}")
    return book.parsed()
