"""The driver role over real package managers: what is missing comes, what is there stays, what is unsafe is refused."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.fleet import Fleet
from tests.roles import packages, rented
from tests.roles.conftest import Play
from tests.roles.packages import Package

pytestmark = pytest.mark.fleet
KERNEL = os.uname().release
VERSION = "580.95.05"
UBUNTU_SET = {f"nvidia-dkms-{580}-server-open", "nvidia-kernel-common-580-server", "libnvidia-compute-580-server",
              "nvidia-compute-utils-580-server", "nvidia-utils-580-server", f"linux-headers-{KERNEL}"}  # fmt: skip
TELL = ("nvidia_driver_wish", "nvidia_driver_simulated", "nvidia_driver_result")


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An apt repository with a driver and DCGM."""
    return packages.apt_repository(
        tmp_path_factory.mktemp("apt"), [*packages.driver(VERSION, KERNEL), *packages.dcgm(13)]
    )


def archive_of(tmp_path: Path, *more: Package, without: Iterable[str] = ()) -> Path:
    """The same repository with packages added or replaced by name."""
    names = {package.name for package in more} | set(without)
    kept = [package for package in packages.driver(VERSION, KERNEL) if package.name not in names]
    return packages.apt_repository(tmp_path / "apt", [*kept, *more])


def test_check_mode_on_a_bare_machine_says_the_plan_and_changes_nothing(bare_fleet: Fleet, play: Play, archive: Path):
    """--check comes before the first real run and installs nothing."""
    rented.rent(bare_fleet, "h001", archive)
    done = play("h001", "nvidia_driver", {}, ("nvidia_driver_wish",), "--check")
    plan = done.told["nvidia_driver_wish"]["driver"]
    assert done.code == 0 and plan["action"] == "install" and set(plan["packages"]) == UBUNTU_SET, done.out
    assert rented.installed(bare_fleet, "h001") == {} and rented.calls(bare_fleet, "h001") == []


def test_a_bare_ubuntu_gets_its_driver_once(bare_fleet: Fleet, play: Play, archive: Path):
    """Installed, loaded, asked through NVML's tool; the second run changes nothing."""
    rented.rent(bare_fleet, "h001", archive)
    first = play("h001", "nvidia_driver", {}, TELL)
    assert first.code == 0, first.out
    assert set(rented.installed(bare_fleet, "h001")) == UBUNTU_SET
    assert first.told["nvidia_driver_result"]["answers"] is True
    assert "modprobe --all nvidia nvidia_uvm" in rented.calls(bare_fleet, "h001")
    assert any("start nvidia-persistenced" in call for call in rented.calls(bare_fleet, "h001"))
    second = play("h001", "nvidia_driver", {}, TELL)
    assert second.code == 0 and second.changed == 0, second.out
    assert "left as it is" in second.told["nvidia_driver_wish"]["driver"]["reason"]


@pytest.mark.scale
def test_an_nvswitch_machine_gets_the_fabric_manager_of_the_same_version(bare_fleet: Fleet, play: Play, archive: Path):
    """Driver and fabric manager must be equal to the last digit."""
    rented.rent(bare_fleet, "h001", archive, devices=("2330",) * 8, switches=4)
    done = play("h001", "nvidia_driver", {}, TELL)
    got = rented.installed(bare_fleet, "h001")
    assert done.code == 0, done.out
    assert got["nvidia-fabricmanager-580"] == got["libnvidia-compute-580-server"] == VERSION
    assert any("start nvidia-fabricmanager" in call for call in rented.calls(bare_fleet, "h001"))


def test_a_fabric_manager_of_another_version_is_refused(bare_fleet: Fleet, play: Play, tmp_path: Path):
    """Installing the pair would leave CUDA with error 802, so nothing is installed."""
    repository = archive_of(tmp_path, Package("nvidia-fabricmanager-580", "580.82.07"))
    rented.rent(bare_fleet, "h001", repository, devices=("2330",) * 8, switches=4)
    done = play("h001", "nvidia_driver", {}, TELL)
    plan = done.told["nvidia_driver_simulated"]["driver"]
    assert plan["action"] == "refuse" and "580.82.07" in plan["reason"] and VERSION in plan["reason"], done.out
    assert rented.installed(bare_fleet, "h001") == {}


def test_a_driver_that_is_there_is_kept(bare_fleet: Fleet, play: Play, archive: Path):
    """`missing` with a driver present: not one package is touched."""
    rented.rent(bare_fleet, "h001", archive)
    bare_fleet.ssh("h001", "sudo apt-get -qq install -y nvidia-utils-580-server libnvidia-compute-580-server")
    before = rented.installed(bare_fleet, "h001")
    done = play("h001", "nvidia_driver", {}, TELL)
    assert done.code == 0 and done.changed == 0 and rented.installed(bare_fleet, "h001") == before, done.out


