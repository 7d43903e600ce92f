# Copyright: the auditor's authors
# What a package manager says it would do, read before it does it.
"""Simulates an install and refuses it when anything else of the kernel or driver stack would change.

Standard library only, Python >= 3.8. A driver that was there and is replaced, a kernel that is upgraded, an initramfs
that is rebuilt by the wrong tool: each has cost somebody a machine (threat H06).
"""

import re
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

Run = Callable[[Sequence[str]], Tuple[int, str]]

_STACK = re.compile(
    r"^(lib)?nvidia|^cuda|^linux-(image|modules|headers|generic|aws|azure|gcp)|^kernel|^dkms$|^initramfs|^dracut|^kmod-|^xserver|^grub|^shim"
)
_KERNEL = re.compile(r"^linux-(image|generic)|^kernel(-core|-modules|-modules-core)?$|^grub|^shim")


class Simulated(NamedTuple):
    """The package manager's own answer: what is new, what would be upgraded (name, from, to), what removed."""

    new: Tuple[Tuple[str, str], ...]
    upgraded: Tuple[Tuple[str, str, str], ...]
    removed: Tuple[str, ...]
    error: Optional[str] = None


def apt(packages: Sequence[str], run: Run) -> Simulated:
    """`apt-get -s install`, without Recommends, for these packages."""
    code, text = run(["apt-get", "-s", "-q", "--no-install-recommends", "install", *packages])
    new: List[Tuple[str, str]] = []
    upgraded: List[Tuple[str, str, str]] = []
    for name, old, version in re.findall(r"^Inst (\S+) (?:\[([^\]]+)\] )?\((\S+)", text, re.MULTILINE):
        if old:
            upgraded.append((name, old, version))
        else:
            new.append((name, version))
    removed = tuple(re.findall(r"^Remv (\S+)", text, re.MULTILINE))
    missing = re.findall(r"^E: (.+)$", text, re.MULTILINE)
    error = (missing[0] if missing else "apt-get ended with %d" % code) if code else None
    return Simulated(tuple(new), tuple(upgraded), removed, error)


def dnf(packages: Sequence[str], run: Run) -> Simulated:
    """`dnf --assumeno install` for these packages; it ends with 1 because the answer is no."""
    code, text = run(["dnf", "-q", "--assumeno", "--setopt=install_weak_deps=False", "install", *packages])
    new: List[Tuple[str, str]] = []
    upgraded: List[Tuple[str, str, str]] = []
    removed: List[str] = []
    section = ""
    for line in text.splitlines():
        head = re.match(r"^(Installing|Upgrading|Downgrading|Removing|Reinstalling)\b[^:]*:\s*$", line)
        if head:
            section = head[1]
            continue
        row = re.match(r"^ (\S+)\s+(\S+)\s+(\S+)\s+\S+\s+[\d.]+ ?[kMGB]?\s*$", line)
        if not row or not section:
            continue
        if section == "Installing":
            new.append((row[1], row[3]))
        elif section == "Removing":
            removed.append(row[1])
        else:
            upgraded.append((row[1], "?", row[3]))
    if not new and not upgraded and not removed and "Nothing to do" not in text:
        missing = re.findall(r"^(?:Error: |No match for argument: )(.+)$", text, re.MULTILINE)
        return Simulated((), (), (), missing[0] if missing else "dnf ended with %d" % code)
    return Simulated(tuple(new), tuple(upgraded), tuple(removed))


def refusal(done: Simulated, wanted: Sequence[str]) -> Optional[str]:
    """Why this install must not run, None when it only adds what was asked for and its libraries."""
    if done.error:
        return "the package manager cannot do it: %s" % done.error[:160]
    if done.removed:
        return "it would remove %s" % ", ".join(done.removed[:4])
    for name, old, new in done.upgraded:
        if _STACK.search(name):
            return "it would change %s from %s to %s" % (name, old, new)
    unequal = _unequal(done.new)
    if unequal:
        return unequal
    asked = {re.split(r"[=:]", package)[0] for package in wanted}
    for name, version in done.new:
        if _KERNEL.search(name) and name not in asked:
            return "it would bring another kernel: %s %s" % (name, version)
    return None


def _unequal(new: Sequence[Tuple[str, str]]) -> Optional[str]:
    """The fabric manager must equal the driver to the last digit, else CUDA ends with error 802."""
    managers = {name: _upstream(version) for name, version in new if re.match(r"nvidia-fabric-?manager", name)}
    drivers = {name: _upstream(version) for name, version in new if _DRIVER.match(name)}
    for manager, version in managers.items():
        for name, other in drivers.items():
            if version != other:
                return "%s would be %s but %s %s: they must be equal" % (manager, version, name, other)
    return None


_DRIVER = re.compile(r"libnvidia-compute-\d|nvidia-driver-cuda$|nvidia-kernel-common-\d")


def _upstream(version: str) -> str:
    """A package's version without epoch and packaging."""
    return re.sub(r"^\d+:", "", version).split("-")[0]
