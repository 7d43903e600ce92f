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
    done = play("h002", "dcgm", {"dcgm_configure_repository": False}, ("dcgm_result",))
    result = done.told["dcgm_result"]
    assert done.code == 0 and result["action"] == "refuse", done.out
    assert "datacenter-gpu-manager-4-proprietary" in result["reason"] and rented.installed(bare_fleet, "h002") == {}


@pytest.mark.scale
@pytest.mark.parametrize("system", ["ubuntu", "rocky"])
def test_nvidias_repository_comes_for_dcgm_alone_and_goes_again(
    bare_fleet: Fleet, play: Play, tmp_path: Path, system: str
):
    """Where the server's sources lack it; the newer driver of that repository is not seen, and no source stays."""
    driver, vim = packages.Package("nvidia-driver-cuda", "999"), packages.Package("vim", "9")
    own, there = tmp_path / "own", tmp_path / "nvidia"
    if system == "ubuntu":
        rented.rent(bare_fleet, "h002", packages.apt_repository(own, [vim]))
        packages.apt_repository(there, [*packages.dcgm(13), driver])
    else:
        rented.rent(bare_fleet, "h002", packages.dnf_repository(own, [vim]), release=rented.ROCKY)
        packages.dnf_repository(there, [*packages.dcgm(13), driver], key="D42D0685.pub")
    address = rented.serve(bare_fleet, "h002", there, f"{'ubuntu2404' if system == 'ubuntu' else 'rhel9'}/x86_64")
    bare_fleet.ssh("h002", "echo 'Acquire::AllowInsecureRepositories 1; APT::Get::AllowUnauthenticated 1;' | "
                   "sudo tee /etc/apt/apt.conf.d/98test")  # fmt: skip
    load_driver(bare_fleet, "h002")
    done = play("h002", "dcgm", {"dcgm_repository": address}, ("dcgm_result",))
    assert done.code == 0 and done.told["dcgm_result"]["action"] == "install", done.out
    key = {"gpg-pubkey"} if system == "rocky" else set()  # rpm keeps it as a package; audit_remove_packages takes it
    assert set(rented.installed(bare_fleet, "h002")) == {one.name for one in packages.dcgm(13)} | key, done.out
    left = bare_fleet.ssh("h002", "sudo grep -rl 8765 /etc/apt /etc/yum.repos.d /usr/share/keyrings /var/lib/apt/lists")
    assert left.stdout == ""
    assert play("h002", "dcgm", {"dcgm_repository": address}).changed == 0


@pytest.mark.scale
def test_a_repository_that_does_not_answer_is_a_reason(bare_fleet: Fleet, play: Play, tmp_path: Path):
    """The play goes on to what comes after DCGM, and no source stays."""
    rented.rent(bare_fleet, "h002", packages.apt_repository(tmp_path / "own", [packages.Package("vim", "9")]))
    load_driver(bare_fleet, "h002")
    done = play("h002", "dcgm", {"dcgm_repository": "http://127.0.0.1:9"}, ("dcgm_result",))
    assert done.code == 0 and "127.0.0.1:9" in done.told["dcgm_result"]["reason"], done.out
    assert bare_fleet.ssh("h002", "ls /etc/apt/*/auditor* /usr/share/keyrings/auditor*").stdout == ""
