"""Servers as they are really rented, each odd in one way, and what lies on one before and after an audit."""

from __future__ import annotations

import configparser
import contextlib
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pip
import yaml

from tests.fleet import Fleet
from tests.fleet.doorman import Doorman

ROOT = Path(__file__).parents[2]

PASSWORD, VAULT = "open sesame", "the vault's own"
_HASH = "usermod -p \"$(openssl passwd -6 'open sesame')\" ubuntu\n"
_ASKING_SUDO = _HASH + "echo 'ubuntu ALL=(ALL:ALL) ALL' >/etc/sudoers.d/fleet\n"
_ASKING_SSH = (
    _HASH + "sed -i 's/^PasswordAuthentication no/PasswordAuthentication yes/' /etc/ssh/sshd_config\n"
    "rm /home/ubuntu/.ssh/authorized_keys\n"
)
# every folder by itself: sshd could not open its files in /etc when the disk below the overlay is read-only
_READ_ONLY = "for at in /tmp /var /home /root /opt /srv /run; do mount -B $at $at; mount -o remount,bind,ro $at; done\n"
_GPU = """
mkdir -p /srv/devices/0000:01:00.0 /srv/module/nvidia
cd /srv/devices/0000:01:00.0; echo 0x10de >vendor; echo 0x2330 >device; echo 0x030200 >class
echo 580.95.05 >/srv/module/nvidia/version
mount --bind /srv/devices /sys/bus/pci/devices; mount --bind /srv/module /sys/module
"""
_PIP = """
home=/home/ubuntu/.local/lib/python3.$(/usr/bin/python3 -c 'import sys; print(sys.version_info[1])')/site-packages
rm -rf /etc/xdg/pip  # what this machine asks of its own pip
mkdir -p "$home"; ln -s /var/lib/pip "$home/pip"; chown -R ubuntu: /home/ubuntu/.local
printf '[global]\\nretries = 1\\n' >/etc/pip.conf
"""
_NO_KEY = {"ansible_ssh_private_key_file": None}
_NO_DCGM = {"audit_dcgm": "never", "audit_driver": "never"}


class Secret(str):
    """A text that stands encrypted in the inventory."""


class Odd(NamedTuple):
    """What is done to a server as root, and what its inventory says beside the address."""

    made: str = ""
    says: dict[str, Any] = {}  # noqa: RUF012  # never written to


ODD: dict[str, Odd] = {
    "good": Odd(),
    "sudo-not-given": Odd(_ASKING_SUDO, {"ansible_become": True}),
    "sudo-from-vault": Odd(_ASKING_SUDO, {"ansible_become": True, "ansible_become_password": Secret(PASSWORD)}),
    "sudo-wrong": Odd(_ASKING_SUDO, {"ansible_become": True, "ansible_become_password": "open barley"}),
    "sudo-forbidden": Odd(
        _HASH + "rm /etc/sudoers.d/fleet", {"ansible_become": True, "ansible_become_password": PASSWORD}
    ),
    "sudo-missing": Odd("rm /usr/bin/sudo", {"ansible_become": True}),
    "noexec-tmp": Odd("mount -t tmpfs -o noexec,mode=1777 tmpfs /tmp"),
    "read-only-root": Odd(_READ_ONLY),
    "fifty-mb": Odd("head -c $(($(stat -f -c '%a*%S' /) - 50 * 1048576)) /dev/zero >/srv/fill"),
    "ten-mb": Odd("head -c $(($(stat -f -c '%a*%S' /) - 10 * 1048576)) /dev/zero >/srv/fill"),
    "no-python": Odd("rm /usr/bin/python3*"),
    "no-torch-no-net": Odd(_GPU + _PIP, {**_NO_DCGM, "probe_runtime_need_bytes": 20 << 20}),
    "no-torch-no-room": Odd(_GPU, _NO_DCGM),
    "ssh-password": Odd(_ASKING_SSH, {**_NO_KEY, "ansible_password": PASSWORD}),
    "ssh-password-wrong": Odd(_ASKING_SSH, {**_NO_KEY, "ansible_password": "open barley"}),
    "ssh-password-not-given": Odd(_ASKING_SSH, _NO_KEY),
    "sshpass-missing": Odd(
        _ASKING_SSH, {**_NO_KEY, "ansible_password": PASSWORD, "ansible_ssh_password_mechanism": "sshpass"}
    ),
    "behind-a-jump-host": Odd(),
    "ipv6": Odd(),
    "unknown-name": Odd("", {"ansible_host": "gpu-01.invalid"}),
}


