"""The PCIe link of a device and of each port above it, as sysfs tells them at this moment."""

import os
import re
from typing import List, NamedTuple, Optional

_GENERATION = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class Link(NamedTuple):
    """One end of a link: "gpu" or the upstream port's address, its generation and width (None: not told)."""

    port: str
    generation: Optional[int]
    lanes: Optional[int]


def links(pci: str, root: str = "/sys/bus/pci/devices") -> List[Link]:
    """The links from the device up to its root port."""
    path = os.path.realpath(os.path.join(root, pci.lower()))
    found = []
    name = "gpu"
    while _ADDRESS.fullmatch(os.path.basename(path)):
        link = Link(name, _generation(_read(path, "current_link_speed")), _lanes(_read(path, "current_link_width")))
        if link.generation is not None or link.lanes is not None:
            found.append(link)
        path = os.path.dirname(path)
        name = os.path.basename(path)
    return found


def numa_node(pci: str, root: str = "/sys/bus/pci/devices") -> Optional[int]:
    """The device's NUMA node, or None where it is hidden (-1) or not told."""
    text = _read(os.path.join(root, pci.lower()), "numa_node")
    return int(text) if text.isdigit() else None


def _read(path: str, name: str) -> str:
    try:
        with open(os.path.join(path, name), encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _generation(text: str) -> Optional[int]:
    match = re.match(r"([0-9.]+) GT/s", text)
    return _GENERATION.get(float(match[1])) if match else None


def _lanes(text: str) -> Optional[int]:
    return int(text) if text.isdigit() and 0 < int(text) <= 32 else None
