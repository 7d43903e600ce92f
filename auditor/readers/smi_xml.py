"""`nvidia-smi -q -x`: the same facts as XML, dialects v10 to v13; a document that was cut is read as far as it goes."""

from __future__ import annotations

import io
import re
from xml.etree.ElementTree import Element, ParseError

from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from auditor.readers import smi_fields
from auditor.readers.parsed import Book, Parsed, pci_address

KIND = "smi_xml"
TOOL = "nvidia-smi"
HINTS = ("nvidia_smi_log",)
BEGINS = re.compile(
    r"^[ \t]*+(?:<\?xml[^>\n]*>[ \t]*(?=\n[ \t]*<(?:!DOCTYPE nvidia|nvidia_smi_log))|<nvidia_smi_log)", re.M
)
RESTARTS = re.compile(r"^[ \t]*+<nvidia_smi_log", re.M)


def recognise(text: str) -> float:
    """The root element."""
    return 0.99 if "<nvidia_smi_log" in text else 0.0


def read(text: str) -> Parsed:
    """The readings of every `<gpu>` element."""
    book = Book(KIND, TOOL)
    start = text.find("<nvidia_smi_log")
    close = text.find("</nvidia_smi_log>")
    if start < 0:
        book.unreadable(1, "no <nvidia_smi_log> in the text")
        return book.parsed()
    body = text[start:] if close < 0 else text[start : close + len("</nvidia_smi_log>")]
    line = text.count("\n", 0, start) + 1
    index = -1
    parents: list[Element] = []
    try:
        for event, element in ElementTree.iterparse(io.BytesIO(body.encode("utf-8")), events=("start", "end")):
            if event == "start":
                parents.append(element)
                continue
            parents.pop()
            if len(parents) == 1 and element.tag == "gpu":
                index += 1
                _gpu(book, element, index, line)
                parents[0].remove(element)
            elif len(parents) == 1:
                _server(book, element, line)
    except (ParseError, DefusedXmlException) as error:
        where = getattr(error, "position", (1, 0))[0]
        book.unreadable(line + where - 1, f"the XML ends or breaks here: {str(error)[:80]}")
        if len(parents) > 1 and parents[1].tag == "gpu":
            _gpu(book, parents[1], index + 1, line)
    return book.parsed()


def end(text: str, at: int) -> int:
    """Where the document that begins at `at` ends; 0 when it was cut."""
    close = text.find("</nvidia_smi_log>", at)
    return close + len("</nvidia_smi_log>") if close >= 0 else 0


def _server(book: Book, element: Element, line: int) -> None:
    for known in smi_fields.SERVER_FIELDS:
        if element.tag in known.tags:
            smi_fields.note(book, known, element.text or "", "server", line)


def _gpu(book: Book, element: Element, index: int, line: int) -> None:
    uuid = (element.findtext("uuid") or "").strip()
    subject = book.gpu(index, uuid=uuid if uuid.startswith("GPU-") else None, pci=pci_address(element.get("id", "")))
    for known in smi_fields.GPU_FIELDS:
        for tag in known.tags:
            value = element.findtext(tag)
            if value is not None:
                smi_fields.note(book, known, value, subject, line)
                break
    processes = element.find("processes")
    if processes is None:
        book.drop("gpu_identity_memory_used_bytes", subject)  # who uses it is not said
    else:
        book.add("gpu_identity_processes_total", len(processes.findall("process_info")), subject)
