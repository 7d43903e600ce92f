"""/proc/cpuinfo: the CPU's name and whether its flags hold `hypervisor`."""

from __future__ import annotations

import re

from auditor.readers.parsed import Book, Parsed, shown

KIND = "cpuinfo"
TOOL = "cpuinfo"
HINTS = ("processor", "vendor_id", "model name", "flags")
BEGINS = re.compile(
    r"^[ \t]*+(?:processor[ \t]+: \d+[ \t]*$|vendor_id[ \t]+: \w+|model name[ \t]+: \S|flags[ \t]+: fpu )", re.M
)
RESTARTS = re.compile(r"^[ \t]*+processor[ \t]+: 0[ \t]*$", re.M)
_PAIR = re.compile(r"[ \t]*([a-z_][a-zA-Z_ ]{1,24}?)[ \t]*:[ \t]*(.*?)[ \t]*$")


def recognise(text: str) -> float:
    """Its keys."""
    return 0.85 if re.search(r"^(?:model name[ \t]+:|flags[ \t]+: fpu|vendor_id[ \t]+:)", text, re.M) else 0.1


def read(text: str) -> Parsed:
    """Name, flag, and microcode of the first processor that tells them."""
    book = Book(KIND, TOOL)
    for number, line in enumerate(text.split("\n"), 1):
        pair = _PAIR.match(line)
        if not line.strip():
            continue
        if not pair:
            book.unreadable(number, f"no key and value: {shown(line)}")
        elif pair[1] == "model name" and pair[2]:
            book.add("server_facts_cpu_model", pair[2])
        elif pair[1] == "microcode" and pair[2]:
            book.add("server_facts_microcode", pair[2])
        elif pair[1] == "flags" and len(pair[2].split()) > 40:
            book.add("server_facts_hypervisor_flag", "hypervisor" in pair[2].split())
    return book.parsed()