PYENV = Path.home() / ".pyenv" / "versions"
PYTHONS = {  # minor version: the folder of one that is on this machine
    minor: sorted(PYENV.glob(f"3.{minor}.*"))[-1].name for minor in range(8, 14) if list(PYENV.glob(f"3.{minor}.*"))
}
# A stand-in for torch: the search reads torch/version.py and imports nothing.
_TORCH = """
torch() { mkdir -p "$1/torch"; printf "__version__ = '%s'\\ncuda = %s\\n" "$2" "$3" >"$1/torch/version.py"; }
conda() {  # a prefix with its own bin/python, as conda makes it: PREFIX PYTHON
    mkdir -p "$1" "/var/upper$1" "/var/work$1"
    chmod 711 /root  # the shared library of these Pythons lies below it
    mount -t overlay overlay -o "lowerdir=PYTHONS/$2,upperdir=/var/upper$1,workdir=/var/work$1" "$1"
}
""".replace("PYTHONS", str(PYENV))
_SYSTEM_TORCH = (
    'torch /usr/local/lib/python3.$(/usr/bin/python3 -c "import sys; print(sys.version_info[1])")/dist-packages'
)
_NO_SYSTEM = "rm /usr/bin/python3*\n"


def _layouts() -> dict[str, Odd]:
    """Servers by where their Python with torch lies; those whose Python this machine has not are left out."""
    wanted: dict[str, tuple[tuple[int, ...], str, dict[str, Any]]] = {
        "conda-3.8": ((8,), _conda("/opt/conda", 8, "2.4.1+cu121", "12.1") + _NO_SYSTEM, {}),
        "venv-3.9": ((9,), _venv("/workspace/venv", 9, "2.8.0+cu128", "12.8"), {}),
        "conda-env-3.10": ((10,), _conda("/opt/miniforge3/envs/ml", 10, "2.10.0+cu128", "12.8"), {}),
        "conda-3.11": ((11,), _conda("/opt/conda", 11, "2.13.0", "13.0") + _NO_SYSTEM, {}),
        "home-venv-3.12": ((12,), _venv("/home/ubuntu/.venv", 12, "2.13.0", "13.0") + _NO_SYSTEM, {}),
        "conda-3.13": ((13,), _conda("/opt/conda", 13, "2.13.0", "13.0") + _NO_SYSTEM, {}),
        "several": ((10, 12), _SEVERAL, {}),
        "several-old-driver": ((10, 12), _SEVERAL + _GPU.replace("580.95.05", "570.86.15"), _NO_DCGM),
    }
    return {
        server: Odd(_TORCH + made, says)
        for server, (minors, made, says) in wanted.items()
        if all(minor in PYTHONS for minor in minors)
    }


def _conda(prefix: str, minor: int, version: str, cuda: str) -> str:
    packages = f"{prefix}/lib/python3.{minor}/site-packages"
    return f"conda {prefix} {PYTHONS.get(minor)}\ntorch {packages} {version} \"'{cuda}'\"\n"


def _venv(prefix: str, minor: int, version: str, cuda: str) -> str:
    made = f"chmod 711 /root; {PYENV}/{PYTHONS.get(minor)}/bin/python3 -m venv --without-pip {prefix}\n"
    return made + f"torch {prefix}/lib/python3.{minor}/site-packages {version} \"'{cuda}'\"\n"


_SEVERAL = (
    _SYSTEM_TORCH + " 2.14.0+cpu None\n"
    + _conda("/opt/conda", 10, "2.9.1", "12.8") + _venv("/workspace/venv", 12, "2.13.0", "13.0")
)  # fmt: skip
ODD["system"] = Odd(_TORCH + _SYSTEM_TORCH + " 2.10.0 \"'12.8'\"")
ODD.update(_layouts())


def binds() -> list[tuple[Path, str]]:
    """What every machine sees of this one: its Pythons, and a pip."""
    return [(PYENV, str(PYENV)), *_pip()] if PYTHONS else _pip()


def _pip() -> list[tuple[Path, str]]:
    return [(Path(pip.__file__).parent, "/var/lib/pip")]


def machine(fleet: Fleet, server: str) -> str:
    """Which machine of the fleet plays this server."""
    return fleet.names[list(ODD).index(server)]


def inside(fleet: Fleet, server: str, script: str) -> None:
    """Run a shell script there as root, without SSH."""
    pid = str(fleet.plan.machine(machine(fleet, server)).pid)
    subprocess.run(["nsenter", "-t", pid, "-m", "-r", "-w", "--", "sh", "-ec", script], check=True)


