"""docs/method.md against the probes: a heading for each, every metric of the real records with its conditions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from auditor.probes.engine import catalogue

ROOT = Path(__file__).resolve().parents[2]
METHOD = (ROOT / "docs/method.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(?P<metric>[a-z0-9_]+)` \|[^|]*\|(?P<with>[^|]*)\|", re.M)


def documented() -> dict[str, set[str]]:
    """Metric → the conditions its row names; `same` and a bare mention of another row's mean that row's."""
    rows: dict[str, set[str]] = {}
    last: set[str] = set()
    for match in ROW.finditer(METHOD):
        words = match["with"]
        last = last if words.strip().startswith("same") else set(re.findall(r"`([a-z_]+)`", words))
        rows[match["metric"]] = last
    return rows


@pytest.mark.parametrize("key", [probe.key for probe in catalogue.probes()])
def test_every_probe_has_its_heading_and_its_metrics(key: str) -> None:
    """A probe that nobody can look up is not done."""
    assert f"\n## {key}\n" in METHOD
    assert any(metric.startswith(key + "_") for metric in documented())


@pytest.mark.parametrize("profile", ["quick", "standard"])
def test_every_condition_of_a_real_reading_is_named(profile: str) -> None:
    """A figure's `with` holds nothing that the page does not explain."""
    rows = documented()
    record = json.loads((ROOT / f"tests/golden/h200-{profile}.json").read_text(encoding="utf-8"))
    unnamed = {
        (reading["metric"], condition)
        for reading in record["readings"]
        for condition in reading["with"]
        if condition not in rows.get(reading["metric"], set())
    }
    assert not unnamed
