"""Golden records: `load(NAME)` reads one through the only reader there is."""

from __future__ import annotations

from pathlib import Path

from auditor import reading
from auditor.records import Record

FOLDER = Path(__file__).parent


def load(name: str) -> Record:
    """A golden record by its file name without `.json`."""
    found = reading.read_file(FOLDER / f"{name}.json")
    assert isinstance(found, reading.Read), f"{name}: {found}"
    return found.record
