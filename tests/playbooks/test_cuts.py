"""Connections, servers and controllers that are cut in the middle: what was measured is not lost."""

from __future__ import annotations

import configparser
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.playbooks.conftest import ROOT, Auditor, Done, behave, folders, kill, reboot, wait_for

pytestmark = pytest.mark.fleet

PROBE = "[a]uditor-[0-9a-f]{16}/probe.pyz"


@pytest.fixture(scope="module")
def done(storm: Auditor, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """One audit: h001 good, h002 loses its connections, h003 its power, h004 freezes, h005 takes too long."""
    fleet = storm.fleet
    for server, seconds in (("h002", 3), ("h003", 60), ("h004", 60), ("h005", 60)):
        behave(fleet, server, seconds=seconds)
    fleet.fault("h002", "kick", on=PROBE, after=1)
    fleet.fault("h003", "down", on=PROBE, after=0.5)
    fleet.fault("h004", "freeze", on=PROBE, after=0.5)
    impatient = tmp_path_factory.mktemp("inventory") / "limits.ini"
    impatient.write_text("[all]\nh005 audit_limit=2\n")
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "ansible.cfg")
    words = settings["ssh_connection"]["ssh_args"]
    words = words.replace("ServerAliveInterval=15", "ServerAliveInterval=1").replace("CountMax=4", "CountMax=2")
    names = ",".join(fleet.names[:5])
    return storm("--limit", names, inventory=[fleet.inventory, impatient], ansible_ssh_args=words)


def test_a_cut_connection_costs_nothing(done: Done, storm: Auditor) -> None:
    """Live connections are killed while the probe runs: its record arrives whole."""
    assert done.states["h002"].phase == "done", done.out
    assert json.loads(done.record("h002"))["server"] == "h002"
    assert not folders(storm.fleet, "h002")


@pytest.mark.parametrize("server", ["h003", "h004"], ids=["power cut", "freeze"])
def test_lost_in_mid_probe(done: Done, server: str) -> None:
    """A server that dies or freezes while the probe runs has a row that says so; the good one is measured."""
    assert done.code == 0 and done.states["h001"].phase == "done", done.out
    assert (done.states[server].phase, done.states[server].reason) == ("measure", "unreachable")
    assert "lost in mid-probe" in str(done.states[server].detail)


def test_the_time_limit_keeps_what_was_measured(done: Done, storm: Auditor) -> None:
    """A probe that takes too long is asked to stop; its record is fetched and the state says timed_out."""
    assert done.states["h005"].reason == "timed_out", done.out
    assert json.loads(done.record("h005"))["server"] == "h005"
    assert not folders(storm.fleet, "h005")


@pytest.fixture(scope="module")
def second(done: Done, storm: Auditor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Done, Path, str]]:
    """Three controllers, two killed (-9) in mid-probe, then an audit over all their servers but one.

    h001 and h002 were this controller's (h002 is wished otherwise now), h003 was measured for somebody else,
    h005's controller still runs; nobody returns to h004, whose probe would run for a minute. Gives the audit, the
    first one's folder and the living one's output.
    """
    fleet = storm.fleet
    fleet.heal("*")
    for server in ("h003", "h004"):  # what power cut and freeze left is not what this is about
        reboot(fleet, server)
    for server in ("h001", "h002", "h003", "h004", "h005"):
        behave(fleet, server, seconds=90, until="/opt/enough")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    other = elsewhere / "other.ini"
    other.write_text("[all]\nh004 audit_limit=15 audit_lifetime=1\n")
    sources = [fleet.inventory, other]
    mine = storm.start("--limit", "h001,h002,h004", inventory=sources, audit_poll=1)
    folder = wait_for(lambda: (found := storm.newest()) != done.folder and found)
    theirs = storm.start("--limit", "h003", audit_results=str(elsewhere), audit_poll=1)
    wait_for(lambda: all((folder / f"servers/{name}/state.json").exists() for name in ("h001", "h002", "h004")))
    wait_for(lambda: list(fleet.root("h003").glob("tmp/auditor-*/run.json")))
    kill(mine)
    kill(theirs)
    assert folders(fleet, "h004")
    living = storm.start("--limit", "h005", inventory=sources, audit_poll=0.5)
    wait_for(lambda: list(fleet.root("h005").glob("tmp/auditor-*/run.json")))
    behave(fleet, "h002")
    other.write_text("[all]\nh002 audit_profile=quick\n")
    begun = storm.newest()
    rerun = storm.start("--limit", "h001,h002,h003,h005", inventory=sources)
    latest = wait_for(lambda: (found := storm.newest()) != begun and found)
    wait_for(lambda: all((latest / f"servers/{name}/state.json").exists() for name in ("h001", "h005")))
    for server in ("h001", "h005"):  # the rerun has met both while they were measured
        (fleet.root(server) / "opt/enough").touch()
    said, _ = rerun.communicate(timeout=120)
    again = Done(rerun.returncode, said, latest)
    out, _ = living.communicate(timeout=60)
    yield again, folder, out


def test_a_rerun_attaches_to_the_running_probe(second: tuple[Done, Path, str], storm: Auditor) -> None:
    """The killed controller's probe is taken over, nonce and all, and cleaned up."""
    again, folder, _ = second
    state = again.states["h001"]
    assert (state.phase, state.details.get("taken_over_from")) == ("done", folder.name), again.out
    record = json.loads(again.record("h001"))
    nonces = json.loads((folder / "run.json").read_text())["nonces"]
    assert record["run"] == folder.name and record["nonce"] == nonces["h001"]
    assert not folders(storm.fleet, "h001")


def test_a_rerun_with_other_wishes_starts_anew(second: tuple[Done, Path, str], storm: Auditor) -> None:
    """An abandoned probe of ours that measures something else is ended, not waited for."""
    again, _, _ = second
    assert again.states["h002"].phase == "done" and "taken_over_from" not in again.states["h002"].details, again.out
    assert json.loads(again.record("h002"))["profile"] == "quick"
    assert not folders(storm.fleet, "h002")


def test_a_server_nobody_returns_to_cleans_itself(second: tuple[Done, Path, str], storm: Auditor) -> None:
    """After audit_limit and audit_lifetime its timer has ended the probe, removed our folder, and ended itself."""
    wait_for(lambda: not folders(storm.fleet, "h004"), 60)
    running = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
    wait_for(lambda: "timer.py" not in storm.fleet.ssh("h004", running).stdout)
    assert "probe.pyz" not in storm.fleet.ssh("h004", running).stdout


def test_H02_another_audit_is_left_alone(second: tuple[Done, Path, str], storm: Auditor) -> None:
    """A server that a living or an unknown controller audits is `busy`; the living one gets its record."""
    again, _, out = second
    for server in ("h003", "h005"):
        assert (again.states[server].phase, again.states[server].reason) == ("start", "busy"), again.out
    assert "h005  measured" in out
    assert len(folders(storm.fleet, "h003")) == 1


def test_cleanup_takes_what_a_dead_controller_left(second: tuple[Done, Path, str], storm: Auditor) -> None:
    """cleanup.yml ends the process and removes the folder; once more it finds nothing."""
    first = storm("--limit", "h003", playbook="cleanup.yml")
    assert first.code == 0 and "removed /tmp/auditor-" in first.out
    assert not folders(storm.fleet, "h003")
    assert "probe.pyz" not in storm.fleet.ssh("h003", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    assert "removed nothing" in storm("--limit", "h003", playbook="cleanup.yml").out
