"""Triage of a thousand files: time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from auditor.commands.triage import triage
from tests.readers.reading_inputs import INPUTS


@pytest.mark.scale
def test_a_thousand_files_of_a_hundred_kilobytes_take_less_than_a_minute(tmp_path: Path) -> None:
    """1,000 files x 100 KB of every kind, each of a server of its own, read and judged in 60 s of one core."""
    kinds = sorted(path for path in INPUTS.glob("*/*.txt"))
    for number in range(1000):
        data = kinds[number % len(kinds)].read_bytes()
        (tmp_path / f"{number}.txt").write_bytes((data * (100_000 // len(data) + 1))[:100_000])
    before = time.process_time()
    found = triage([tmp_path], None, each=True)
    seconds = time.process_time() - before
    print(f"\n1,000 files of 100 KB: {seconds:.1f} s, {len(found.judgement.servers)} servers")
    assert seconds < 60
