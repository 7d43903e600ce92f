"""The roles over real dnf and rpm: a Rocky 9 by its os-release, whose repository has the driver's module streams."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fleet import Fleet
from tests.roles import packages, rented
from tests.roles.audits import audit
from tests.roles.conftest import Play
from tests.roles.packages import Package

pytestmark = pytest.mark.fleet
KERNEL, VERSION, NEWER = rented.ROCKY_KERNEL, "580.95.05", "595.45.04"
DRIVER = {"kmod-nvidia-open-dkms", "nvidia-driver-cuda", "nvidia-driver-cuda-libs", "kernel-devel"}
TELL = ("nvidia_driver_wish", "nvidia_driver_simulated", "nvidia_driver_result")
OURS = {"nvidia_driver_configure_repository": False}
STREAMS = {"580-open": VERSION, "595-open": NEWER}


def both(*more: Package, without: tuple[str, ...] = ()) -> list[Package]:
    """Two branches of the driver, with packages added or replaced by name and version."""
    named = {(one.name, one.version) for one in more}
    everything = [*packages.rpm_driver(VERSION, KERNEL), *packages.rpm_driver(NEWER, KERNEL)[:-1]]
    kept = [one for one in everything if (one.name, one.version) not in named and one.name not in without]
    return [*kept, *more]


@pytest.fixture(scope="session")
def rpms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dnf repository with two branches of the driver and DCGM."""
    return packages.dnf_repository(tmp_path_factory.mktemp("dnf"), [*both(), *packages.dcgm(13)], STREAMS)


def rocky(fleet: Fleet, repository: Path, **more: object) -> None:
    """A fresh Rocky 9 with this repository as its only source."""
    rented.rent(fleet, "h001", repository, release=rented.ROCKY, **more)  # type: ignore[arg-type]


def chosen(fleet: Fleet) -> str:
    """What dnf was told about module streams."""
    return fleet.ssh("h001", "cat /etc/dnf/modules.d/nvidia-driver.module 2>/dev/null").stdout


def test_driver_and_dcgm_come_of_the_branch_and_only_once(bare_fleet: Fleet, play: Play, rpms: Path):
    """The stream hides the newer branch, the module is loaded, DCGM follows; a second run changes nothing."""
    rocky(bare_fleet, rpms)
    first = play("h001", "nvidia_driver", OURS, TELL)
    assert first.code == 0 and first.told["nvidia_driver_result"]["answers"] is True, first.out
    there = rented.installed(bare_fleet, "h001")
    assert set(there) == DRIVER and there["nvidia-driver-cuda"] == f"{VERSION}-1.el9", there
    assert "modprobe --all nvidia nvidia_uvm" in rented.calls(bare_fleet, "h001")
    again = play("h001", "nvidia_driver", OURS, TELL)
    assert again.code == 0 and again.changed == 0, again.out
    dcgm = play("h001", "dcgm", {}, ("dcgm_wish",))
    assert dcgm.code == 0 and {one.name for one in packages.dcgm(13)} < set(rented.installed(bare_fleet, "h001")), (
        dcgm.out
    )
    assert play("h001", "dcgm").changed == 0


@pytest.mark.scale
def test_nvidias_repository_is_there_for_the_install_only(bare_fleet: Fleet, play: Play, tmp_path: Path):
    """Signed packages from the address of the variable; afterwards no source names it, and a second run is quiet."""
    rocky(bare_fleet, packages.dnf_repository(tmp_path / "own", [Package("vim", "9")]))
    there = packages.dnf_repository(tmp_path / "nvidia", both(), STREAMS, key="D42D0685.pub")
    address = rented.serve(bare_fleet, "h001", there, "rhel9/x86_64")
    done = play("h001", "nvidia_driver", {"nvidia_driver_repository": address}, TELL)
    assert done.code == 0 and done.told["nvidia_driver_result"]["answers"] is True, done.out
    assert set(rented.installed(bare_fleet, "h001")) == DRIVER | {"gpg-pubkey"}
    assert bare_fleet.ssh("h001", "grep -rl 8765 /etc/yum.repos.d").stdout == ""
    assert play("h001", "nvidia_driver", {"nvidia_driver_repository": address}).changed == 0


@pytest.mark.scale
def test_check_mode_says_the_plan_and_changes_nothing(bare_fleet: Fleet, play: Play, rpms: Path):
    """--check before the first real run: the plan names branch, stream and packages."""
    rocky(bare_fleet, rpms)
    done = play("h001", "nvidia_driver", OURS, TELL, "--check")
    plan = done.told["nvidia_driver_wish"]["driver"]
    assert done.code == 0 and (plan["action"], plan["branch"], plan["module_stream"]) == ("install", 580, "580-open")
    assert rented.installed(bare_fleet, "h001") == {} and chosen(bare_fleet) == "", done.out
    assert rented.calls(bare_fleet, "h001") == []


