"""Which driver a server would get: every refusal with its reason, every distribution with its packages."""

import re
from pathlib import Path

import pytest
import yaml
from ansible.module_utils import driver_plan
from ansible.module_utils.driver_plan import generation, plan

BARE = {
    "os": "Ubuntu 24.04 LTS", "os_id": "ubuntu", "os_version": "24.04", "kernel": "6.8.0-51-generic",
    "privilege": "root", "container": "none", "nvidia_devices": ["10de:2330"] * 8,
    "nvswitches": 4, "secure_boot": False,
}  # fmt: skip


def server(**changes):
    """A bare Ubuntu with eight H100 and NVSwitches, with facts replaced."""
    return {**BARE, **changes}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"container": "docker"}, "belongs to its host"),
        ({"virtualization_mode": "vgpu"}, "vGPU guest"),
        ({"provider_managed": ["DGX OS"]}, "managed by the provider (DGX OS)"),
        ({"held": ["nvidia-driver-535"]}, "held packages: nvidia-driver-535"),
        ({"runfile_installer": "/usr/bin/nvidia-uninstall"}, "two installers"),
        ({"gpu_users": ["4711 python"]}, "4711 python"),
        ({"privilege": "none"}, "needs root"),
        ({"secure_boot": True}, "mokutil --import"),
        ({"os_id": "rocky", "os_version": "8.10", "os": "Rocky Linux 8.10"}, "Rocky Linux 8.10: audit only"),
        ({"os_id": "ubuntu", "os_version": "20.04", "os": "Ubuntu 20.04"}, "audit only"),
        ({"os_id": "debian", "os_version": "12", "secure_boot": True}, "Secure Boot"),
        ({"nvidia_devices": ["10de:ffff"]}, "10de:ffff is in no table"),
        ({"nvidia_devices": ["10de:1db1", "10de:2901"]}, "together"),
    ],
)
def test_what_is_not_ours_is_refused_with_its_reason(changes, words):
    """Nothing is installed, and the sentence says why or what to do."""
    got = plan(server(**changes))
    assert got.action == "refuse" and words in got.reason and got.packages == ()


@pytest.mark.parametrize(
    ("facts", "state", "words"),
    [
        (server(), "never", "never"),
        (server(nvidia_devices=[]), "missing", "no NVIDIA GPU"),
        (server(driver_version="535.183.01"), "missing", "535.183.01 is there and is left"),
        (server(driver_installed="nvidia-driver-550 550.1"), "missing", "left as it is"),
    ],
)
def test_what_is_there_is_kept(facts, state, words):
    """An existing driver is never touched unless `manage` is said."""
    got = plan(facts, state)
    assert got.action == "keep" and words in got.reason and got.packages == ()


def test_manage_may_change_what_is_there():
    """Only the explicit word leads to an install over an existing driver."""
    assert plan(server(driver_version="535.183.01"), "manage").action == "install"


def test_ubuntu_takes_the_server_packages_of_its_archive():
    """Modules are built for the running kernel, and NVSwitch boxes get the fabric manager of the same branch."""
    got = plan(server())
    assert (got.action, got.branch, got.flavour, got.family) == ("install", 580, "open", "apt")
    assert "nvidia-dkms-580-server-open" in got.packages and "linux-headers-6.8.0-51-generic" in got.packages
    assert "nvidia-fabricmanager-580" in got.packages
    assert not any("fabricmanager" in name for name in plan(server(nvswitches=0)).packages)


def test_signed_modules_make_secure_boot_no_obstacle():
    """Where the archive has a signed module for this kernel, it is taken instead of a build."""
    ready = "linux-modules-nvidia-580-server-open-6.8.0-51-generic"
    got = plan(server(secure_boot=True, signed_modules=[ready]))
    assert got.action == "install" and ready in got.packages
    assert not any("dkms" in name for name in got.packages)
    assert plan(server(secure_boot=True, signed_modules=[ready.replace("580", "535")])).action == "refuse"


def test_debian_pins_the_branch_first():
    """From branch 590 on package names carry no branch, so the pin comes before the driver."""
    got = plan(server(os_id="debian", os_version="12"), branch=595)
    assert got.first == ("nvidia-driver-pinning-595",) and "nvidia-kernel-open-dkms" in got.packages


def test_rocky_chooses_the_module_stream():
    """The stream is what pins on the RHEL family."""
    got = plan(server(os_id="rocky", os_version="9.4", nvswitches=0))
    assert (got.family, got.module_stream) == ("dnf", "580-open") and "kmod-nvidia-open-dkms" in got.packages


@pytest.mark.parametrize(
    ("device", "branch", "flavour", "expected"),
    [
        ("10de:1db1", 0, "auto", ("install", "proprietary")),
        ("10de:1db1", 0, "open", ("refuse", None)),
        ("10de:1db1", 595, "auto", ("refuse", None)),
        ("10de:2901", 0, "auto", ("install", "open")),
        ("10de:2901", 0, "proprietary", ("refuse", None)),
        ("10de:2901", 550, "auto", ("refuse", None)),
        ("10de:20b2", 0, "proprietary", ("install", "proprietary")),
        ("10de:20b2", 620, "proprietary", ("refuse", None)),
        ("10de:ffff", 580, "auto", ("install", "open")),
    ],
)
def test_the_module_flavour_fits_the_gpu(device, branch, flavour, expected):
    """Volta has no open module, Blackwell no proprietary one, and branch 620 none at all."""
    got = plan(server(nvidia_devices=[device]), branch=branch, flavour=flavour)
    assert (got.action, got.flavour) == expected


def test_the_ranges_of_device_ids_agree_with_the_catalogue():
    """Each model of the catalogue falls into its own architecture's range."""
    words = {name.title(): name for name in ("volta", "turing", "ampere", "ada", "hopper", "blackwell")}
    catalogue = Path(driver_plan.__file__).parents[2] / "auditor/catalog/gpus.yaml"
    models = yaml.safe_load(catalogue.read_text(encoding="utf-8"))
    models = models["models"] if isinstance(models, dict) else models
    checked = 0
    for model in models:
        word = next(value for key, value in words.items() if model["architecture"].startswith(key))
        for device in model["pci_device_ids"]:
            if re.fullmatch(r"10de:[0-9a-f]{4}", device):
                assert generation(device) == word, (model["name"], device)
                checked += 1
    assert checked > 60


def test_what_is_no_device_id_has_no_generation():
    """Another vendor's device, or a text, is not guessed."""
    assert generation("1002:73bf") is None and generation("H100") is None
