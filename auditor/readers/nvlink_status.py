"""`nvidia-smi nvlink -s`: the links of each GPU and their rate, or why there are none.

Health checks of others print the same link lines after a sentence of their own; the GPU is taken from there.
"""

from __future__ import annotations

import re

from auditor.readers import smi_list
from auditor.readers.parsed import Book, Parsed, shown
from auditor.records import Subject

KIND = "nvlink_status"
TOOL = "nvidia-smi"
HINTS = ("Link ", "(UUID:", "nvlinks")
BEGINS = re.compile(
    r"^[ \t]*+(?:GPU \d{1,3}: \S[^\n]*(?:\(UUID: |\n[ \t]*Link \d)|Link \d{1,2}: (?:[\d.]+ GB/s|<?[iI]n[aA]ctive>?))",
    re.M,
)
RESTARTS = smi_list.RESTARTS
WITHIN = re.compile(r"GPU \d{1,3} has nvlinks inactive")
_LINK = re.compile(r"(?:^|[ \t])Link (\d{1,2}):[ \t]*(?:(\d+(?:\.\d+)?)[ \t]*GB/s|(<?inactive>?))[ \t]*$", re.I)
_OTHER_GPU = re.compile(r"\bGPU (\d{1,3})\b")
_ALL_INACTIVE = re.compile(r"all links are in[- ]?active", re.I)
_NONE = re.compile(r"does not have or support Nvlink", re.I)
_MIG = re.compile(r"not supported for Devices in MIG mode", re.I)


def recognise(text: str) -> float:
    """Link lines, or one of the sentences that stand in their place."""
    if re.search(r"Link \d{1,2}:[ \t]*(?:[\d.]+ GB/s|<?inactive)", text, re.I):
        return 0.9
    return 0.9 if _ALL_INACTIVE.search(text) or _NONE.search(text) or _MIG.search(text) else 0.0


def read(text: str) -> Parsed:
    """State and rate of every link, the count of active ones, and the reasons for none."""
    book = Book(KIND, TOOL)
    subject: str | None = None
    complete = False
    active: dict[str, int] = {}
    seen: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        gpu, link = smi_list.GPU_LINE.match(line), _LINK.search(line)
        if gpu and not link:
            subject, complete = smi_list.gpu_line(book, gpu), True
            continue
        if link:
            named = _OTHER_GPU.search(line[: link.start()])
            if named:
                subject, complete = book.gpu(int(named[1])), False
            if subject is None:
                book.unreadable(number, "a link, but no GPU is named above it")
                continue
            seen[subject] = seen.get(subject, 0) + 1
            if complete:
                active[subject] = active.get(subject, 0) + (link[2] is not None)
            _link(book, subject, link)
        elif subject and _ALL_INACTIVE.search(line):
            active[subject] = 0
        elif subject and _NONE.search(line):
            book.add("topology_nvlinks_supported_total", None, subject)
        elif subject and _MIG.search(line) or subject and smi_list.MIG_LINE.match(line):
            book.add("gpu_identity_mig_enabled", True, subject, which="current")
        else:
            book.unreadable(number, f"no GPU and no link: {shown(line)}")
    for one, total in active.items():
        book.add("topology_nvlinks_active_total", total, one)
        if one in seen:
            book.add("topology_nvlinks_supported_total", seen[one], one)
    return book.parsed()


def _link(book: Book, subject: str, link: re.Match[str]) -> None:
    own = book.subject(Subject(id=f"{subject}/link{int(link[1])}", kind="link", index=int(link[1])))
    book.add("topology_link_state", "active" if link[2] else "inactive", own)
    if link[2]:
        book.add("topology_link_bytes_per_second", float(link[2]) * 1e9, own)