@pytest.mark.scale
def test_a_driver_that_is_there_is_kept(bare_fleet: Fleet, play: Play, rpms: Path):
    """`missing` with a driver present, loaded or not: not one package is touched."""
    rocky(bare_fleet, rpms)
    bare_fleet.ssh(
        "h001", "sudo dnf -q -y module enable nvidia-driver:580-open; sudo dnf -q -y install kmod-nvidia-latest-dkms"
    )
    before = rented.installed(bare_fleet, "h001")
    done = play("h001", "nvidia_driver", OURS, TELL)
    plan = done.told["nvidia_driver_wish"]["driver"]
    assert plan["action"] == "keep" and f"kmod-nvidia-latest-dkms {VERSION}-1.el9 is there" in plan["reason"], done.out
    assert done.code == 0 and done.changed == 0 and rented.installed(bare_fleet, "h001") == before


@pytest.mark.scale
@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/etc/dnf/plugins/versionlock.list", "nvidia-driver-cuda-3:580.82.07-1.el9.*"),
        ("/etc/dnf/dnf.conf", "excludepkgs=nvidia-driver-cuda*,kernel*"),
    ],
)
def test_a_locked_driver_is_never_touched(bare_fleet: Fleet, play: Play, rpms: Path, path: str, line: str):
    """Even under `manage`, and the reason names the lock, as dnf's own files hold it."""
    rocky(bare_fleet, rpms)
    bare_fleet.ssh("h001", f"echo '{line}' | sudo tee -a {path}")
    done = play("h001", "nvidia_driver", {**OURS, "nvidia_driver_state": "manage"}, TELL)
    plan = done.told["nvidia_driver_wish"]["driver"]
    assert plan["action"] == "refuse" and "held packages: nvidia-driver-cuda" in plan["reason"], done.out
    assert rented.installed(bare_fleet, "h001") == {}


def refused(fleet: Fleet, play: Play, words: str) -> None:
    """The role refuses with these words after the simulation, and even the module stream is as it was."""
    before = rented.installed(fleet, "h001")
    done = play("h001", "nvidia_driver", OURS, TELL)
    plan = done.told["nvidia_driver_simulated"]["driver"]
    assert done.code == 0 and plan["action"] == "refuse" and words in plan["reason"], done.out
    assert done.told["nvidia_driver_result"]["reason"] == plan["reason"]
    assert rented.installed(fleet, "h001") == before and "580-open" not in chosen(fleet), done.out


@pytest.mark.scale
def test_H06_another_kernel_behind_the_module_is_refused(bare_fleet: Fleet, play: Play, tmp_path: Path):
    """The simulation shows a kernel that nobody asked for."""
    module = Package("kmod-nvidia-open-dkms", f"3:{VERSION}-1.el9", needs="kernel-core")
    kernel = Package("kernel-core", "5.14.0-999.el9")
    rocky(bare_fleet, packages.dnf_repository(tmp_path / "dnf", both(module, kernel), STREAMS))
    refused(bare_fleet, play, "another kernel: kernel-core 5.14.0-999.el9")


@pytest.mark.scale
def test_H06_an_upgrade_of_the_stack_is_refused(bare_fleet: Fleet, play: Play, tmp_path: Path):
    """A dkms that is there would be replaced by a newer one: the sentence has both versions."""
    module = Package("kmod-nvidia-open-dkms", f"3:{VERSION}-1.el9", needs="dkms >= 3.2")
    both_dkms = Package("dkms", "3.0.1-1.el9"), Package("dkms", "3.2.0-1.el9")
    rocky(bare_fleet, packages.dnf_repository(tmp_path / "dnf", both(module, *both_dkms), STREAMS))
    bare_fleet.ssh("h001", "sudo dnf -q -y install dkms-3.0.1")
    assert rented.installed(bare_fleet, "h001") == {"dkms": "3.0.1-1.el9"}
    refused(bare_fleet, play, "it would change dkms from 3.0.1-1.el9 to 3.2.0-1.el9")


@pytest.mark.scale
@pytest.mark.parametrize("name", ["nvidia-fabric-manager", "nvidia-fabricmanager"])
def test_an_nvswitch_machine_gets_the_fabric_manager(bare_fleet: Fleet, play: Play, tmp_path: Path, name: str):
    """Of the driver's own version, whichever way the repository spells it, and it is started."""
    manager = Package(name, f"3:{VERSION}-1.el9")
    rpms = packages.dnf_repository(tmp_path / "dnf", both(manager, without=("nvidia-fabric-manager",)), STREAMS)
    rocky(bare_fleet, rpms, devices=("2330",) * 8, switches=4)
    done = play("h001", "nvidia_driver", OURS, TELL)
    assert done.code == 0 and rented.installed(bare_fleet, "h001").get(name) == f"{VERSION}-1.el9", done.out
    assert any("start nvidia-fabricmanager" in call for call in rented.calls(bare_fleet, "h001"))


