"""Makes a machine of the test fleet look like a rented GPU server to package managers.

`modprobe`, `rmmod`, `systemctl` and `shutdown` are recording stand-ins (no kernel module can be loaded there, and no
systemd runs); apt, dpkg, dnf and rpm are real. Ubuntu and Rocky are played by their os-release over Debian's tools.
"""

from __future__ import annotations

import contextlib
import platform
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.fleet import Fleet

UBUNTU = 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04 LTS"\n'
DEBIAN = 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'
ROCKY = 'ID=rocky\nVERSION_ID="9.4"\nPRETTY_NAME="Rocky Linux 9.4"\nPLATFORM_ID="platform:el9"\n'
ROCKY_KERNEL = f"5.14.0-427.13.1.el9_4.{platform.machine()}"

_MODPROBE = """#!/bin/sh
echo "modprobe $*" >> /srv/calls
[ -e /srv/no-module ] && { echo "modprobe: FATAL: Module nvidia not found in directory /lib/modules" >&2; exit 1; }
[ -e /srv/needs-reboot ] && { echo "modprobe: ERROR: could not insert 'nvidia': No such device" >&2; exit 1; }
mkdir -p /sys/module/nvidia && echo 580.95.05 > /sys/module/nvidia/version
"""
_SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >> /srv/calls
case "$1" in
  show) printf "Id=%s\nLoadState=loaded\nActiveState=inactive\nSubState=dead\nUnitFileState=enabled\n" "$2" ;;
  is-enabled) echo enabled ;;
  *) : ;;
esac
"""

_RMMOD = """#!/bin/sh
echo "rmmod $*" >> /srv/calls
for name; do rm -r /sys/module/$name || exit 1; done
"""
_SHUTDOWN = """#!/bin/sh
echo "shutdown $*" >> /srv/calls
"""
_BOOT = """#!/bin/sh
echo boot >> /srv/calls
mkdir -p /run/systemd/system
rm -rf /srv/needs-reboot /srv/module/nvidia
! [ -e /usr/bin/nvidia-smi ] || modprobe nvidia
"""


def rent(
    fleet: Fleet,
    server: str,
    repository: Path,
    *,
    release: str | None = UBUNTU,
    devices: tuple[str, ...] = ("2330",),
    switches: int = 0,
) -> None:
    """A fresh machine with NVIDIA devices on its bus and this repository as its only source of packages."""
    fleet.reboot(server)
    root = fleet.root(server)
    shutil.copytree(repository, root / "srv/repository", ignore=shutil.ignore_patterns("build", "top", "*.spec"))
    if release:  # else the machine is what it says it is
        (root / "srv/os-release").write_text(release)
    (root / "srv/kernel").write_text(ROCKY_KERNEL + "\n")
    for number, device in enumerate(devices):
        _function(root, f"0000:0{number}:00.0", device, "0x030200")
    for number in range(switches):
        _function(root, f"0000:8{number}:00.0", "22a3", "0x068000")
    for path, text in (
        ("modprobe", _MODPROBE), ("rmmod", _RMMOD), ("systemctl", _SYSTEMCTL), ("shutdown", _SHUTDOWN),
        ("rc.local", _BOOT),
    ):  # fmt: skip
        (root / "srv" / path).write_text(text)
        (root / "srv" / path).chmod(0o755)
    done = fleet.ssh(server, "sudo sh -s", input=_PREPARE, stdin=None)
    assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def restarting(fleet: Fleet, server: str) -> Iterator[None]:
    """While open, a machine that is told to shut down restarts with the disk it has, once."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            if any(call.startswith("shutdown") for call in calls(fleet, server)):
                fleet.reboot(server, keep=True)
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def serve(fleet: Fleet, server: str, packages_at: Path, folder: str) -> str:
    """NVIDIA's repositories on the machine itself, as a web server; returns their address."""
    root = fleet.root(server)
    shutil.copytree(packages_at, root / "srv/nvidia" / folder)
    if not (key := root / "srv/nvidia" / folder / "D42D0685.pub").exists():
        key.with_name("3bf863cc.pub").write_text("no key: the test's apt repository is not signed\n")
    fleet.ssh(server, "cd /srv/nvidia && (python3 -m http.server 8765 >/dev/null 2>&1 &) && "
              "until (echo > /dev/tcp/127.0.0.1/8765) 2>/dev/null; do :; done")  # fmt: skip
    return "http://127.0.0.1:8765"


