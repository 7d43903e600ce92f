# Copyright: the auditor's authors
# What an audit could have left on a server, listed before and after it.
"""The proof that clean-up cleaned: two listings of everything an audit can touch, taken by the same code.

Standard library only, Python >= 3.8. Listed are names of ours wherever an audit may write, processes that run out of
such a folder, listening sockets, packages of the driver stack, package sources, loaded driver modules. Other people's
files are not listed: they come and go by themselves, and they are not our business.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional, Set

from ansible.module_utils import guest_folder, torch_folder
from ansible.module_utils.host_facts import run_program

_OURS = re.compile(r"^(auditor-|\.auditor)")
_SOURCES = (
    "/etc/apt/sources.list.d", "/etc/apt/preferences.d", "/etc/yum.repos.d", "/usr/share/keyrings", "/etc/modprobe.d",
    "/run/lock",
)  # fmt: skip
_PACKAGES = re.compile(r".*(nvidia|cuda)|datacenter-gpu-manager|linux-headers-|kernel-devel|dkms$|gpg-pubkey$")
ALL = "(all)"
_MODULES = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nouveau")


def take() -> Dict[str, Any]:
    """One listing; two of them are equal when nothing was left."""
    return {
        "files": _files(),
        "processes": _processes(),
        "listeners": _listeners(),
        "packages": _packages(),
        "modules": [name for name in _MODULES if os.path.isdir("/sys/module/" + name)],
    }


def difference(before: Dict[str, Any], after: Dict[str, Any]) -> List[str]:
    """What is there after and was not before (`+`), and the reverse (`-`), by kind."""
    out = []
    for kind in sorted(set(before) | set(after)):
        old, new = set(before.get(kind) or ()), set(after.get(kind) or ())
        out += ["+%s %s" % (kind, one) for one in sorted(new - old)] + [
            "-%s %s" % (kind, one) for one in sorted(old - new)
        ]
    return out


def _files() -> List[str]:
    folders: Set[str] = {str(place) for place in [*guest_folder.places(), *torch_folder.places()]} | set(_SOURCES)
    found = set()
    for folder in folders:
        try:
            found |= {os.path.join(folder, name) for name in os.listdir(folder) if _OURS.match(name)}
        except OSError:
            continue
    return sorted(found)


def _processes() -> List[str]:
    """Processes of this machine whose program or command lies in a folder of ours; the one that lists is not counted.

    A container's processes show on its host: another PID namespace is another machine.
    """
    found, here = [], _namespace("self")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid() or _namespace(pid) not in (here, None):
            continue
        try:
            with open("/proc/%s/stat" % pid, encoding="utf-8", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[0] == "D":
                    continue  # its command line may hang
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                words = file.read(4096).split(b"\0")
        except (OSError, IndexError):
            continue
        if any(_OURS.match(part) for word in words[:3] for part in os.fsdecode(word).split("/")):
            found.append(os.fsdecode(b" ".join(words[:2]))[:300])
    return sorted(found)


def _namespace(pid: str) -> Optional[str]:
    try:
        return os.readlink("/proc/%s/ns/pid" % pid)
    except OSError:
        return None


def _listeners() -> List[str]:
    found = set()
    for kind in ("tcp", "tcp6"):
        try:
            with open("/proc/net/" + kind, encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        for row in rows:
            if row[3] == "0A":
                address, port = row[1].split(":")
                loopback = address in ("0100007F", "00000000000000000000000001000000")
                found.add("%s %s %d" % (kind, "loopback" if loopback else "open", int(port, 16)))
    return sorted(found)


def _packages() -> List[str]:
    """Packages of the driver stack with their versions, the chosen module stream, and how many packages there are."""
    code, text = run_program(["dpkg-query", "-W", "-f=${db:Status-Abbrev}${Package} ${Version}\\n"])
    if code != 127:  # the second letter is the state; half-installed counts too
        rows = [line[3:].strip() for line in text.splitlines() if line[1:2] not in ("n", "c")]
    else:
        code, text = run_program(["rpm", "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n"])
        rows = [line for line in text.splitlines() if line]
    ours = {row for row in rows if _PACKAGES.match(row.split()[0])}
    return sorted(ours | stream()) + ["%s %d" % (ALL, len(rows))]


def stream() -> Set[str]:
    """The stream of the module nvidia-driver that dnf was told to take."""
    try:
        with open("/etc/dnf/modules.d/nvidia-driver.module", encoding="utf-8", errors="replace") as file:
            text = file.read(4096)
    except OSError:
        return set()
    chosen = re.search(r"^stream=(\S+)$", text, re.MULTILINE)
    return {"nvidia-driver:%s stream" % chosen[1]} if chosen else set()
