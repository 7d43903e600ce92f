"""`lscpu`: the CPU, and on x86 whether it knows a hypervisor. "Virtualization: VT-x" only says what it could host."""

from __future__ import annotations

import re

from auditor.readers.parsed import Book, Parsed, shown

KIND = "lscpu"
TOOL = "lscpu"
HINTS = ("Architecture:", "op-mode", "Hypervisor", "Thread(s)", "NUMA node")
BEGINS = re.compile(
    r"^[ \t]*+(?:Architecture:[ \t]+(?:x86_64|aarch64|i686|ppc64le)|CPU op-mode\(s\):|Hypervisor vendor:"
    r"|Thread\(s\) per core:|NUMA node\(s\):)",
    re.M,
)
RESTARTS = re.compile(r"^[ \t]*+Architecture:", re.M)
_PAIR = re.compile(r"[ \t]*([A-Z][^:]{1,40}):[ \t]*(.*?)[ \t]*$")
_COUNTS = {
    "CPU(s)": "server_facts_cpus_total",
    "Socket(s)": "server_facts_sockets_total",
    "NUMA node(s)": "server_facts_numa_nodes_total",
}
_TEXTS = {
    "Architecture": "server_facts_architecture",
    "Model name": "server_facts_cpu_model",
    "Hypervisor vendor": "server_facts_cpuid_vendor",
}


def recognise(text: str) -> float:
    """At least two of its keys."""
    keys = (
        "Architecture:",
        "CPU op-mode(s):",
        "Thread(s) per core:",
        "Socket(s):",
        "NUMA node(s):",
        "Hypervisor vendor:",
    )
    return min(0.95, 0.3 * sum(1 for key in keys if key in text))


def read(text: str) -> Parsed:
    """CPU facts; the hypervisor flag from the list of flags, on x86 only."""
    book = Book(KIND, TOOL)
    x86 = False
    for number, line in enumerate(text.split("\n"), 1):
        pair = _PAIR.match(line)
        if not pair:
            if line.strip():
                book.unreadable(number, f"no key and value: {shown(line)}")
            continue
        key, value = pair.groups()
        if key == "Architecture":
            x86 = value == "x86_64"
        if key in _COUNTS:
            if value.isdigit():
                book.add(_COUNTS[key], int(value))
            elif value:
                book.unreadable(number, f"{key}: {shown(value)!r} is no count")
        elif key in _TEXTS and value:
            book.add(_TEXTS[key], value)
        elif key == "Flags" and x86 and value:
            flags = value.split()
            if "hypervisor" in flags:
                book.add("server_facts_hypervisor_flag", True)
            elif len(flags) > 40 and "fpu" in flags and not value.endswith("..."):
                book.add("server_facts_hypervisor_flag", False)
    return book.parsed()
