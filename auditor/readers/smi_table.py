"""`nvidia-smi`: the table a person pastes first. It cuts long names and prints ERR! for lost sensors."""

from __future__ import annotations

import re

from auditor.readers import smi_fields
from auditor.readers.parsed import Book, Parsed, pci_address, shown

KIND = "smi_table"
TOOL = "nvidia-smi"
HINTS = ("NVIDIA-SMI", "Processes:", "MiB")
_DATE = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}"
_EDGE = r"[ \t]*\+-+(?:\n-*)?\+[ \t]*"  # a narrow terminal wraps it
BEGINS = re.compile(
    rf"^[ \t]*+(?:\|[ \t]*NVIDIA-SMI[ \t]+\d+\.\d+|{_DATE}[ \t]*(?=\n{_EDGE}\n[ \t]*\|)"
    r"|\|[ \t]*\d+[ \t]+(?:NVIDIA|Tesla|Quadro|GeForce|GRID|ERR!)\b[^|\n]*\|"
    rf"|{_EDGE}(?=\n[ \t]*\|[ \t]*NVIDIA-SMI)|\|[ \t]*Processes:)",
    re.M,
)
LEAD = re.compile(rf"(?:^[ \t]*+{_DATE}[ \t]*\n)?(?:^{_EDGE}\n)?\Z", re.M)
RESTARTS = re.compile(r"^[ \t]*+\|[ \t]*NVIDIA-SMI[ \t]+\d+\.\d+", re.M)

_HEAD = re.compile(r"(?:Driver|KMD) Version:[ \t]*([\w.]+)(?:.*?CUDA (?:UMD )?Version:[ \t]*([\d.]+))?")
_TIME = re.compile(rf"[ \t]*({_DATE})[ \t]*$")
_FIRST = re.compile(r"[ \t]*(\d{1,3})[ \t]+(\S.*?)[ \t]+(On|Off|N/A|WDDM|TCC|MCDM|ERR!)[ \t]*$")
_BUS = re.compile(r"[ \t]*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9])[ \t]+(\S+)[ \t]*$")
_SECOND = re.compile(
    r"[ \t]*(\d+%|N/A|ERR!|\[N/A\])[ \t]*(\d+C|N/A|ERR!)[ \t]+(P\d+|N/A|ERR!|Unknown)[ \t]+"
    r"(\d+W|N/A|ERR!|Unknown Error)[ \t]*/[ \t]*(\d+W|N/A|ERR!)[ \t]*$"
)
_MEMORY = re.compile(r"[ \t]*(\d+)[ \t]*MiB[ \t]*/[ \t]*(\d+)[ \t]*MiB[ \t]*$")
_USE = re.compile(r"[ \t]*(\d+%|N/A|ERR!)[ \t]+(Default|E\. ?Process|Exclusive_?\w*|Prohibited|N/A)[ \t]*$")
_PROCESS = re.compile(
    r"[ \t]*(\d{1,3})[ \t]+(?:(?:N/A|\d+)[ \t]+(?:N/A|\d+)[ \t]+)?(\d+)[ \t]+(?:M\+)?[CG](?:\+[CG])?[ \t]"
)
_FRAME = re.compile(r"[ \t|+=-]*$")
_CAPTION = re.compile(
    r"[ \t|]*(?:GPU[ \t]|Fan[ \t]|NVIDIA-SMI|Processes:|MIG devices|MIG M\.|ID[ \t]|No running processes"
    r"|No MIG devices|GI[ \t])"
)


def recognise(text: str) -> float:
    """The head line of the table, or its rows."""
    if re.search(r"\|[ \t]*NVIDIA-SMI[ \t]+\d+", text):
        return 0.95
    return 0.7 if re.search(r"\d+MiB[ \t]*/[ \t]*\d+MiB", text) and "|" in text else 0.0


