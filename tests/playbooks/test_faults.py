"""Servers that fail in every way a rented machine does: each is a row with its reason, and the workbook is written."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fleet import Fleet
from tests.playbooks.conftest import Audit

pytestmark = pytest.mark.fleet


def test_servers_that_never_start(fleet: Fleet, audit: Audit) -> None:
    """Down, mute, full, without Python, with another host key: one row each, and the good one is measured."""
    for server, fault in zip(fleet.names[1:], ("down", "mute", "diskfull", "nopython", "rekey"), strict=True):
        fleet.fault(server, fault)
    done = audit()
    assert done.code == 0, done.out
    told = {name: (state.phase, state.reason) for name, state in done.states.items()}
    assert told == {
        "h001": ("done", None),
        "h002": ("reach", "unreachable"),
        "h003": ("reach", "unreachable"),
        "h004": ("start", "disk_full"),
        "h005": ("done", None),  # no Python of the system, but the one with torch was found
        "h006": ("reach", "host_key_changed"),
    }
    for name, state in done.states.items():
        assert state.reason is None or state.detail, name
    assert done.folder and (done.folder / "report/report.xlsx").exists()
    assert "no room left" in done.out and "another host key" in done.out


@pytest.mark.parametrize(
    ("manner_word", "reason"),
    [("die", "probe_died"), ("half", "record_refused"), ("huge", "record_refused")],
)
def test_probes_that_end_badly(fleet: Fleet, audit: Audit, manner: Any, manner_word: str, reason: str) -> None:
    """A probe that is killed, a record that was cut, one that is too large: the reason stands in the state."""
    manner("h002", manner_word)
    done = audit("--limit", "h001,h002")
    assert done.code == 0, done.out
    assert done.states["h001"].reason is None
    assert done.states["h002"].reason == reason
    assert "\x1b" not in done.out
    assert not list(fleet.root("h002").glob("tmp/*"))