@pytest.mark.scale
def test_a_fabric_manager_of_another_version_is_refused(bare_fleet: Fleet, play: Play, tmp_path: Path):
    """The pair must be equal to the last digit, else CUDA ends with error 802."""
    other = Package("nvidia-fabric-manager", "3:580.82.07-1.el9")
    rpms = packages.dnf_repository(tmp_path / "dnf", both(other, without=("nvidia-fabric-manager",)), STREAMS)
    rocky(bare_fleet, rpms, devices=("2330",) * 8, switches=4)
    refused(bare_fleet, play, f"nvidia-fabric-manager would be 580.82.07 but kmod-nvidia-open-dkms {VERSION}")


@pytest.mark.scale
def test_missing_headers_are_dnfs_own_words(bare_fleet: Fleet, play: Play, tmp_path: Path):
    """A mirror that dropped the running kernel's headers is named as the reason."""
    rocky(bare_fleet, packages.dnf_repository(tmp_path / "dnf", both(without=("kernel-devel",)), STREAMS))
    refused(bare_fleet, play, f"kernel-devel-{KERNEL}")


@pytest.mark.scale
def test_a_module_that_does_not_build_is_taken_back(bare_fleet: Fleet, play: Play, tmp_path: Path):
    """rpm forgives a failed script, so modprobe tells: the result says so, no reboot is asked for, nothing stays."""
    broken = Package("kmod-nvidia-open-dkms", f"3:{VERSION}-1.el9", configure="touch /srv/no-module; exit 10")
    rocky(bare_fleet, packages.dnf_repository(tmp_path / "dnf", both(broken), STREAMS))
    done = play("h001", "nvidia_driver", {**OURS, "nvidia_driver_allow_reboot": True}, TELL)
    result = done.told["nvidia_driver_result"]
    assert done.code == 0 and result["answers"] is False and result["reboot_needed"] is False, done.out
    assert f"no kernel module for {KERNEL}" in result["reason"] and "not found" in result["reason"]
    assert rented.installed(bare_fleet, "h001") == {} and "580-open" not in chosen(bare_fleet), done.out


@pytest.mark.scale
def test_a_reboot_is_said_and_not_done(bare_fleet: Fleet, play: Play, rpms: Path):
    """Without audit_allow_reboot the result says that one is needed; the packages stay for it."""
    rocky(bare_fleet, rpms)
    (bare_fleet.root("h001") / "srv/needs-reboot").touch()
    done = play("h001", "nvidia_driver", OURS, TELL)
    result = done.told["nvidia_driver_result"]
    assert done.code == 0 and result["reboot_needed"] is True and "reboot needed: modprobe: ERROR" in result["reason"]
    assert set(rented.installed(bare_fleet, "h001")) == DRIVER
    assert not any("reboot" in call or "shutdown" in call for call in rented.calls(bare_fleet, "h001"))


@pytest.mark.scale
def test_secure_boot_is_refused_before_anything_is_asked(bare_fleet: Fleet, play: Play, rpms: Path):
    """Firmware that checks signatures: nothing is installed, and the sentence says what to do."""
    rocky(bare_fleet, rpms)
    rented.secure_boot(bare_fleet, "h001")
    done = play("h001", "nvidia_driver", OURS, TELL)
    plan = done.told["nvidia_driver_wish"]["driver"]
    assert done.code == 0 and plan["action"] == "refuse" and "mokutil --import" in plan["reason"], done.out
    assert rented.installed(bare_fleet, "h001") == {} and chosen(bare_fleet) == ""


@pytest.mark.scale
def test_an_audit_takes_everything_away_again(bare_fleet: Fleet, stub: Path, wheelhouse: Path, tmp_path: Path):
    """Driver, DCGM and torch come for a whole audit, and with audit_remove_packages even the repository's key goes."""
    signed = packages.dnf_repository(tmp_path / "dnf", [*both(), *packages.dcgm(13)], STREAMS, key="KEY")
    rocky(bare_fleet, signed)
    source = "/etc/yum.repos.d/test.repo"
    bare_fleet.ssh("h001", f"sudo sed -i s/gpgcheck=0/gpgcheck=1/ {source}; "
                   f"echo gpgkey=file:///srv/repository/KEY | sudo tee -a {source}")  # fmt: skip
    wishes = {"audit_wheelhouse": str(wheelhouse), "audit_remove_packages": True, **OURS}
    out, folder = audit(bare_fleet, stub, tmp_path / "r", "h001", **wishes)
    kept = json.loads((folder / "listing.json").read_text())
    assert json.loads((folder / "state.json").read_text())["phase"] == "done", out
    assert "modprobe --all nvidia nvidia_uvm" in rented.calls(bare_fleet, "h001"), out
    history = bare_fleet.ssh("h001", "sudo cat /var/log/dnf.rpm.log").stdout
    assert "datacenter-gpu-manager-4-core" in history, history
    assert kept["before"] == kept["after"] and "left behind" not in out, out
    assert rented.installed(bare_fleet, "h001") == {}
