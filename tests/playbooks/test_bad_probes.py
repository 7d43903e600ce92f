"""Probes and servers that behave badly once started: one row with a reason, a quiet terminal, nothing left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.playbooks.conftest import Auditor, Done, behave, folders

pytestmark = pytest.mark.fleet

_OURS = {"SSH_AUTH_SOCK": "/tmp/agent.sock", "DISPLAY": ":9", "LC_CANARY": "c4n4ry", "AWS_SECRET_ACCESS_KEY": "c4n4ry"}


@pytest.fixture(scope="module")
def done(storm: Auditor) -> Done:
    """One audit of six servers whose probes have six manners."""
    fleet = storm.fleet
    fleet.ssh("h005", "cp /usr/bin/sleep /tmp/probe.pyz; setsid /tmp/probe.pyz 500 >/dev/null 2>&1 </dev/null &")
    for server, manner in zip(fleet.names[1:], ("die", "half", "huge", "orphan", "hostile"), strict=True):
        behave(fleet, server, manner)
    behave(fleet, "h001", environment="/tmp/seen")
    return storm(env=_OURS, audit_limit=30)


def test_F03_half_a_record_is_kept_and_refused(done: Done) -> None:
    """A cut record is saved as it came and named as what it is."""
    assert (done.states["h003"].phase, done.states["h003"].reason) == ("collect", "record_refused"), done.out
    assert done.record("h003").startswith(b'{"schema": 1')


def test_F08_a_killed_probe_leaves_its_last_words(done: Done) -> None:
    """Killed from outside: the reason, and the last line it wrote, with its escape codes made visible."""
    state = done.states["h002"]
    assert state.reason == "probe_died" and "the device fell off the bus" in str(state.detail), done.out


def test_R01_a_record_beyond_the_cap_is_not_fetched(done: Done) -> None:
    """9 MiB stay on the server."""
    assert done.states["h004"].reason == "record_refused" and "8388608" in str(done.states["h004"].detail)
    assert done.folder and not (done.folder / "servers/h004/record.json").exists()


def test_H03_H04_an_orphan_is_ended_and_a_strangers_process_is_not(done: Done, storm: Auditor) -> None:
    """A child that left the session is still ours; a process that only has a like name lives on."""
    assert done.states["h005"].phase == "done", done.out
    alive = storm.fleet.ssh("h005", "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done").stdout
    assert "sleep 1000" not in alive and "/tmp/probe.pyz 500" in alive
    storm.fleet.ssh("h005", "kill $(pidof probe.pyz); rm /tmp/probe.pyz")


def test_R12_a_status_of_wrong_types_is_not_drawn(done: Done) -> None:
    """Escape codes in status.json reach neither terminal nor state."""
    assert done.states["h006"].reason == "spoiled_answer"
    assert "\x1b" not in done.out and "\x07" not in done.out


def test_nothing_is_left_on_any_of_them(done: Done, storm: Auditor) -> None:
    """Also after a bad end our folder is gone."""
    assert done.code == 0
    assert not [folder for server in storm.fleet.names[:5] for folder in folders(storm.fleet, server)]


def test_C01_S03_what_the_server_sees_of_us(done: Done, storm: Auditor) -> None:
    """The probe's environment on the server holds no agent, no display and no variable of the controller's."""
    path = storm.fleet.root("h001") / "tmp/seen"
    seen = path.read_text()
    path.unlink()
    assert "AUDITOR_FOLDER=" in seen and done.states["h001"].phase == "done"
    for word in ("SSH_AUTH_SOCK", "DISPLAY", "CANARY", "c4n4ry", f"{Path.home()}/.ssh", os.uname().nodename):
        assert word not in seen, word
