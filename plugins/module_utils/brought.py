# Copyright: the auditor's authors
# Removing the packages that an audit brought.
"""Takes away what came since the first listing: packages of the driver stack, and the package source that served them.

Standard library only, Python >= 3.8. Only names that were not there before are removed, and
what came along with them and nobody else needs; what was upgraded stays.
"""

from __future__ import annotations

import os
import re
from typing import List, Sequence, Set, Tuple

from ansible.module_utils import listing
from ansible.module_utils.host_facts import run_program

_KEY = "gpg-pubkey"
_MODULES = ("nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia")  # in the order in which they let go
_SOURCES = (
    "/etc/apt/sources.list.d/auditor-nvidia.list",
    "/usr/share/keyrings/auditor-nvidia.asc",
    "/etc/yum.repos.d/auditor-nvidia.repo",
    "/etc/apt/sources.list.d/auditor-dcgm.list",
    "/etc/apt/preferences.d/auditor-dcgm",
    "/usr/share/keyrings/auditor-dcgm.asc",
    "/etc/yum.repos.d/auditor-dcgm.repo",
)


def remove(before: Sequence[str]) -> Tuple[List[str], List[str]]:
    """What was removed and what would not go."""
    known = {line.split()[0] for line in before if line.strip()}
    streams = {name.split()[0] for name in listing.stream()} - known
    there = listing.take()["packages"]
    names = [line.split()[0] for line in there]
    new = [name for name in names if name not in known | streams | {listing.ALL, _KEY}]
    removed, left = _packages(new) if new else ([], [])
    modules = [name for name in _MODULES if os.path.isdir("/sys/module/" + name)]
    if modules and any("nvidia" in name for name in removed):  # its files are gone; what still runs came with them
        code, said = run_program(["rmmod", *modules], errors=True, seconds=60.0)
        left += ["modules %s: %s" % (", ".join(modules), said.strip()[:120])] if code else []
    # rpm keeps each key that a repository brought as a package, and dnf does not see those.
    for key in ["-".join(line.split()) for line in there if line.split()[0] == _KEY and line not in before]:
        code, _ = run_program(["rpm", "-e", key], seconds=60.0)
        (left if code else removed).append(key)
    for stream in streams:
        code, said = run_program(
            ["dnf", "-q", "-y", "module", "reset", stream.split(":")[0]], errors=True, seconds=300.0
        )
        (left if code else removed).append(stream)
    for path in _SOURCES:
        try:
            os.unlink(path)
            removed.append(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            left.append("%s: %s" % (path, error.strerror))
    return removed, left


def _packages(names: List[str]) -> Tuple[List[str], List[str]]:
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    nobody_needed = _orphans()  # of the server's own: not ours to tidy
    code, said = run_program(["apt-get", "-q", "-y", "purge", *names], errors=True, seconds=900.0)
    if code == 127:  # dnf takes what came along with them by itself
        code, said = run_program(["dnf", "-q", "-y", "remove", *names], errors=True, seconds=900.0)
    elif code == 0:
        along = sorted(_orphans() - nobody_needed)
        if along:
            code, said = run_program(["apt-get", "-q", "-y", "purge", *along], errors=True, seconds=900.0)
            names = names + along
    if code:
        last = [line for line in said.splitlines() if line.strip()][-1:]
        return [], ["packages %s: %s" % (", ".join(names[:6]), last[0] if last else "code %d" % code)]
    return names, []


def _orphans() -> Set[str]:
    """Packages that came for others and that nobody needs any more."""
    _, text = run_program(["apt-get", "-s", "-q", "autoremove"], seconds=120.0)
    return set(re.findall(r"^Remv (\S+)", text, re.MULTILINE))
