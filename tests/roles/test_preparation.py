"""A whole audit of a server that lacks everything: prepared, measured, and left as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet import Fleet
from tests.playbooks.conftest import ROOT, environment
from tests.roles import packages, rented
from tests.roles.audits import audit, leftovers
from tests.roles.conftest import Play

pytestmark = pytest.mark.fleet
KERNEL = os.uname().release


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An apt repository with a driver and DCGM."""
    everything = [*packages.driver("580.95.05", KERNEL), *packages.dcgm(13)]
    return packages.apt_repository(tmp_path_factory.mktemp("apt"), everything)


def test_a_bare_server_is_prepared_measured_and_left_as_it_was(
    bare_fleet: Fleet, stub: Path, archive: Path, wheelhouse: Path, tmp_path: Path
):
    """Driver, DCGM and torch come, the record comes back, and with audit_remove_packages the two listings are equal."""
    rented.rent(bare_fleet, "h001", archive)
    wishes = {"audit_wheelhouse": str(wheelhouse), "audit_remove_packages": True}
    out, folder = audit(bare_fleet, stub, tmp_path / "r", "h001", **wishes)
    state = json.loads((folder / "state.json").read_text())
    assert state["phase"] == "done" and state["reason"] is None, out
    assert "auditor-torch-" in state["details"]["interpreter"], state
    calls = rented.calls(bare_fleet, "h001")
    assert "modprobe --all nvidia nvidia_uvm" in calls
    kept = json.loads((folder / "listing.json").read_text())
    assert kept["before"] == kept["after"] and "left behind" not in out, out
    assert rented.installed(bare_fleet, "h001") == {}
    assert leftovers(bare_fleet) == ""


@pytest.mark.scale
def test_the_driver_stays_where_removal_was_not_asked(
    bare_fleet: Fleet, stub: Path, archive: Path, wheelhouse: Path, tmp_path: Path
):
    """Packages stay, files do not; with audit_keep a second audit finds everything and changes nothing."""
    rented.rent(bare_fleet, "h001", archive)
    wishes = {"audit_wheelhouse": str(wheelhouse), "audit_keep": True}
    _, first = audit(bare_fleet, stub, tmp_path / "r", "h001", **wishes)
    before = rented.installed(bare_fleet, "h001")
    assert "nvidia-utils-580-server" in before and "datacenter-gpu-manager-4-core" in before
    out, second = audit(bare_fleet, stub, tmp_path / "r", "h001", **wishes)
    states = [json.loads((folder / "state.json").read_text()) for folder in (first, second)]
    assert states[0]["details"]["interpreter"] == states[1]["details"]["interpreter"], states
    assert rented.installed(bare_fleet, "h001") == before
    assert "Bring" not in out and states[1]["phase"] == "done", out
    subprocess.run(
        ["ansible-playbook", "cleanup.yml", "-i", str(bare_fleet.inventory), "--limit", "h001",
         "-e", '{"ansible_become": true}'],
        cwd=ROOT, env=environment(), check=True, capture_output=True,
    )  # fmt: skip
    assert leftovers(bare_fleet) == ""


@pytest.mark.scale
def test_never_is_never(bare_fleet: Fleet, stub: Path, archive: Path, tmp_path: Path):
    """With both wishes at never and no wheelhouse the server is measured as far as it goes, with nothing installed."""
    rented.rent(bare_fleet, "h001", archive)
    wishes = {"audit_driver": "never", "audit_dcgm": "never", "probe_runtime_index": "http://127.0.0.1:9/simple"}
    _, folder = audit(bare_fleet, stub, tmp_path / "r", "h001", **wishes)
    assert json.loads((folder / "state.json").read_text())["phase"] == "done"
    assert rented.installed(bare_fleet, "h001") == {}


def test_check_prints_the_plan_and_changes_nothing(bare_fleet: Fleet, stub: Path, archive: Path, tmp_path: Path):
    """The plan names the driver's branch and the torch that would come."""
    rented.rent(bare_fleet, "h001", archive)
    out, folder = audit(bare_fleet, stub, tmp_path / "r", "h001", "--check")
    assert folder is None
    assert "driver: install" in out and "branch 580" in out and "brought into a folder" in out, out
    assert rented.installed(bare_fleet, "h001") == {} and rented.calls(bare_fleet, "h001") == []


@pytest.mark.scale
@pytest.mark.parametrize("obstacle", ["secure boot", "reboot"])
def test_why_no_driver_came_is_in_the_report(
    bare_fleet: Fleet, stub: Path, archive: Path, tmp_path: Path, obstacle: str
):
    """Refused by the plan or unfinished by the role: the reason stands beside what could not be measured."""
    rented.rent(bare_fleet, "h001", archive)
    if obstacle == "reboot":
        (bare_fleet.root("h001") / "srv/needs-reboot").touch()
    else:
        rented.secure_boot(bare_fleet, "h001")
    out, folder = audit(bare_fleet, stub, tmp_path / "r", "h001")
    assert folder
    said = json.loads((folder / "state.json").read_text())["details"]["driver_missing"]
    assert said.startswith(
        {"secure boot": "Secure Boot is on", "reboot": "reboot needed: modprobe: ERROR"}[obstacle]
    ), out
    argv = [sys.executable, "-m", "auditor", "report", str(folder.parents[1]), "--json"]
    told = json.loads(subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False).stdout)
    findings = [one for one in told["servers"][0]["findings"] if one["id"] == "not-measured"]
    assert any(said in finding["observed"] for finding in findings), findings


@pytest.mark.scale
def test_an_allowed_reboot_is_waited_for_and_the_driver_asked(bare_fleet: Fleet, play: Play, archive: Path):
    """The role restarts the server, waits until it is back with the disk it had, and hears NVML's answer."""
    rented.rent(bare_fleet, "h001", archive)
    (bare_fleet.root("h001") / "srv/needs-reboot").touch()
    with rented.restarting(bare_fleet, "h001"):
        done = play("h001", "nvidia_driver", {"nvidia_driver_allow_reboot": True}, ("nvidia_driver_result",))
    result = done.told["nvidia_driver_result"]
    assert done.code == 0 and (result["answers"], result["reboot_needed"]) == (True, False), done.out
    calls = rented.calls(bare_fleet, "h001")
    assert calls.index("boot") > next(i for i, call in enumerate(calls) if call.startswith("shutdown")), calls
    assert "nvidia-utils-580-server" in rented.installed(bare_fleet, "h001")
