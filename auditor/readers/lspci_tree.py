"""`lspci -tv`: the tree of buses. The address of a device is its bus (the last bracket to its left) and its slot."""

from __future__ import annotations

import re

from auditor.readers import pci_devices
from auditor.readers.parsed import Book, Parsed, shown

KIND = "lspci_tree"
TOOL = "lspci"
HINTS = ("]-",)
BEGINS = re.compile(r"^[ \t]*+[-+\\|][-+]?-?\[(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}(?:-[0-9a-f]{2})?\]-", re.M)
RESTARTS = re.compile(r"^[ \t]*+-[+-]?-?\[", re.M)  # the root; branches begin with +, \ or |
_BUS = re.compile(r"\[(?:([0-9a-f]{4,8}):)?([0-9a-f]{2})(?:-[0-9a-f]{2})?\]")
_DEVICE = re.compile(r"[-+\\]-?([0-9a-f]{2}\.[0-7])(?:  |$)[ \t]*(.*)$")
_BRANCH = re.compile(r"[^ |\t]")


def recognise(text: str) -> float:
    """Branches with bus brackets."""
    return 0.9 if BEGINS.search(text) else 0.0


def read(text: str) -> Parsed:
    """GPUs by address and number, and the devices only guests have."""
    book = Book(KIND, TOOL)
    virtual: dict[str, None] = {}
    above: list[tuple[int, str, str]] = []
    gpus = -1
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip(" |\t"):
            continue
        branch = _BRANCH.search(line)
        start = branch.start() if branch else 0
        device = _DEVICE.search(line)
        edge = device.start() if device else len(line)
        above = [one for one in above if one[0] < start]
        found = False
        for bus in _BUS.finditer(line, 0, edge):
            domain = bus[1] or (above[-1][1] if above else "0000")
            above.append((bus.start(), domain, bus[2]))
            found = True
        if not device:
            if not found:
                book.unreadable(number, f"no branch of the tree: {shown(line)}")
            continue
        name = device[2]
        virtual.update(dict.fromkeys(pci_devices.virtual(name)))
        if pci_devices.BMC.search(name):
            book.add("server_facts_bmc", True)
        if pci_devices.NVIDIA.search(name) and not pci_devices.NOT_A_GPU.search(name) and above:
            gpus += 1
            domain, bus_number = above[-1][1:]
            subject = book.gpu(gpus, pci=f"{int(domain, 16):04x}:{bus_number}:{device[1]}")
            known = pci_devices.DEVICE.search(name)
            if known:
                book.add("gpu_identity_pci_device", f"10de:{known[1]}", subject)
    if gpus >= 0:
        book.add("server_facts_gpus_on_bus_total", gpus + 1)
    if virtual:
        book.add("server_facts_virtual_pci", ",".join(virtual))
    return book.parsed()
