"""nvbandwidth's text: one matrix a test case. A test that was waived or failed is listed, never a zero."""

from __future__ import annotations

import re

from auditor.readers.parsed import Book, Parsed, pci_address, shown

KIND = "nvbandwidth"
TOOL = "nvbandwidth"
HINTS = ("nvbandwidth", "memcpy", "Running ")
BEGINS = re.compile(
    r"^[ \t]*+nvbandwidth Version|^[ \t]*+Running [a-z0-9_]+_(?:ce|sm)\.|^[ \t]*+memcpy (?:CE|SM) [^\n]*bandwidth", re.M
)
RESTARTS = re.compile(r"^[ \t]*+nvbandwidth Version", re.M)
_RUNNING = re.compile(r"[ \t]*Running ([a-z0-9_]+)\.")
_DEVICE = re.compile(r"[ \t]*Device (\d{1,3}): (.+?)(?: \(([0-9A-Fa-f:.]+)\))?[ \t]*$")
_CAPTION = re.compile(r"[ \t]*memcpy (?:CE|SM) ([CG]PU)\(row\) (<-|->|<->) GPU\(column\).*\((GB/s)\)", re.I)
_COLUMNS = re.compile(r"[ \t]+\d{1,3}(?:[ \t]+\d{1,3})*[ \t]*$")
_ROW = re.compile(r"[ \t]*(\d{1,3})((?:[ \t]+(?:\d+\.\d+|N/A))+)[ \t]*$")
_HEAD = re.compile(
    r"[ \t]*(?:nvbandwidth Version|Built from|CUDA (?:Runtime|Driver) Version|Driver Version|SUM |NOTE|MIN |MAX "
    r"|AVERAGE |[\w.-]+[ \t]*$|MPI|Process)"
)
_WAIVED = re.compile(r"waived|not found|error", re.I)


def recognise(text: str) -> float:
    """Its head line, or a test it runs."""
    return 0.95 if re.search(r"nvbandwidth Version|^[ \t]*Running \w+_(?:ce|sm)\.", text, re.M) else 0.0


def read(text: str) -> Parsed:
    """A rate per cell."""
    book = Book(KIND, TOOL)
    test, columns, caption = "", [0], ""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        running, device, row = _RUNNING.match(line), _DEVICE.match(line), _ROW.match(line)
        if running:
            test, columns, caption = running[1], [], ""
        elif device:
            book.add(
                "gpu_identity_name",
                device[2],
                book.gpu(int(device[1]), pci=pci_address(device[3]) if device[3] else None),
            )
        elif driver := re.match(r"[ \t]*Driver Version: ([\d.]+)", line):
            book.add("server_facts_driver_version", driver[1])
        elif captioned := _CAPTION.match(line):
            caption = captioned[1].upper()
        elif caption and _COLUMNS.match(line):
            columns = [int(one) for one in line.split()]
        elif row and caption:
            cells = row[2].split()
            if len(cells) != len(columns):
                book.unreadable(number, f"a row of {len(cells)} cells under {len(columns)} columns")
                continue
            for column, cell in zip(columns, cells, strict=True):
                if cell != "N/A":
                    rate(book, test, caption, int(row[1]), column, float(cell) * 1e9)
        elif _WAIVED.search(line):
            book.unreadable(number, f"{test or 'a test'} gave no figures: {shown(line)}")
        elif not _HEAD.match(line):
            book.unreadable(number, f"not understood: {shown(line)}")
    return book.parsed()


def rate(book: Book, test: str, row_kind: str, row: int, column: int, value: float) -> None:
    """One cell of a test's matrix under the metric that says the same, else under nvbandwidth's own."""
    copies = {"host_to_device_memcpy_ce": "h2d", "device_to_host_memcpy_ce": "d2h"}
    if row_kind == "CPU":
        subject = book.gpu(column)
        if test in copies:
            book.add(
                "host_copy_bytes_per_second", value, subject, direction=copies[test], memory="pinned", load="alone"
            )
        else:
            book.add("nvbandwidth_bytes_per_second", value, subject, test=test)
        return
    if row == column:
        book.add("nvbandwidth_bytes_per_second", value, book.gpu(column), test=test)
        return
    pair = f"gpu{min(row, column)}-gpu{max(row, column)}"
    book.gpu(row)
    book.gpu(column)
    source = column if "read" in test else row
    if test in ("device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce"):
        kind = "read" if "read" in test else "write"
        book.add("peer_copy_bytes_per_second", value, pair, direction="one_way", from_=f"gpu{source}", kind=kind)
    else:
        book.add("nvbandwidth_bytes_per_second", value, pair, test=test, from_=f"gpu{source}")