def inventory(fleet: Fleet, folder: Path, door: Doorman, ipv6_port: int) -> Path:
    """An inventory of all of them: odd ports, one behind `door`, one at ::1, one password encrypted."""
    known = fleet.folder / "known_hosts"
    ipv6 = fleet.plan.machine(machine(fleet, "ipv6")).address
    keys = dict(line.split(" ", 1) for line in known.read_text().splitlines())
    with known.open("a") as file:
        file.write(f"[::1]:{ipv6_port} {keys[f'[{ipv6}]:{fleet.plan.port}']}\n")
    hosts: dict[str, dict[str, Any]] = {}
    for server, odd in ODD.items():
        says = {"ansible_host": fleet.plan.machine(machine(fleet, server)).address, **odd.says}
        says = {"ansible_ssh_private_key_file": str(fleet.folder / "id_ed25519"), **says}
        hosts[server] = {name: value for name, value in says.items() if value is not None}
    hosts["behind-a-jump-host"]["ansible_ssh_args"] = _reading(folder, door)
    hosts["behind-a-jump-host"]["ansible_ssh_common_args"] = f"-o UserKnownHostsFile={known} -J door"
    hosts["ipv6"] |= {"ansible_host": "::1", "ansible_port": ipv6_port}
    common = f"-o UserKnownHostsFile={known}"
    everywhere = {"ansible_user": "ubuntu", "ansible_port": fleet.plan.port, "ansible_ssh_common_args": common}
    path = folder / "rented" / "hosts.yml"
    path.parent.mkdir()
    path.write_text(yaml.dump({"all": {"vars": everywhere, "hosts": hosts}}, Dumper=_Dumper))
    (folder / "vault_password").write_text(VAULT)
    return path


def _reading(folder: Path, door: Doorman) -> str:
    """The audit's own ssh arguments, for a person whose configuration knows `door`."""
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "ansible.cfg")
    config = folder / "ssh_config"
    config.write_text((ROOT / "plugins/files/ssh_config").read_text().replace("~/.ssh/config", str(door.config)))
    return settings["ssh_connection"]["ssh_args"].replace("plugins/files/ssh_config", str(config))


class _Dumper(yaml.SafeDumper):
    """Writes a Secret as ansible-vault would."""


def _encrypted(dumper: yaml.SafeDumper, secret: Secret) -> yaml.Node:
    # In a process of its own: importing Ansible here would put its stand-in for sys.intern under torch's feet.
    with tempfile.NamedTemporaryFile("w") as password:
        password.write(VAULT)
        password.flush()
        command = [sys.executable, "-m", "ansible", "vault", "encrypt", "--vault-password-file", password.name]
        done = subprocess.run(command, input=str(secret), capture_output=True, text=True, check=True)
    return dumper.represent_scalar("!vault", done.stdout, style="|")


_Dumper.add_representer(Secret, _encrypted)


def traces(fleet: Fleet, server: str) -> dict[str, str]:
    """All that lies and runs on a server, read from outside so that looking leaves nothing: files, processes, ports."""
    pid = fleet.plan.machine(machine(fleet, server)).pid
    root = fleet.root(machine(fleet, server))
    found: dict[str, str] = {}
    tops = [entry for entry in root.iterdir() if entry.is_dir() and not entry.is_symlink()]
    tops = [root / "dev/shm" if top.name == "dev" else top for top in tops if top.name not in _SHARED]
    for top in tops:
        device = top.lstat().st_dev  # what is mounted inside cannot be written to, or its upper folder is seen
        for parent, names, files in os.walk(top):
            names[:] = [name for name in names if os.lstat(f"{parent}/{name}").st_dev == device]
            for path in [parent, *(f"{parent}/{name}" for name in files)]:
                with contextlib.suppress(FileNotFoundError):
                    status = os.lstat(path)
                    size = status.st_size if stat.S_ISREG(status.st_mode) else 0
                    found[path.removeprefix(str(root))] = f"{status.st_mode:o} {status.st_uid} {size}"
    for entry in (root / "proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            found[f"process {entry.read_text().strip()}"] = "runs"
    for kind in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]:
            if line.split()[3] == "0A":
                found[f"listener {line.split()[1]}"] = kind
    return {name: what for name, what in found.items() if not name.startswith(_NOT_OURS)}


_SHARED = ("proc", "sys", "usr", "etc")  # what changes in /usr and /etc lies in their upper folders, below /.cow
# sudo's own note of the last password; connections of the audit that ssh keeps open for a while
_NOT_OURS = ("/run/sudo", "/var/lib/sudo", "process sshd")
