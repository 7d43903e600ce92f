"""The PCI tree as sysfs shows it: the way from a device to the CPU, and what two devices have in common.

The words are those of `nvidia-smi topo`: PIX at most one switch, PXB several, PHB one host bridge, NODE several host
bridges of one NUMA node, SYS across nodes, or a node that is not told.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Dict, List, Optional

from . import tree

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_GENERATIONS = {
    "2.5": 1,
    "5.0": 2,
    "5": 2,
    "8.0": 3,
    "8": 3,
    "16.0": 4,
    "16": 4,
    "32.0": 5,
    "32": 5,
    "64.0": 6,
    "64": 6,
}


@dataclass(frozen=True)
class Place:
    """Where a device is: its host bridge, the functions from the root port down to it, its NUMA node."""

    bridge: str
    chain: List[str]
    node: Optional[int]


def place(root: str, address: str) -> Optional[Place]:
    """A device's place; None where sysfs does not show it."""
    for name in (address, "0000" + address, address[-12:]):
        path = os.path.join(root, "sys/bus/pci/devices", name.lower())
        if os.path.exists(path):
            parts = os.path.realpath(path).split("/")
            bridge = next((part for part in parts if re.match(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}$", part)), "")
            return Place(bridge, [part for part in parts if _ADDRESS.fullmatch(part)], node(path))
    return None


def node(path: str) -> Optional[int]:
    """A device's NUMA node; -1 is what the kernel writes where it does not know."""
    told = tree.text(path, "numa_node")
    return int(told) if told is not None and re.fullmatch(r"-?\d+", told) else None


def common(one: Place, other: Place) -> str:
    """How far apart two devices are."""
    if one.bridge == other.bridge:
        shared = 0
        for a, b in zip(one.chain[:-1], other.chain[:-1]):
            if a != b:
                break
            shared += 1
        if not shared:
            return "PHB"
        below = max(len(place.chain) - 1 - shared for place in (one, other))
        return "PIX" if below <= 1 else "PXB"
    same = one.node == other.node and one.node is not None and one.node >= 0
    return "NODE" if same else "SYS"


def link(path: str) -> Dict[str, Dict[str, Optional[int]]]:
    """Generation and lanes of one port, now and at most: {"generation": {"current": 4, "max": 5}, "lanes": …}."""
    speeds = {which: tree.text(path, "%s_link_speed" % which) for which in ("current", "max")}
    widths = {which: tree.text(path, "%s_link_width" % which) for which in ("current", "max")}
    return {
        "generation": {which: _generation(speed) for which, speed in speeds.items()},
        "lanes": {which: _lanes(width) for which, width in widths.items()},
    }


def _generation(speed: Optional[str]) -> Optional[int]:
    return _GENERATIONS.get((speed or "").split(" ")[0])


def _lanes(width: Optional[str]) -> Optional[int]:
    return int(width) if width and width.isdigit() and 0 < int(width) <= 32 else None
