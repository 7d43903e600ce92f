# Copyright: the auditor's authors
# Which Python of this server has torch.
"""Finds interpreters with torch by reading `torch/version.py` (6 ms), never by importing it (seconds).

Standard library only, Python >= 3.8. Rented machines keep torch in the system, in conda, in a venv below
/opt, /workspace, /venv or a home; images put its `bin` on the PATH of PID 1, which an SSH login does not get.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple, Sequence

_PACKAGES = "lib*/python3*/site-packages/torch/version.py"
_PREFIXES = ("opt/*", "opt/*/*", "opt/*/envs/*", "root/*", "root/*/envs/*", "home/*/*", "home/*/*/envs/*",
             "workspace/*", "venv", "venv/*", "srv/*", "mnt/*", "data/*")  # fmt: skip
_SYSTEM = ("usr/lib/python3/dist-packages/torch/version.py", "usr/lib64/python3*/site-packages/torch/version.py",
           "usr/local/lib*/python3*/*-packages/torch/version.py")  # fmt: skip
_VERSION = re.compile(r"^__version__(?:: str)? = '([^'\s]{1,60})'", re.MULTILINE)
_CUDA = re.compile(r"^cuda(?:: [^=]+)? = '([^'\s]{1,20})'", re.MULTILINE)


class Found(NamedTuple):
    """One interpreter with torch; `cuda` is None on a CPU or ROCm build."""

    interpreter: str
    torch: str
    cuda: str | None
    python: tuple[int, int]


def search(
    root: str = "/", home: str | None = None, prefixes: Sequence[Path] = (), driver: int | None = None
) -> list[Found]:
    """Every usable interpreter with torch, best first. `prefixes` are looked at too.

    A CUDA build that the driver's branch runs, then any CUDA build (compatibility libraries may help it), then newer
    torch.
    """
    found = {}
    files = _version_files(Path(root), Path(home or os.environ.get("HOME") or "/nonexistent"))
    for version_file in [*files, *(file for prefix in prefixes for file in _glob(prefix, _PACKAGES))]:
        one = _read(Path(root), version_file)
        if one:
            found[one.interpreter] = one
    best = sorted(found.values(), key=lambda f: (runs(f, driver), f.cuda is not None, _number(f.torch)), reverse=True)
    return list(best)


def runs(one: Found, driver: int | None) -> bool:
    """Whether this build is made for CUDA and this branch of the driver runs that CUDA by itself."""
    if one.cuda is None:
        return False
    return driver is None or int(re.match(r"\d*", one.cuda)[0] or 0) <= (13 if driver >= 580 else 12)


def why(found: Sequence[Found], driver: int | None = None) -> str:
    """Why the first of them is taken, with those that were passed over."""
    if not found:
        return "no Python here has torch"
    best, others = found[0], found[1:]
    if not others:
        return "the only Python here with torch"
    rivals = [
        one for one in others if runs(one, driver) == runs(best, driver) and (one.cuda is None) == (best.cuda is None)
    ]
    kind = "torch with CUDA" if best.cuda else "torch"
    reason = f"the newest {kind}" if rivals else f"the only {kind}"
    if best.cuda and driver is not None and runs(best, driver):
        reason += f" that driver {driver} runs"
    passed = ", ".join(
        f"{one.interpreter} (torch {one.torch}, {'CUDA ' + one.cuda if one.cuda else 'no CUDA'})" for one in others
    )
    return f"{reason} of {len(found)}; passed over: {passed}"


def _version_files(root: Path, home: Path) -> list[Path]:
    files: list[Path] = []
    for pattern in (*_SYSTEM, *(f"{prefix}/{_PACKAGES}" for prefix in _PREFIXES)):
        files += _glob(root, pattern)
    for pattern in (".local/", "*/", ".*/", "*/envs/*/", ".*/envs/*/"):
        files += _glob(home, pattern + _PACKAGES)
    for prefix in _prefixes_in_use(root):
        files += _glob(prefix, _PACKAGES)
    return sorted(set(files))


def _glob(base: Path, pattern: str) -> list[Path]:
    try:
        return [path for path in base.glob(pattern) if path.is_file()]
    except OSError:
        return []


def _prefixes_in_use(root: Path) -> set[Path]:
    """Where PID 1's PATH and ours lead, and what interpreters run right now."""
    folders = os.environ.get("PATH", "").split(":")
    try:
        environment = (root / "proc/1/environ").read_bytes().split(b"\0")
        folders += [os.fsdecode(e[5:]) for e in environment if e.startswith(b"PATH=")][0:1]
    except OSError:
        pass
    prefixes = {root / part.strip("/") for folder in folders for part in folder.split(":") if part.startswith("/")}
    for link in (root / "proc").glob("[0-9]*/exe"):
        try:
            target = Path(os.readlink(link))  # noqa: PTH115  # a kernel link, not a file's
        except OSError:
            continue
        if re.fullmatch(r"python3?(\.\d+)?", target.name):
            prefixes.add(target.parent)
    return {prefix.parent for prefix in prefixes if prefix.name == "bin" and prefix.parent != root}


def _read(root: Path, version_file: Path) -> Found | None:
    try:
        text = version_file.read_text(encoding="utf-8", errors="replace")[:8192]
    except OSError:
        return None
    version = _VERSION.search(text)
    interpreter = _interpreter(root, version_file.parents[1])
    if not version or not interpreter:
        return None
    cuda = _CUDA.search(text)
    return Found(str(interpreter[0]), version[1], cuda[1] if cuda else None, interpreter[1])


def _interpreter(root: Path, packages: Path) -> tuple[Path, tuple[int, int]] | None:
    """The interpreter that sees this site-packages or dist-packages folder."""
    layout = re.fullmatch(r"(.*)/lib(?:64)?/python3(?:\.(\d+))?/(site|dist)-packages", str(packages))
    if not layout:
        return None
    prefix, minor = layout[1], layout[2]
    names = [f"python3.{minor}", "python3", "python"] if minor else ["python3"]
    system = [str(root / "usr/bin"), str(root / "usr/local/bin")]
    user_site = prefix.endswith("/.local")
    folders = system if layout[3] == "dist" or user_site else [f"{prefix}/bin"]
    for folder in folders:
        for name in names[:1] if (layout[3] == "dist" or user_site) else names:
            path = Path(folder, name)
            if os.access(path, os.X_OK):
                version = (3, int(minor)) if minor else _minor_of(path)
                return (path, version) if version >= (3, 8) else None
    return None


def _minor_of(path: Path) -> tuple[int, int]:
    """The version of /usr/bin/python3 by what it links to; 3.8 where that does not tell."""
    match = re.search(r"python3\.(\d+)$", str(path.resolve()))
    return (3, int(match[1])) if match else (3, 8)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])
