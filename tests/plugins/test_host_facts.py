"""Facts of a machine, read from a root folder that a test filled."""

import re
from pathlib import Path

import pytest
from ansible.module_utils import host_facts


@pytest.fixture
def machine(tmp_path):
    """Writes files under a fake root and gathers there; programs answer from a dictionary."""

    def build(files=(), answers=()):
        for path, text in dict(files).items():
            at = tmp_path / path.lstrip("/")
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_bytes(text if isinstance(text, bytes) else text.encode())
        programs = dict(answers)
        return host_facts.gather(str(tmp_path), lambda argv: programs.get(argv[0], (127, "")))

    return build


def pci(address, device, kind, vendor="0x10de"):
    """The sysfs files of one PCI function."""
    base = f"/sys/bus/pci/devices/{address}"
    return {f"{base}/vendor": vendor + "\n", f"{base}/device": device + "\n", f"{base}/class": kind + "\n"}


def test_an_empty_machine_is_unknown_not_healthy(machine):
    """What cannot be read is None or empty."""
    facts = machine()
    assert facts["os_id"] is None and facts["nvidia_devices"] == [] and facts["driver_version"] is None


def test_gpus_and_switches_are_told_apart_by_class(machine):
    """Display functions are GPUs, bridges of NVIDIA are NVSwitches, other vendors do not count."""
    files = {
        **pci("0000:07:00.0", "0x2330", "0x030200"), **pci("0000:08:00.0", "0x22a3", "0x068000"),
        **pci("0000:09:00.0", "0x1533", "0x020000", "0x8086"),
    }  # fmt: skip
    facts = machine(files)
    assert facts["nvidia_devices"] == ["10de:2330"] and facts["nvswitches"] == 1


def test_the_drivers_owner_and_holds_are_found(machine):
    """dpkg names the package, apt-mark the hold, /proc the flavour."""
    version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release"
    packages = "ii  nvidia-driver-580-server-open 580.95.05-0ubuntu1\nun  nvidia-x <none>\n"
    facts = machine(
        {"/usr/bin/apt-get": "", "/proc/driver/nvidia/version": version},
        {"dpkg-query": (0, packages), "apt-mark": (0, "nvidia-driver-580-server-open\nvim\n")},
    )
    assert facts["driver_version"] == "580.95.05" and facts["driver_flavour"] == "open"
    assert facts["driver_installed"] == "nvidia-driver-580-server-open 580.95.05-0ubuntu1"
    assert facts["held"] == ["nvidia-driver-580-server-open"]


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({"/.dockerenv": ""}, "docker"),
        ({"/run/.containerenv": ""}, "podman"),
        ({"/proc/1/cgroup": "0::/kubepods/burstable/x\n"}, "kubepods"),
        ({"/proc/1/environ": "A=1\0container=lxc\0"}, "lxc"),
        ({}, "none"),
    ],
)
def test_containers_are_recognised(machine, files, word):
    """Each by its own sign."""
    assert machine(files)["container"] == word


def test_secure_boot_has_three_answers(machine):
    """On, off, and unknown where firmware variables cannot be read."""
    assert machine()["secure_boot"] is False
    assert machine({"/sys/firmware/efi/x": ""})["secure_boot"] is None
    assert machine({"/sys/firmware/efi/efivars/SecureBoot-8be4df61": b"\x06\0\0\0\x01"})["secure_boot"] is True


def test_dnfs_locks_and_excludes_are_holds(machine):
    """The plugin's file and dnf's own configuration, comments and other packages aside."""
    files = {
        "/usr/bin/dnf": "", "/etc/dnf/plugins/versionlock.list": "# Added\nnvidia-driver-cuda-3:580.1-1.*\nvim-9.*\n",
        "/etc/dnf/dnf.conf": "[main]\nexcludepkgs=kernel*, kmod-nvidia*\n",
    }  # fmt: skip
    assert machine(files)["held"] == ["nvidia-driver-cuda-3:580.1-1.*", "kmod-nvidia*"]


def test_a_pin_of_a_branch_is_no_driver(machine):
    """The package that only chooses the branch does not make a server one with a driver."""
    facts = machine({"/usr/bin/apt-get": ""}, {"dpkg-query": (0, "ii  nvidia-driver-pinning-580 580\n")})
    assert facts["driver_installed"] is None


def test_who_uses_a_gpu_is_found_by_its_open_devices(machine, tmp_path):
    """A process with /dev/nvidia0 open counts, the driver's daemons and the control device do not."""
    opened = {
        "11": ("python", "/dev/nvidia0"),
        "12": ("nvidia-persiste", "/dev/nvidia0"),
        "13": ("nvidia-smi", "/dev/nvidiactl"),
    }
    for pid, (name, device) in opened.items():
        (tmp_path / f"proc/{pid}/fd").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/comm").write_text(name + "\n")
        (tmp_path / f"proc/{pid}/fd/3").symlink_to(device)
    assert machine()["gpu_users"] == []
    assert machine({"/sys/module/nvidia/version": "580.95.05\n"})["gpu_users"] == ["11 python"]


def test_a_vgpu_guest_is_known_by_its_licence_daemon(machine):
    """By its configuration or its process; any other machine is not called one."""
    assert machine()["virtualization_mode"] is None
    assert machine({"/proc/5/comm": "nvidia-gridd\n"})["virtualization_mode"] == "vgpu"
    assert machine({"/etc/nvidia/gridd.conf": ""})["virtualization_mode"] == "vgpu"


def test_each_fact_that_a_plan_asks_for_is_gathered(machine):
    """A refusal that waits for a fact nobody reads would never come."""
    facts = machine()
    for name in ("driver_plan", "dcgm_plan"):
        text = Path(host_facts.__file__).with_name(f"{name}.py").read_text()
        asked = set(re.findall(r"facts(?:\.get\(|\[)\"(\w+)\"", text))
        assert len(asked) > 5 and asked <= set(facts), asked - set(facts)
