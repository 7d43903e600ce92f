"""`lspci`, plain, -n, -nn and -vvv: GPUs on the bus, devices only guests have, links and ACS of every port."""

from __future__ import annotations

import re

from auditor.readers import pci_devices
from auditor.readers.parsed import Book, Parsed, pci_address, shown

KIND = "lspci"
TOOL = "lspci"
HINTS = (": ",)
_ADDRESS = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_DEVICE = _ADDRESS + r" (?:[A-Z0-9][A-Za-z][\w /-]{1,40}(?: \[[0-9a-f]{4}\])?: \S|[0-9a-f]{4}: [0-9a-f]{4}:)"
BEGINS = re.compile(rf"^[ \t]*+{_DEVICE}", re.M)
RESTARTS = re.compile(r"^[ \t]*+(?:0000:)?00:00\.0 ", re.M)
_LINE = re.compile(
    rf"[ \t]*({_ADDRESS}) (?:([A-Z0-9][A-Za-z][^:\[]{{1,50}}?)(?: \[([0-9a-f]{{4}})\])?|([0-9a-f]{{4}})): (.*)$"
)
_IDS = re.compile(r"\b([0-9a-f]{4}:[0-9a-f]{4})\b")
_CAPABILITY = re.compile(r"[ \t]*Lnk(Cap|Sta):.*?Speed ([\d.]+)GT/s[^,\n]*, Width x(\d+)")
_ACS = re.compile(r"[ \t]*ACSCtl:.*\bReqRedir([+-])")
_GENERATION = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}
_LOST = re.compile(r"\(rev ff\)|Unknown header type 7f", re.I)


def recognise(text: str) -> float:
    """Device lines with an address and a class."""
    return min(0.9, 0.45 * len(BEGINS.findall(text)))


def read(text: str) -> Parsed:
    """GPUs, virtual devices, BMC, and what -vvv says of links."""
    book = Book(KIND, TOOL)
    virtual: dict[str, None] = {}
    redirected: list[str] = []
    acs_seen = False
    gpus = -1
    subject: str | None = None
    address = ""
    for number, line in enumerate(text.split("\n"), 1):
        device = _LINE.match(line)
        if device:
            address = pci_address(device[1]) or device[1]
            subject = None
            virtual.update(dict.fromkeys(pci_devices.virtual(device[5])))
            if pci_devices.BMC.search(device[5]):
                book.add("server_facts_bmc", True)
            if _is_gpu(device):
                gpus += 1
                subject = book.gpu(gpus, pci=address)
                _identity(book, device, subject)
        elif address and (link := _CAPABILITY.match(line)):
            if subject:
                _link(book, subject, link)
        elif address and (acs := _ACS.match(line)):
            acs_seen = True
            if acs[1] == "+":
                redirected.append(address)
        elif line.strip() and not (address and line.startswith(("\t", " "))):
            book.unreadable(number, f"no PCI device: {shown(line)}")
        if subject and _LOST.search(line):
            book.add("gpu_health_fault", "gpu_lost", subject, where="pci")
    if gpus >= 0 and _whole(text):
        book.add("server_facts_gpus_on_bus_total", gpus + 1)
    if virtual:
        book.add("server_facts_virtual_pci", ",".join(virtual))
    if acs_seen:
        book.add("topology_acs_redirect", ",".join(redirected))
    return book.parsed()


def _whole(text: str) -> bool:
    """A list of devices counts the GPUs; an excerpt of -vvv, a few blocks of interest, does not."""
    devices = len(BEGINS.findall(text))
    return not re.search(r"^[ \t]+(?:Control|LnkSta|LnkCap):", text, re.M) or devices > 20


def _is_gpu(device: re.Match[str]) -> bool:
    kind, code = (device[2] or "").lower(), device[3] or device[4] or ""
    display = code.startswith("03") or kind.startswith(("3d controller", "vga compatible", "display controller"))
    return display and bool(pci_devices.NVIDIA.search(device[5]))


def _identity(book: Book, device: re.Match[str], subject: str) -> None:
    ids = [one for one in _IDS.findall(device[5]) if one.startswith("10de:")]
    named = pci_devices.DEVICE.search(device[5])
    if ids:
        book.add("gpu_identity_pci_device", ids[0], subject)
    elif named:
        book.add("gpu_identity_pci_device", f"10de:{named[1]}", subject)


def _link(book: Book, subject: str, link: re.Match[str]) -> None:
    which = "max" if link[1] == "Cap" else "current"
    generation = _GENERATION.get(link[2])
    if generation:
        book.add("topology_pcie_generation", generation, subject, port="gpu", which=which)
    book.add("topology_pcie_width_lanes", int(link[3]), subject, port="gpu", which=which)
