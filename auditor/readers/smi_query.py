"""`nvidia-smi -q`: keys and values of each GPU, under headings.

The heading is the last line without a value, so that a paste that lost its indentation reads the same.
"""

from __future__ import annotations

import re

from auditor.readers import smi_fields
from auditor.readers.parsed import Book, Parsed, pci_address, shown

KIND = "smi_query"
TOOL = "nvidia-smi"
HINTS = ("NVSMI LOG", "Attached GPUs", "GPU 0", "Product Name")
BEGINS = re.compile(
    r"^[ \t]*+(?:=+NVSMI LOG=+|Attached GPUs[ \t]*:[ \t]*\d+"
    r"|GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d[ \t]*$"
    r"|Product Name[ \t]+:[ \t]*(?:NVIDIA|Tesla|Quadro|GeForce|GRID))",
    re.M,
)
RESTARTS = re.compile(r"^[ \t]*+=+NVSMI LOG=+", re.M)

_GPU = re.compile(r"[ \t]*GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9])[ \t]*$")
_PAIR = re.compile(r"[ \t]*([A-Za-z][^:]{0,58}?)[ \t]*:(?:[ \t]+(.*)|[ \t]*)$")
_HEADING = re.compile(r"[ \t]*([A-Za-z][\w .()/-]{1,48})[ \t]*$")
_AFTER_MIG = re.compile(r"Accounting Mode|Driver Model|Serial Number|GPU UUID|Persistence Mode|Display Mode")


def recognise(text: str) -> float:
    """The log's first line, or its key lines."""
    if "NVSMI LOG" in text:
        return 0.95
    keys = re.findall(
        r"^[ \t]*(Product Name|GPU UUID|FB Memory Usage|Attached GPUs|VBIOS Version|MIG Mode)\b", text, re.M
    )
    return min(0.9, 0.3 * len(set(keys)))


def read(text: str) -> Parsed:
    """The readings of every GPU the log describes."""
    book = Book(KIND, TOOL)
    subject: str | None = None
    heading, in_mig, index = "", False, -1
    processes: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or "NVSMI LOG" in line:
            continue
        gpu, pair = _GPU.match(line), _PAIR.match(line)
        if gpu:
            index += 1
            subject = book.gpu(index, pci=pci_address(gpu[1]))
            heading, in_mig = "", False
        elif pair:
            key, value = pair[1].strip(), (pair[2] or "").strip()
            if _AFTER_MIG.match(key):
                in_mig = False
            if subject is None:
                subject = _server(book, key, value, number)
                index += 1 if subject else 0
            elif not in_mig:
                if key == "Processes" and value in ("None", ""):
                    processes[subject] = 0
                if key == "Process ID":
                    processes[subject] = processes.get(subject, 0) + 1
                _value(book, subject, heading, key, value, number)
            if not value:
                heading = key
        elif heading_match := _HEADING.match(line):
            heading = heading_match[1].strip()
            in_mig = in_mig or heading == "MIG Device"
            if heading == "Processes" and subject:
                processes.setdefault(subject, 0)
        else:
            book.unreadable(number, f"no key and value: {shown(line)}")
    for gpu_id, total in processes.items():
        book.add("gpu_identity_processes_total", total, gpu_id)
    for gpu_id in {f"gpu{one}" for one in range(index + 1)} - set(processes):
        book.drop("gpu_identity_memory_used_bytes", gpu_id)  # who uses it is not said
    return book.parsed()


def _server(book: Book, key: str, value: str, line: int) -> str | None:
    """A line above the first GPU; a log whose head was cut begins with the first GPU's own keys."""
    known = smi_fields.find_server(key)
    if known:
        smi_fields.note(book, known, value, "server", line)
        return None
    if key != "Product Name":
        return None
    subject = book.gpu(0)
    _value(book, subject, "", key, value, line)
    return subject


def _value(book: Book, subject: str, heading: str, key: str, value: str, line: int) -> None:
    known = smi_fields.find(heading, key)
    if known is None:
        fault = smi_fields.FAULTS.get(value.lower())
        if fault:
            book.add("gpu_health_fault", fault, subject, where=re.sub(r"\W+", "_", key.lower()).strip("_"))
        return
    smi_fields.note(book, known, value, subject, line)
    if known.metric == "gpu_identity_uuid" and value.startswith("GPU-"):
        book.gpu(int(subject[3:]), uuid=value)