@pytest.mark.scale
def test_a_held_package_is_never_touched(bare_fleet: Fleet, play: Play, archive: Path):
    """Even under `manage`, and the reason names the package."""
    rented.rent(bare_fleet, "h001", archive)
    bare_fleet.ssh(
        "h001", "sudo apt-get -qq install -y nvidia-utils-580-server && sudo apt-mark hold nvidia-utils-580-server"
    )
    done = play("h001", "nvidia_driver", {"nvidia_driver_state": "manage"}, TELL)
    plan = done.told["nvidia_driver_wish"]["driver"]
    assert plan["action"] == "refuse" and "held packages: nvidia-utils-580-server" in plan["reason"], done.out


def test_H06_an_install_that_would_change_the_kernel_is_refused(bare_fleet: Fleet, play: Play, tmp_path: Path):
    """The simulation shows a new kernel image behind the module, so nothing happens."""
    repository = archive_of(
        tmp_path,
        Package("nvidia-dkms-580-server-open", VERSION, needs="linux-image-9.9.9-generic"),
        Package("linux-image-9.9.9-generic", "9.9.9"),
    )
    rented.rent(bare_fleet, "h001", repository)
    done = play("h001", "nvidia_driver", {}, TELL)
    plan = done.told["nvidia_driver_simulated"]["driver"]
    assert plan["action"] == "refuse" and "another kernel: linux-image-9.9.9-generic" in plan["reason"], done.out
    assert rented.installed(bare_fleet, "h001") == {}


def test_missing_headers_are_the_package_managers_own_words(bare_fleet: Fleet, play: Play, tmp_path: Path):
    """A mirror that dropped the running kernel's headers is named as the reason."""
    rented.rent(bare_fleet, "h001", archive_of(tmp_path, without=[f"linux-headers-{KERNEL}"]))
    done = play("h001", "nvidia_driver", {}, TELL)
    plan = done.told["nvidia_driver_simulated"]["driver"]
    assert plan["action"] == "refuse" and f"linux-headers-{KERNEL}" in plan["reason"], done.out


def test_a_module_that_does_not_build_is_taken_back(bare_fleet: Fleet, play: Play, tmp_path: Path):
    """dkms fails in the package's own script: the result says so in apt's words, and apt is as usable as before."""
    broken = Package(
        "nvidia-dkms-580-server-open", VERSION, configure="echo 'Bad return status for module build' >&2; exit 10"
    )
    rented.rent(bare_fleet, "h001", archive_of(tmp_path, broken))
    done = play("h001", "nvidia_driver", {}, TELL)
    result = done.told["nvidia_driver_result"]
    assert done.code == 0 and result["answers"] is False, done.out
    assert "error processing package nvidia-dkms-580-server-open" in result["reason"], result
    assert rented.installed(bare_fleet, "h001") == {}
    assert bare_fleet.ssh("h001", "dpkg --audit").stdout == ""


@pytest.mark.scale
def test_a_reboot_is_said_and_not_done(bare_fleet: Fleet, play: Play, archive: Path):
    """Without audit_allow_reboot the result says that one is needed."""
    rented.rent(bare_fleet, "h001", archive)
    (bare_fleet.root("h001") / "srv/needs-reboot").touch()
    done = play("h001", "nvidia_driver", {}, TELL)
    result = done.told["nvidia_driver_result"]
    assert done.code == 0 and result["reboot_needed"] is True and result["answers"] is False, done.out
    assert result["reason"].startswith("reboot needed: modprobe: ERROR"), result
    assert not any("reboot" in call for call in rented.calls(bare_fleet, "h001"))


@pytest.mark.scale
def test_debian_pins_its_branch_first(bare_fleet: Fleet, play: Play, archive: Path):
    """On Debian the pin package comes before the driver (its repository here is the test's own)."""
    rented.rent(bare_fleet, "h001", archive, release=rented.DEBIAN)
    done = play("h001", "nvidia_driver", {"nvidia_driver_configure_repository": False}, TELL)
    assert done.code == 0, done.out
    assert set(rented.installed(bare_fleet, "h001")) == {"nvidia-driver-pinning-580", "nvidia-kernel-open-dkms",
                                                         "nvidia-driver-cuda", f"linux-headers-{KERNEL}"}  # fmt: skip


@pytest.mark.scale
def test_nobody_without_root_installs_anything(bare_fleet: Fleet, play: Play, archive: Path):
    """No sudo: the reason says what to do."""
    rented.rent(bare_fleet, "h001", archive)
    bare_fleet.fault("h001", "nosudo")
    done = play("h001", "nvidia_driver", {}, ("nvidia_driver_wish",), become=False)
    bare_fleet.heal("h001")
    plan = done.told["nvidia_driver_wish"]["driver"]
    assert plan["action"] == "refuse" and "needs root" in plan["reason"], done.out
