"""`nvidia-smi -L`: the GPUs by name and UUID, and the MIG devices cut out of them."""

from __future__ import annotations

import re

from auditor.readers.parsed import Book, Parsed, shown

KIND = "smi_list"
TOOL = "nvidia-smi"
HINTS = ("(UUID:",)
BEGINS = re.compile(r"^[ \t]*+GPU \d{1,3}: \S[^\n]*\(UUID: ", re.M)
RESTARTS = re.compile(r"^[ \t]*+GPU 0: ", re.M)
_GLUED = re.compile(r"(?<=\))[ \t]*(?=GPU \d{1,3}: |MIG \d)")  # a chat that lost the ends of lines
GPU_LINE = re.compile(r"[ \t]*GPU (\d{1,3}): (\S(?:(?!\(UUID:).)*?)[ \t]*(?:\(UUID:[ \t]*([\w-]+)\)?)?[ \t]*$")
MIG_LINE = re.compile(r"[ \t]*MIG[ \t]+(\S+)[ \t]+Device[ \t]+(\d+):")


def recognise(text: str) -> float:
    """Lines of GPUs with a UUID."""
    return 0.6 if BEGINS.search(text) else 0.0


def read(text: str) -> Parsed:
    """Names and UUIDs; a GPU with MIG devices under it has MIG on."""
    book = Book(KIND, TOOL)
    seen: dict[int, str] = {}
    subject: str | None = None
    lines = ((at, piece) for at, line in enumerate(text.split("\n"), 1) for piece in _GLUED.split(line))
    for number, line in lines:
        if not line.strip():
            continue
        gpu = GPU_LINE.match(line)
        if gpu and gpu[3] and seen.get(int(gpu[1]), gpu[3]) != gpu[3]:
            book.unreadable(number, f"a second, different GPU {gpu[1]}; the first is kept")
            subject = None
        elif gpu and gpu[3]:
            subject = gpu_line(book, gpu)
            seen[int(gpu[1])] = gpu[3]
        elif subject and MIG_LINE.match(line):
            book.add("gpu_identity_mig_enabled", True, subject, which="current")
        else:
            book.unreadable(number, f"no GPU and no MIG device: {shown(line)}")
    if list(seen) == list(range(len(seen))):
        book.add("server_facts_gpus_nvml_total", len(seen))
    return book.parsed()


def gpu_line(book: Book, match: re.Match[str]) -> str:
    """Note what one `GPU 0: NAME (UUID: …)` line says; the GPU's id."""
    uuid = match[3] if match[3] and match[3].startswith("GPU-") else None
    subject = book.gpu(int(match[1]), uuid=uuid)
    book.add("gpu_identity_name", match[2].strip(), subject)
    if uuid:
        book.add("gpu_identity_uuid", uuid, subject)
    return subject
