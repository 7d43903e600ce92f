"""Golden records of a real H200: exactly the expected findings, and each edited by one fault gives exactly its root."""

from __future__ import annotations

import pytest

from auditor.records import Record
from tests.golden import load
from tests.judge.faults import FAULTS, Fault
from tests.judge.judged import GUEST_H200, METAL_H200, found, one, roots

RECORDS = {name: load(name) for name in ("h200-quick", "h200-standard")}
EXPECTED = {"virtualized": "advice", "numa-hidden": "advice", "ram-below-gpu-memory": "advice", "nvlink-off": "info"}
SINGLE = [fault for fault in FAULTS if not (fault.several or fault.nvlink or fault.metal)]


@pytest.mark.parametrize("name", RECORDS)
def test_as_it_is_against_what_was_ordered(name: str) -> None:
    """One H200 ordered as a guest: accept, advice that it is one, and nothing at review or above."""
    result = one(RECORDS[name], GUEST_H200)
    assert result.verdict == "accept"
    assert result.missing == ()
    severities = {f.id: f.severity for f in result.findings}
    assert {id: severities.get(id) for id in EXPECTED} == EXPECTED
    assert set(severities.values()) <= {"advice", "info"}
    assert {id for id, severity in severities.items() if severity == "advice"} <= set(EXPECTED)
    assert result.model == "H200 SXM5 141GB"
    assert result.level == "passthrough guest"


@pytest.mark.parametrize("name", RECORDS)
def test_as_it_is_against_eight_on_bare_metal(name: str) -> None:
    """The same record against 8 x H200 with NVSwitch on metal: seven are missing and it is a guest."""
    result = one(RECORDS[name], METAL_H200)
    assert result.verdict == "reject"
    assert set(roots(result)) == {"gpu-count-short", "virtualized"}
    assert found(result, "nvlink-missing").root == f"{result.name}:virtualized:server"


def fits(record: Record, fault: Fault) -> bool:
    """Whether the record has the readings the fault changes."""
    try:
        fault.edit(record)
    except AssertionError:
        return False
    return True


CASES = [(name, fault) for name, record in RECORDS.items() for fault in SINGLE if fits(record, fault)]


def test_the_standard_record_can_have_every_fault() -> None:
    """The standard record has every reading a fault changes; the quick one lacks few."""
    assert sum(name == "h200-standard" for name, _ in CASES) == len(SINGLE)
    assert len(CASES) >= 2 * len(SINGLE) - 5


@pytest.mark.parametrize(("name", "fault"), CASES, ids=lambda value: getattr(value, "name", value))
def test_one_fault_more_is_exactly_its_root(name: str, fault: Fault) -> None:
    """The real record with one fault: that root, nothing else at review or above."""
    result = one(fault.edit(RECORDS[name]), GUEST_H200)
    assert set(roots(result)) == {fault.id}, [f.key for f in result.roots]
    assert result.verdict in ("reject", "review")
