# Copyright: the auditor's authors
# What a package manager says it would do, read before it does it.
"""Simulates an install and refuses it when anything else of the kernel or driver stack would change.

Standard library only, Python >= 3.8. A driver that was there and is replaced, a kernel that is upgraded, an initramfs
that is rebuilt by the wrong tool: each has cost somebody a machine (threat H06).
"""

import json
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


# dnf has no answer for programs: its table wraps long names. Its own library, under its own Python, has one.
_DNF = """
import json, sys
import dnf
with dnf.Base() as base:
    base.conf.read()
    base.conf.substitutions.update_from_etc("/")
    base.conf.releasever = base.conf.releasever or dnf.rpm.detect_releasever("/")
    base.conf.install_weak_deps = False
    base.init_plugins()
    base.pre_configure_plugins()
    base.read_all_repos()
    base.configure_plugins()
    base.fill_sack()
    out = {"new": [], "changed": [], "removed": [], "error": None}
    try:
        for name in sys.argv[1:]:
            base.install(name)
        base.resolve()
    except dnf.exceptions.Error as error:
        out["error"] = str(error)
    known = {package.name: package.evr for package in base.sack.query().installed()}
    coming, leaving = (base.transaction.install_set, base.transaction.remove_set) if base.transaction else ((), ())
    for package in coming:  # a second kernel beside the first is new, not a change: nothing of its name leaves
        old = [one.evr for one in leaving if one.name == package.name]
        out["changed" if old else "new"].append([package.name, *old[:1], package.evr])
    out["removed"] = sorted({one.name for one in leaving} - {package.name for package in coming})
    print(json.dumps(out))
"""


def dnf(packages: Sequence[str], run: Run, program: str = "/usr/bin/dnf") -> Simulated:
    """What `dnf install` of these packages would do, without weak dependencies."""
    code, text = run([_python_of(program), "-c", _DNF, *packages])
    try:
        told = json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError):
        last = text.strip().splitlines()[-1:]
        return Simulated((), (), (), last[0] if last else "dnf ended with %d" % code)
    error = told["error"] and " ".join(str(told["error"]).split())
    return Simulated(
        tuple((name, version) for name, version in told["new"]),
        tuple((name, old, new) for name, old, new in told["changed"]),
        tuple(told["removed"]),
        error,
    )


def _python_of(program: str) -> str:
    """The Python that this program runs under; dnf's library is nowhere else (EL 8: platform-python)."""
    try:
        with open(program, encoding="utf-8", errors="replace") as file:
            words = file.readline()[2:].split()
    except OSError:
        words = []
    return words[0] if words and "python" in words[0] else "/usr/bin/python3"


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


_DRIVER = re.compile(r"libnvidia-compute-\d|nvidia-driver-cuda$|nvidia-kernel-common-\d|kmod-nvidia")


def _upstream(version: str) -> str:
    """A package's version without epoch and packaging."""
    return re.sub(r"^\d+:", "", version).split("-")[0]
