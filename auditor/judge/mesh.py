"""The GPU-to-GPU picture of a server, as the topology probe or a pasted matrix gives it."""

from __future__ import annotations

import re

import msgspec

from auditor.judge.view import ServerView, is_number
from auditor.records import Reading

_NV = re.compile(r"NV(\d+)$")


class Mesh(msgspec.Struct, frozen=True):
    """Cells by pair, NVLink count by pair (0 = another path), active links by GPU."""

    cells: dict[str, Reading]
    bonded: dict[str, int]
    active: dict[str, Reading]

    @property
    def without(self) -> tuple[str, ...]:
        """Pairs that have no NVLink."""
        return tuple(pair for pair, links in self.bonded.items() if links == 0)


def read(view: ServerView) -> Mesh:
    """Reads the picture from a record."""
    cells = {
        reading.subject: reading
        for reading in view.all("topology_path")
        if reading.subject.count("gpu") == 2 and isinstance(reading.value, str) and reading.value.strip() != "X"
    }
    bonded = {pair: int(found[1]) if (found := _NV.match(str(cell.value))) else 0 for pair, cell in cells.items()}
    active = {}
    for gpu in view.gpus:
        reading = view.one("topology_nvlinks_active_total", gpu)
        if reading is not None and is_number(reading.value):
            active[gpu] = reading
    return Mesh(cells, bonded, active)
