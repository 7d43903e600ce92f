"""The metrics as docs/method.md lists them; the same page a person reads is what the report prints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from auditor.report.units import UNITS, unit_of

PAGE = Path(__file__).parents[2] / "docs" / "method.md"
_ROW = re.compile(r"^\| `(?P<name>[a-z0-9_]+)` \|(?P<rest>.*)\|\s*$")


@dataclass(frozen=True)
class Metric:
    """One row of the page."""

    name: str
    probe: str
    subject: str
    conditions: str
    meaning: str
    sources: str

    @property
    def unit(self) -> str:
        """The unit the report shows it in."""
        return UNITS[unit_of(self.name)].label


@cache
def documented() -> tuple[Metric, ...]:
    """Every metric of docs/method.md; none when the page does not travel with the program."""
    if not PAGE.is_file():
        return ()
    found: list[Metric] = []
    probe = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            probe = line[3:].strip()
        match = _ROW.match(line)
        if match:
            cells = [cell.strip().replace("`", "") for cell in match["rest"].split("|")]
            if len(cells) == 4:
                found.append(Metric(match["name"], probe, *cells))
    return tuple(found)
