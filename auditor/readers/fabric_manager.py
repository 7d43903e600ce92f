"""fabricmanager.log: errors of the NVSwitches. The options printed at start hold the word "failure": that is none."""

from __future__ import annotations

import re
from collections import Counter

from auditor.readers.parsed import Book, Parsed, shown

KIND = "fabric_manager"
TOOL = "fabricmanager"
HINTS = ("[INFO]", "[ERROR]", "[WARNING]", "[CRITICAL]", "[DEBUG]", "Fabric Manager", "Message ")
_STAMP = r"\[[A-Z][a-z]{2} [ \d]\d \d{4} \d\d:\d\d:\d\d\] \[(?:INFO|ERROR|WARNING|CRITICAL|DEBUG)\]"
BEGINS = re.compile(rf"^[ \t]*+{_STAMP}|^Fabric Manager Log initializing|^Message (?:payload|header) details:", re.M)
_LINE = re.compile(r"[ \t]*\[[A-Z][a-z]{2} [ \d]\d \d{4} \d\d:\d\d:\d\d\] \[(\w+)\][ \t]*(?:\[tid \d+\])?[ \t]*(.*)$")
_SXID = re.compile(r"detected NVSwitch (non-fatal|fatal) error (\d{4,6})", re.I)
_CONTINUED = re.compile(r"[ \t]*(?:Message (?:payload|header) details|Fabric Manager Log initializing)")


def recognise(text: str) -> float:
    """Its stamp with level."""
    return 0.9 if BEGINS.search(text) else 0.0


def read(text: str) -> Parsed:
    """NVSwitch errors by number, and every other line of level ERROR or CRITICAL."""
    book = Book(KIND, TOOL)
    counts: Counter[tuple[int, bool]] = Counter()
    for number, line in enumerate(text.split("\n"), 1):
        match = _LINE.match(line)
        if not line.strip() or _CONTINUED.match(line):
            continue
        if not match:
            book.unreadable(number, f"no line of this log: {shown(line)}")
            continue
        level, message = match.groups()
        sxid = _SXID.search(message)
        if sxid:
            counts[int(sxid[2]), sxid[1].lower() == "fatal"] += 1
        elif level in ("ERROR", "CRITICAL") and message:
            book.add("kernel_log_event", message.strip(), kind="fabric_manager_error", when="history")
    for (sxid_number, fatal), total in counts.items():
        book.add("kernel_log_sxid_total", total, sxid=sxid_number, fatal=fatal, when="history")
    return book.parsed()
