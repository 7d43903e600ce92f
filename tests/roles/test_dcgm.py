"""The DCGM role over a real package manager: all four packages, or a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet import Fleet
from tests.roles import packages, rented
from tests.roles.conftest import Play

pytestmark = pytest.mark.fleet


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An apt repository with DCGM for CUDA 13."""
    return packages.apt_repository(tmp_path_factory.mktemp("apt"), packages.dcgm(13))


def load_driver(fleet: Fleet, server: str) -> None:
    """A driver that runs, as the kernel shows it."""
    fleet.ssh(server, "sudo modprobe nvidia")


def test_all_four_packages_come_once(bare_fleet: Fleet, play: Play, archive: Path):
    """The proprietary parts are named, because apt forgets what is only recommended; a second run changes nothing."""
    rented.rent(bare_fleet, "h002", archive)
    load_driver(bare_fleet, "h002")
    first = play("h002", "dcgm", {}, ("dcgm_wish",))
    assert first.code == 0, first.out
    core = "datacenter-gpu-manager-4"
    assert set(rented.installed(bare_fleet, "h002")) == {
        f"{core}-core", f"{core}-cuda13", f"{core}-proprietary", f"{core}-proprietary-cuda13",
    }  # fmt: skip
    second = play("h002", "dcgm", {}, ("dcgm_wish",))
    assert second.changed == 0 and "left as it is" in second.told["dcgm_wish"]["dcgm"]["reason"], second.out
    assert not any("nvidia-dcgm" in call for call in rented.calls(bare_fleet, "h002"))


@pytest.mark.scale
def test_without_a_driver_nothing_comes(bare_fleet: Fleet, play: Play, archive: Path):
    """The CUDA major that DCGM must fit is not known, and the reason says so."""
    rented.rent(bare_fleet, "h002", archive)
    done = play("h002", "dcgm", {}, ("dcgm_wish",))
    plan = done.told["dcgm_wish"]["dcgm"]
    assert done.code == 0 and plan["action"] == "refuse" and "CUDA major" in plan["reason"], done.out
    assert rented.installed(bare_fleet, "h002") == {}


@pytest.mark.scale
def test_a_package_that_the_archive_lacks_is_named(bare_fleet: Fleet, play: Play, tmp_path: Path):
    """An old mirror ends in apt's own words, with nothing installed."""
    repository = packages.apt_repository(tmp_path / "apt", packages.dcgm(13)[:2])
    rented.rent(bare_fleet, "h002", repository)
    load_driver(bare_fleet, "h002")
    done = play("h002", "dcgm", {}, ("dcgm_wish",))
    plan = done.told["dcgm_wish"]["dcgm"]
    assert plan["action"] == "refuse" and "datacenter-gpu-manager-4-proprietary" in plan["reason"], done.out
    assert rented.installed(bare_fleet, "h002") == {}
