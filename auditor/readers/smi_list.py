"""`nvidia-smi -L`: the GPUs by name and UUID, and the MIG devices cut out of them."""

from __future__ import annotations

import re

from auditor.readers.parsed import Book, Parsed, shown

KIND = "smi_list"
TOOL = "nvidia-smi"
HINTS = ("(UUID:",)
BEGINS = re.compile(r"^[ \t]*+GPU \d{1,3}: \S[^\n]*\(UUID: ", re.M)
GPU_LINE = re.compile(r"[ \t]*GPU (\d{1,3}): (\S.*?)[ \t]*(?:\(UUID:[ \t]*([\w-]+)\)?)?[ \t]*$")
MIG_LINE = re.compile(r"[ \t]*MIG[ \t]+(\S+)[ \t]+Device[ \t]+(\d+):")


def recognise(text: str) -> float:
    """Lines of GPUs with a UUID."""
    return 0.6 if BEGINS.search(text) else 0.0


def read(text: str) -> Parsed:
    """Names and UUIDs; a GPU with MIG devices under it has MIG on."""
    book = Book(KIND, TOOL)
    seen: list[int] = []
    subject: str | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        gpu = GPU_LINE.match(line)
        if gpu and gpu[3]:
            subject = gpu_line(book, gpu)
            seen.append(int(gpu[1]))
        elif subject and MIG_LINE.match(line):
            book.add("gpu_identity_mig_enabled", True, subject, which="current")
        else:
            book.unreadable(number, f"no GPU and no MIG device: {shown(line)}")
    if seen == list(range(len(seen))):
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
