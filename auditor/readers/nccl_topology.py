"""NCCL's topology XML: dumped by NCCL, or shipped by a provider whose guests hide the switches."""

from __future__ import annotations

import io
import re
from xml.etree.ElementTree import ParseError

from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from auditor.readers.parsed import Book, Parsed, pci_address

KIND = "nccl_topology"
TOOL = "nccl-topology"
HINTS = ("<system",)
BEGINS = re.compile(r"^[ \t]*+<system version=", re.M)
_GENERATION = {"2.5": 1, "5": 2, "5.0": 2, "8": 3, "8.0": 3, "16": 4, "16.0": 4, "32": 5, "32.0": 5, "64": 6, "64.0": 6}
_HEX = re.compile(r"0x([0-9a-fA-F]{4})")


def recognise(text: str) -> float:
    """Its root element with `<cpu>` or `<pci>` in it."""
    return 0.95 if "<system version=" in text and re.search(r"<(?:cpu|pci) ", text) else 0.0


def end(text: str, at: int) -> int:
    """Where the document that begins at `at` ends; 0 when it was cut."""
    close = text.find("</system>", at)
    return close + len("</system>") if close >= 0 else 0


def read(text: str) -> Parsed:
    """GPUs by address and number, their NVLinks and PCIe links."""
    book = Book(KIND, TOOL)
    start = max(text.find("<system"), 0)
    close = text.find("</system>")
    body = text[start:] if close < 0 else text[start : close + len("</system>")]
    line = text.count("\n", 0, start) + 1
    gpus = -1
    try:
        for _, element in ElementTree.iterparse(io.BytesIO(body.encode("utf-8")), events=("end",)):
            if element.tag != "pci" or not element.get("class", "").lower().startswith("0x0302"):
                continue
            vendor, device = _HEX.match(element.get("vendor", "")), _HEX.match(element.get("device", ""))
            gpus += 1
            subject = book.gpu(gpus, pci=pci_address(element.get("busid", "")))
            if vendor and device:
                book.add("gpu_identity_pci_device", f"{vendor[1]}:{device[1]}".lower(), subject)
            generation = _GENERATION.get(element.get("link_speed", "").split(" ")[0])
            width = element.get("link_width", "")
            if generation:
                book.add("topology_pcie_generation", generation, subject, port="gpu", which="current")
            if width.isdigit() and 0 < int(width) <= 32:
                book.add("topology_pcie_width_lanes", int(width), subject, port="gpu", which="current")
    except (ParseError, DefusedXmlException) as error:
        where = getattr(error, "position", (1, 0))[0]
        book.unreadable(line + where - 1, f"the XML ends or breaks here: {str(error)[:80]}")
    return book.parsed()