def secure_boot(fleet: Fleet, server: str) -> None:
    """Firmware that says that Secure Boot is on."""
    variable = fleet.root(server) / "srv/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    variable.parent.mkdir()
    variable.write_bytes(b"\x06\0\0\0\x01")
    done = fleet.ssh(server, "sudo sh -c 'mkdir -p /srv/firmware/efi; mv /srv/efivars /srv/firmware/efi/; "
                     "mount --bind /srv/firmware /sys/firmware'")  # fmt: skip
    assert done.returncode == 0, done.stderr


def calls(fleet: Fleet, server: str) -> list[str]:
    """What the stand-ins were asked to do; questions (`systemctl show`) do not count."""
    path = fleet.root(server) / "srv/calls"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if not line.startswith(("systemctl show", "systemctl is-"))]


def installed(fleet: Fleet, server: str) -> dict[str, str]:
    """The machine's packages by name with their version, as dpkg or rpm knows them; the test's own bash aside."""
    dpkg = "dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\\n'"
    rpm = "sudo rpm -qa --qf 'ii %{NAME} %{VERSION}-%{RELEASE}\\n'"
    text = fleet.ssh(server, f"if [ -e /usr/bin/dpkg-query ]; then {dpkg}; else {rpm}; fi 2>/dev/null").stdout
    rows = [row for row in map(str.split, text.splitlines()) if len(row) == 3 and row[0] == "ii"]
    return {row[1]: row[2] for row in rows if row[1] != "bash"}


def _function(root: Path, address: str, device: str, kind: str) -> None:
    folder = root / "srv/devices" / address
    folder.mkdir(parents=True)
    for name, text in (("vendor", "0x10de"), ("device", f"0x{device}"), ("class", kind)):
        (folder / name).write_text(text + "\n")


_PREPARE = """
set -e
mkdir -p /srv/module /srv/devices /run/systemd/system
mount --bind /srv/devices /sys/bus/pci/devices
mount --bind /srv/module /sys/module
if [ -e /srv/os-release ]; then rm -f /etc/os-release; cp /srv/os-release /etc/os-release; fi
cp /srv/rc.local /etc/rc.local
for name in modprobe rmmod systemctl shutdown; do
  mkdir -p /usr/local/sbin; cp /srv/$name /usr/local/sbin/$name
  for at in /usr/bin/$name /usr/sbin/$name; do if [ -e $at ]; then rm -f $at; cp /srv/$name $at; fi; done
done
mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers /var/lib/dpkg/alternatives
touch /var/lib/dpkg/status /var/lib/dpkg/available
mkdir -p /var/lib/apt/lists/partial /var/cache/apt/archives/partial /var/log/apt
mkdir -p /var/lib/rpm /var/cache/dnf /var/lib/dnf
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d
mkdir -p /etc/apt/sources.list.d /etc/apt/apt.conf.d
if [ -e /srv/repository/Packages ]; then
  echo 'deb [trusted=yes] file:/srv/repository ./' > /etc/apt/sources.list
  apt-get -qq -o APT::Sandbox::User=root update
  echo 'APT::Sandbox::User "root";' > /etc/apt/apt.conf.d/99test
else
  mkdir -p /etc/yum.repos.d /etc/dnf/vars
  echo 9 > /etc/dnf/vars/releasever
  printf '[test]\\nname=test\\nbaseurl=file:///srv/repository\\ngpgcheck=0\\nenabled=1\\n' > /etc/yum.repos.d/test.repo
  rm -f /usr/bin/apt-get /usr/bin/apt-mark /usr/bin/apt-cache /usr/bin/dpkg /usr/bin/dpkg-query
  mount --bind /srv/kernel /proc/sys/kernel/osrelease
  rpm --initdb && dnf -q -y install bash
fi
"""
