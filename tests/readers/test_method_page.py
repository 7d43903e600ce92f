"""docs/method.md against the readers: every metric and condition that a text gives is explained there."""

from __future__ import annotations

import re
from pathlib import Path

from auditor.readers import text
from auditor.readers.sections import read, sections
from auditor.records import Reading
from tests.readers.reading_inputs import cases

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "method.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(?P<metric>[a-z0-9_]+)` \|[^|]*\|(?P<with>[^|]*)\|", re.M)


def readings() -> list[Reading]:
    """Every reading of every input."""
    found: list[Reading] = []
    for path in cases():
        for section in sections(text.clean(text.decode(path.read_bytes()))):
            found += read(section).readings
    return found


def test_every_metric_and_condition_has_its_row() -> None:
    """A reading nobody can look up is not done; `same` means the row above."""
    rows: dict[str, set[str]] = {}
    last: set[str] = set()
    for match in ROW.finditer(PAGE):
        if not match["with"].strip().startswith("same"):
            last = set(re.findall(r"`([a-z_]+)`", match["with"]))
        rows[match["metric"]] = last
    found = readings()
    assert {reading.metric for reading in found} <= set(rows)
    unnamed = {(r.metric, name) for r in found for name in r.conditions if name not in rows[r.metric]}
    assert not unnamed


def test_every_source_is_listed() -> None:
    """The page says which tool's text counts as whose word."""
    assert all(source in PAGE for source in {reading.source for reading in readings()})
