"""Where docs/thresholds.md holds the simulation's tables, and what they say."""

from __future__ import annotations

import re
from pathlib import Path

THRESHOLDS = Path(__file__).parents[2] / "docs" / "thresholds.md"
_MARKED = re.compile(r"(<!-- simulation: [^\n]*-->\n).*?(<!-- end of simulation -->)", re.DOTALL)


def replaced(page: str, tables: str) -> str:
    """The page with other tables between its marks."""
    return _MARKED.sub(lambda found: found[1] + tables + found[2], page)


def written() -> list[list[str]]:
    """The cells of every row between the marks."""
    found = _MARKED.search(THRESHOLDS.read_text(encoding="utf-8"))
    assert found is not None, "docs/thresholds.md has no marks for the simulation"
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in found[0].splitlines() if line.startswith("| ")]
