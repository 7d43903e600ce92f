"""nvbandwidth `-j`: test cases with matrices of strings; a case that was waived or failed is listed, never a zero."""

from __future__ import annotations

import re
from typing import Any

from auditor.readers import json_text
from auditor.readers.json_text import Broken, document, rows
from auditor.readers.nvbandwidth import rate
from auditor.readers.parsed import Book, Parsed, pci_address

KIND = "nvbandwidth_json"
TOOL = "nvbandwidth"
HINTS = ('"nvbandwidth"',)
BEGINS = re.compile(r"^[ \t]*+\{(?=\s{0,80}\"nvbandwidth\")", re.M)
_FIGURE = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_DEVICE = re.compile(r"(\d{1,3}): (.+?)(?: \(([0-9A-Fa-f:.]+)\))?(?:: .*)?$")
end = json_text.closing


def recognise(text: str) -> float:
    """Its root key."""
    return 0.99 if '"nvbandwidth"' in text and '"testcases"' in text else 0.0


def read(text: str) -> Parsed:
    """A rate per cell of every test that passed."""
    book = Book(KIND, TOOL)
    try:
        found, line = document(text)
    except Broken as broken:
        book.unreadable(broken.line, broken.why)
        return book.parsed()
    root = found.get("nvbandwidth")
    root = root if isinstance(root, dict) else {}
    driver = root.get("Driver Version")
    if isinstance(driver, str):
        book.add("server_facts_driver_version", driver)
    listed = root.get("GPU Device list")
    for one in listed if isinstance(listed, list) else []:
        device = _DEVICE.match(str(one))
        if device:
            subject = book.gpu(int(device[1]), pci=pci_address(device[3]) if device[3] else None)
            book.add("gpu_identity_name", device[2], subject)
    for case in rows(root.get("testcases")):
        _case(book, case, line)
    return book.parsed()


def _case(book: Book, case: dict[str, Any], line: int) -> None:
    name, status = str(case.get("name", "")), str(case.get("status", ""))
    matrix = case.get("bandwidth_matrix")
    if status != "Passed" or not isinstance(matrix, list):
        book.unreadable(line, f"{name[:60]} gave no figures: {status[:40] or 'no status'}")
        return
    kind = "CPU" if re.search(r"CPU\(row\)", str(case.get("bandwidth_description", ""))) else "GPU"
    for row, cells in enumerate(matrix):
        for column, cell in enumerate(cells if isinstance(cells, list) else []):
            if _FIGURE.fullmatch(str(cell)):
                rate(book, name, kind, row, column, float(cell) * 1e9)
