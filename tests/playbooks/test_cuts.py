"""Connections, servers and controllers that are cut in the middle: what was measured is not lost."""

from __future__ import annotations

import configparser
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet import Fleet
from tests.playbooks.conftest import ROOT, Audit, command, environment, newest, wait_for

pytestmark = pytest.mark.fleet

PROBE = "[a]uditor-[0-9a-f]{16}/probe.pyz"


def folders(fleet: Fleet, server: str) -> list[Path]:
    """Our folders on a server."""
    return list(fleet.root(server).glob("tmp/auditor-*"))


@pytest.fixture
def started(fleet: Fleet, stub_probe: Path, results: Path) -> Iterator[Any]:
    """`started(*words, **wishes)`: an audit that runs beside the test; it is ended with the test."""
    running: list[subprocess.Popen[str]] = []

    def start(*words: str, **wishes: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command(fleet, stub_probe, results, *words, **wishes),
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_cut_connection_costs_nothing(fleet: Fleet, audit: Audit, manner: Any) -> None:
    """Live connections are killed while the probe runs: its record arrives whole."""
    manner("h002", seconds=3)
    fleet.fault("h002", "kick", on=PROBE, after=1)
    done = audit("--limit", "h002")
    assert done.code == 0, done.out
    assert done.states["h002"].phase == "done", done.states
    assert json.loads(done.record("h002"))["server"] == "h002"
    assert not folders(fleet, "h002")


def test_lost_in_mid_probe(fleet: Fleet, audit: Audit, manner: Any) -> None:
    """A power cut and a freeze while the probe runs: rows that say so, and the other server is measured."""
    for server in ("h002", "h003"):
        manner(server, seconds=30)
    fleet.fault("h002", "down", on=PROBE, after=0.5)
    fleet.fault("h003", "freeze", on=PROBE, after=0.5)
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "ansible.cfg")
    words = settings["ssh_connection"]["ssh_args"]
    impatient = words.replace("ServerAliveInterval=15", "ServerAliveInterval=1").replace("CountMax=4", "CountMax=2")
    done = audit("--limit", "h001,h002,h003", ansible_ssh_args=impatient)
    assert done.code == 0, done.out
    states = done.states
    assert states["h001"].reason is None
    assert (states["h002"].phase, states["h002"].reason) == ("measure", "unreachable")
    assert (states["h003"].phase, states["h003"].reason) == ("measure", "unreachable")
    assert "lost in mid-probe" in str(states["h002"].detail)


def test_the_time_limit_keeps_what_was_measured(fleet: Fleet, audit: Audit, manner: Any) -> None:
    """A probe that takes too long is asked to stop; its record is fetched and the state says timed_out."""
    manner("h002", seconds=60)
    done = audit("--limit", "h002", audit_limit=1)
    assert done.code == 0, done.out
    assert done.states["h002"].reason == "timed_out"
    assert json.loads(done.record("h002"))["server"] == "h002"
    assert not folders(fleet, "h002")


def test_a_rerun_attaches_to_the_running_probe(
    fleet: Fleet, audit: Audit, manner: Any, started: Any, results: Path
) -> None:
    """The controller is killed (-9) in mid-probe; the next run takes the same probe over, nonce and all."""
    manner("h002", seconds=6)
    first = started("--limit", "h002")
    wait_for(lambda: list(fleet.root("h002").glob("tmp/auditor-*/run.json")))
    told = json.loads(next(fleet.root("h002").glob("tmp/auditor-*/run.json")).read_text())
    old = wait_for(lambda: newest(results))
    wait_for(lambda: (old / "servers/h002/state.json").exists())
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    done = audit("--limit", "h002")
    assert done.code == 0, done.out
    assert done.folder != old
    state = done.states["h002"]
    assert state.phase == "done" and state.details["taken_over_from"] == old.name
    record = json.loads(done.record("h002"))
    assert record["nonce"] == told["nonce"] and record["run"] == old.name
    assert "refused" not in done.out
    assert not folders(fleet, "h002")


def test_a_rerun_with_other_wishes_starts_anew(
    fleet: Fleet, audit: Audit, manner: Any, started: Any, results: Path
) -> None:
    """An abandoned probe of ours that measures something else is ended, not waited for."""
    manner("h002", seconds=60)
    first = started("--limit", "h002")
    old = wait_for(lambda: newest(results))
    wait_for(lambda: (old / "servers/h002/state.json").exists())
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    manner("h002", seconds=0)
    done = audit("--limit", "h002", audit_profile="quick")
    assert done.states["h002"].phase == "done", done.out
    assert "taken_over_from" not in done.states["h002"].details
    assert len(folders(fleet, "h002")) == 0


def test_H02_a_second_controller_is_told_that_an_audit_runs(
    fleet: Fleet, audit: Audit, manner: Any, started: Any, results: Path
) -> None:
    """Two audits of one server at once: the second gets `busy`, the first its record, and nothing stays."""
    manner("h002", seconds=8)
    first = started("--limit", "h002")
    wait_for(lambda: list(fleet.root("h002").glob("tmp/auditor-*/run.json")))
    second = audit("--limit", "h002,h001")
    assert second.code == 0, second.out
    assert second.states["h001"].phase == "done"
    assert (second.states["h002"].phase, second.states["h002"].reason) == ("start", "busy")
    out, _ = first.communicate(timeout=60)
    assert first.returncode == 0, out
    assert "h002  measured" in out
    assert not folders(fleet, "h002")


def test_another_companys_audit_is_left_alone(
    fleet: Fleet, audit: Audit, manner: Any, started: Any, tmp_path: Path
) -> None:
    """A probe whose nonce this controller never gave is busy, even when its controller cannot be seen."""
    manner("h002", seconds=6)
    first = started("--limit", "h002", audit_results=str(tmp_path / "elsewhere"))
    wait_for(lambda: list(fleet.root("h002").glob("tmp/auditor-*/run.json")))
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    done = audit("--limit", "h002")
    assert done.states["h002"].reason == "busy", done.out
    assert len(folders(fleet, "h002")) == 1
    clean = audit("--limit", "h002", playbook="cleanup.yml")
    assert clean.code == 0 and "removed /tmp/auditor-" in clean.out
    assert not folders(fleet, "h002")
