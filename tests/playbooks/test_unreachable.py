"""Servers that never start: each is a row with its reason, and the workbook is written all the same."""

from __future__ import annotations

import pytest

from tests.playbooks.conftest import Auditor, Done

pytestmark = pytest.mark.fleet


@pytest.fixture(scope="module")
def done(storm: Auditor) -> Done:
    """One audit of a good server and five that are not."""
    for server, fault in zip(storm.fleet.names[1:], ("down", "mute", "diskfull", "nopython", "rekey"), strict=True):
        storm.fleet.fault(server, fault)
    return storm(report=True)


@pytest.mark.parametrize(
    ("server", "phase", "reason", "words"),
    [
        ("h001", "done", None, ""),
        ("h002", "reach", "unreachable", "refused"),
        ("h003", "reach", "unreachable", "did not answer in time"),
        ("h004", "start", "disk_full", "no room left in /tmp"),
        ("h006", "reach", "host_key_changed", "another host key"),
    ],
)
def test_each_has_its_reason(done: Done, server: str, phase: str, reason: str | None, words: str) -> None:
    """Phase, reason and sentence say what a person has to do."""
    state = done.states[server]
    assert (state.phase, state.reason) == (phase, reason), done.out
    assert words in str(state.detail) and words in done.out


def test_a_server_without_a_system_python_is_measured_with_torchs(done: Done) -> None:
    """No /usr/bin/python3: the module runs under another Python that is there."""
    state = done.states["h005"]
    assert state.phase == "done", done.out
    assert str(state.details["module_python"]).startswith("/") and state.details["module_python"] != "/usr/bin/python3"


def test_the_play_succeeds_and_the_workbook_is_there(done: Done) -> None:
    """Bad hardware never fails the play."""
    assert done.code == 0, done.out
    assert done.folder and (done.folder / "report/report.xlsx").exists()


def test_the_terminal_ends_with_verdicts_and_the_workbooks_path(done: Done) -> None:
    """The last lines are where the report lies; each server has its verdict above them."""
    lines = done.out.strip().splitlines()
    assert f"{done.folder}/report/report.xlsx" in lines[-2:]
    assert all(any("incomplete" in line and f"  {name} " in line for line in lines) for name in done.states)


def test_all_servers_down_and_the_exit_code_that_was_asked_for(audit: Auditor) -> None:
    """When nobody answers there is a row for each and a workbook; audit_fail_on decides what the shell is told."""
    audit.fleet.fault("*", "down")
    done = audit(report=True, audit_fail_on="incomplete")
    assert done.code == 2, done.out
    assert "a server is incomplete" in done.out
    assert {state.reason for state in done.states.values()} == {"unreachable"}
    assert done.folder and (done.folder / "report/report.xlsx").exists()