def read(text: str) -> Parsed:
    """The readings of the GPUs in the table; processes only where that part was sent."""
    book = Book(KIND, TOOL)
    subject: str | None = None
    part = "gpus"
    processes: dict[int, set[str]] | None = None
    seen: list[int] = []
    used: dict[str, int] = {}
    for number, line in _rows(text):
        cells = line.strip().strip("|").split("|")
        head = _HEAD.search(line)
        if head:
            book.add("server_facts_driver_version", head[1])
            if head[2]:
                book.add("server_facts_cuda_version", head[2])
        elif printed := _TIME.match(line):
            book.add("smi_table_printed_at", printed[1])
        elif "Processes:" in line:
            part, processes = "processes", {}
        elif re.search(r"\|[ \t]*MIG devices:", line):
            part = "mig"
        elif part == "processes":
            found = _PROCESS.match(cells[0])
            if found and processes is not None:
                processes.setdefault(int(found[1]), set()).add(found[2])
            elif not _FRAME.match(line) and not _CAPTION.match(line):
                book.unreadable(number, f"no row of the process table: {shown(line)}")
        elif part == "mig" or _FRAME.match(line) or _CAPTION.match(line):
            continue
        elif first := _FIRST.match(cells[0]):
            subject = _first_line(book, first, cells, number)
            seen.append(int(first[1]))
        elif subject and len(cells) >= 2 and (_SECOND.match(cells[0]) or _MEMORY.match(cells[1])):
            _second_line(book, subject, cells, number, used)
        elif subject and len(cells) == 3 and not cells[0].strip() and not cells[1].strip():
            mig = smi_fields.flag(cells[2])
            if mig is not None:
                book.add("gpu_identity_mig_enabled", mig, subject, which="current")
        else:
            book.unreadable(number, f"no row of the table: {shown(line)}")
    if seen and seen == list(range(len(seen))):
        book.add("server_facts_gpus_nvml_total", len(seen))
    if processes is not None:
        for index in seen:
            # Memory in use says something only beside the list of who uses it.
            book.add("gpu_identity_processes_total", len(processes.get(index, ())), f"gpu{index}")
            if f"gpu{index}" in used:
                book.add("gpu_identity_memory_used_bytes", used[f"gpu{index}"], f"gpu{index}")
    return book.parsed()


def _rows(text: str) -> list[tuple[int, str]]:
    """The lines; one that a narrow terminal wrapped (it opens a row and does not close it) is joined again."""
    rows: list[tuple[int, str]] = []
    open_ = False
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if (
            open_
            and stripped
            and not stripped.startswith(("|", "+"))
            and len(rows[-1][1]) < 240
            or open_
            and stripped == "|"
        ):
            rows[-1] = (rows[-1][0], rows[-1][1] + line)
        elif stripped:
            rows.append((number, line))
        else:
            open_ = False
            continue
        last = rows[-1][1].strip()
        open_ = last.startswith("|") and not last.endswith("|") and len(last) > 20
    return rows


def _first_line(book: Book, first: re.Match[str], cells: list[str], line: int) -> str:
    index, name = int(first[1]), first[2].strip()
    bus = _BUS.match(cells[1]) if len(cells) > 1 else None
    cut = name.endswith("...")
    subject = book.gpu(index, pci=pci_address(bus[1]) if bus else None)
    if "ERR!" in name:
        book.add("gpu_health_fault", "err", subject, where="name")
    elif cut:
        book.unreadable(line, f"the table cuts the name {name!r}: send `nvidia-smi -L` too")
    else:
        book.add("gpu_identity_name", name, subject)
    if first[3] in ("On", "Off"):
        book.add("gpu_identity_persistence", first[3] == "On", subject)
    elif first[3] in ("WDDM", "TCC", "MCDM"):
        book.add("gpu_identity_driver_model", first[3], subject)
    ecc = cells[2].strip() if len(cells) > 2 else ""
    if ecc.isdigit():
        book.add("gpu_identity_ecc_enabled", True, subject, which="current")
        book.add(
            "gpu_health_ecc_errors_total",
            int(ecc),
            subject,
            kind="uncorrected",
            counter="volatile",
            where="all",
            when="history",
        )
    elif ecc == "Off":
        book.add("gpu_identity_ecc_enabled", False, subject, which="current")
    elif ecc not in ("N/A", ""):
        _fault(book, ecc, subject, "ecc", line)
    return subject


def _second_line(book: Book, subject: str, cells: list[str], line: int, used: dict[str, int]) -> None:
    sensors = _SECOND.match(cells[0])
    if sensors:
        fan, celsius, _, draw, limit = sensors.groups()
        for where, value in (("fan", fan), ("celsius", celsius), ("power", draw), ("power_limit", limit)):
            if value in ("ERR!", "Unknown Error"):
                book.add("gpu_health_fault", "err", subject, where=where)
        if fan.endswith("%"):
            book.add("gpu_identity_fan", True, subject)
        if celsius.endswith("C"):
            book.add("gpu_identity_celsius", int(celsius[:-1]), subject, which="gpu")
        if limit.endswith("W"):
            book.add("gpu_identity_power_limit_watts", int(limit[:-1]), subject, which="now")
    else:
        _fault(book, cells[0].strip(), subject, "sensors", line)
    memory = _MEMORY.match(cells[1])
    if memory:
        used[subject] = int(memory[1]) * 2**20
        book.add("gpu_identity_memory_bytes", int(memory[2]) * 2**20, subject)
    else:
        _fault(book, cells[1].strip(), subject, "memory", line)
    use = _USE.match(cells[2]) if len(cells) > 2 else None
    if use:
        mode = smi_fields.compute_mode(use[2])
        if mode:
            book.add("gpu_identity_compute_mode", mode, subject)


def _fault(book: Book, text: str, subject: str, where: str, line: int) -> None:
    word = next((code for known, code in smi_fields.FAULTS.items() if known in text.lower()), None)
    if word:
        book.add("gpu_health_fault", word, subject, where=where)
    elif text:
        book.unreadable(line, f"not understood: {shown(text)}")
