"""Debian 11, 12 and 13 as they are: their own apt, dpkg and Python, under a whole audit that installs and cleans."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet import Fleet, debian
from tests.roles import packages, rented
from tests.roles.audits import audit, leftovers

pytestmark = [pytest.mark.fleet, pytest.mark.scale]
PYTHON = {"bullseye": "3.9", "bookworm": "3.11", "trixie": "3.13"}
KERNEL = os.uname().release


@pytest.fixture(scope="module", params=list(PYTHON))
def suite(request: pytest.FixtureRequest) -> str:
    """One release after the other."""
    return str(request.param)


@pytest.fixture(scope="module")
def machines(suite: str, tmp_path_factory: pytest.TempPathFactory, fleet_here: None) -> Iterator[Fleet]:
    """One machine with this release; skipped with the reason where it cannot be had."""
    folder = tmp_path_factory.mktemp("root")
    try:
        base = debian.root(suite, folder)
    except debian.NoRoot as reason:
        pytest.skip(str(reason))
    with Fleet(1, folder / "f", net=f"127.{150 + os.getpid() % 50}", disk_mb=1024, base=str(base)) as fleet:
        yield fleet
    shutil.rmtree(folder / suite, ignore_errors=True)


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An apt repository with a driver and DCGM."""
    everything = [*packages.driver("580.95.05", KERNEL), *packages.dcgm(13)]
    return packages.apt_repository(tmp_path_factory.mktemp("apt"), everything)


def test_a_whole_audit_prepares_measures_and_leaves_nothing(
    suite: str, machines: Fleet, stub: Path, archive: Path, wheelhouse: Path, tmp_path: Path
):
    """Debian 12 gets driver and DCGM, 11 and 13 the reason why not; torch comes to each; both listings are equal.

    Without a driver no torch could run, so 11 and 13 have their provider's.
    """
    rented.rent(machines, "h001", archive, release=None)
    before = rented.installed(machines, "h001")
    wishes = {"audit_wheelhouse": str(wheelhouse), "audit_remove_packages": True,
              "nvidia_driver_configure_repository": False, "probe_runtime_version": "2.13.0"}  # fmt: skip
    plan, _ = audit(machines, stub, tmp_path / "r", "h001", "--check")
    assert ("driver: install" if suite == "bookworm" else "audit only, no driver is installed") in plan, plan
    assert rented.installed(machines, "h001") == before
    if suite != "bookworm":
        machines.ssh("h001", "sudo modprobe nvidia")
    out, folder = audit(machines, stub, tmp_path / "r", "h001", **wishes)
    assert folder
    state = json.loads((folder / "state.json").read_text())
    assert state["phase"] == "done" and state["reason"] is None, out
    assert state["details"]["os"].startswith("Debian GNU/Linux"), state
    assert "auditor-torch-" in state["details"]["interpreter"], (state, out)
    history = machines.root("h001").joinpath("var/log/dpkg.log").read_text()
    for name in ("nvidia-driver-cuda", "datacenter-gpu-manager-4-core"):
        assert (f"status installed {name}:" in history) is (suite == "bookworm"), history
    kept = json.loads((folder / "listing.json").read_text())
    for kind in ("files", "processes", "listeners", "packages"):
        assert kept["before"][kind] == kept["after"][kind], (kind, kept)
    assert rented.installed(machines, "h001") == before
    assert leftovers(machines) == ""


def test_the_machine_is_that_release(suite: str, machines: Fleet):
    """The Python that the modules run under is the release's own."""
    said = machines.ssh(
        "h001", "/usr/bin/python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'; cat /etc/os-release"
    )
    assert said.stdout.splitlines()[0] == PYTHON[suite] and f"VERSION_CODENAME={suite}" in said.stdout, said
