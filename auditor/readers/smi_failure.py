"""What `nvidia-smi` says when it cannot speak: one line that hides every healthy GPU behind a lost one."""

from __future__ import annotations

import re

from auditor.readers.parsed import Book, Parsed, pci_address, shown
from auditor.records import Subject

KIND = "smi_failure"
TOOL = "nvidia-smi"
HINTS = ("device handle", "initialize NVML", "NVIDIA-SMI has failed", "No devices were found")
_SENTENCES = (
    ("gpu_lost", "handle", r"Unable to determine the device handle for [Gg][Pp][Uu](?:\d{1,2}: )? ?([0-9A-Fa-f:.]*)"),
    ("driver_mismatch", "init", r"Failed to initialize NVML: Driver/library version mismatch"),
    ("no_driver", "driver", r"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"),
    ("no_driver", "init", r"Failed to initialize NVML: (?:Driver Not Loaded|Unknown Error|GPU access|Insufficient)"),
    ("no_devices", "count", r"No devices were found"),
)
BEGINS = re.compile("|".join(re.sub(r"\((?!\?)", "(?:", pattern) for _, _, pattern in _SENTENCES))
_PATTERNS = tuple((word, where, re.compile(pattern)) for word, where, pattern in _SENTENCES)


def recognise(text: str) -> float:
    """One of the sentences."""
    return 0.8 if BEGINS.search(text) else 0.0


def read(text: str) -> Parsed:
    """A fault per sentence: of the GPU it names, else of the server."""
    book = Book(KIND, TOOL)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        for word, where, pattern in _PATTERNS:
            match = pattern.search(line)
            if match:
                address = pci_address(match[1].rstrip(":.")) if match.lastindex else None
                if address:
                    subject = Subject(id=f"gpu:{address}", kind="gpu", pci=address)
                    book.add("gpu_health_fault", word, book.subject(subject), where=where)
                else:
                    book.add("gpu_health_fault", word, where=where)
                break
        else:
            book.unreadable(number, f"not understood: {shown(line)}")
    return book.parsed()
