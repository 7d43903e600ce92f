# Copyright: the auditor's authors
# A torch of our own on a server: one folder, made, found again, removed.
"""The only thing pip ever installs on a server: torch, in a virtual environment inside a folder of ours.

Standard library only, Python >= 3.8. Nothing is installed into an interpreter that was there. The folder holds
`wish.json`, so that a later audit with `audit_keep` finds it and changes nothing.
"""

from __future__ import annotations

import glob
import json
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Callable, NamedTuple, Sequence

NAME = re.compile(r"auditor-torch-[0-9a-f]{16}")
CUDA_BYTES = 12 << 30  # 3 GB of wheels, 6-7 GB unpacked, and room for pip's own copies
CPU_BYTES = 2 << 30
_PIP_SECONDS = 1500
_NO_WAY = re.compile(
    "Temporary failure in name resolution|Name or service not known|nodename nor servname|Network is unreachable"
    "|No route to host|Connection refused|Connection to [^ ]+ timed out|Connection reset|Cannot connect to proxy"
)


class Wish(NamedTuple):
    """What is to be installed and from where; empty words mean the package index as the server has it set up."""

    version: str
    index: str = ""
    extra_index: str = ""
    find_links: str = ""
    trusted_host: str = ""
    proxy: str = ""
    offline: bool = False
    need_bytes: int = CUDA_BYTES


class NotMade(Exception):
    """No torch could be installed: a fixed word and a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def places() -> list[Path]:
    """Where the folder may lie: disks first, never memory."""
    home = os.environ.get("HOME") or "/nonexistent"
    return [Path(home), Path("/var/tmp"), Path("/tmp"), Path("/workspace"), Path("/mnt"), Path("/data")]  # noqa: S108


def ours() -> list[Path]:
    """Torch folders of this user that an audit made."""
    found = []
    for place in places():
        try:
            entries = [Path(entry.path) for entry in os.scandir(place) if NAME.fullmatch(entry.name)]
        except OSError:
            continue
        found += [entry for entry in entries if _is_ours(entry)]
    return sorted(set(found))


def find(wish: Wish) -> Path | None:
    """The interpreter of a folder that already holds what is wished."""
    for folder in ours():
        python = folder / "venv" / "bin" / "python"
        try:
            told = json.loads((folder / "wish.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if told.get("version") == wish.version and told.get("index") == wish.index and python.exists():
            return python
    return None


def make(wish: Wish, python: str = sys.executable, run: Callable[[Sequence[str], dict], tuple] | None = None) -> Path:
    """Make the environment and install torch; returns its interpreter.

    Raises:
        NotMade: no place with room, no pip, or pip's own last words.
    """
    run = run or _run
    folder = _place(wish.need_bytes) / f"auditor-torch-{secrets.token_hex(8)}"
    folder.mkdir(mode=0o700)
    try:
        made = folder / "venv" / "bin" / "python"
        code, words = run([python, "-m", "venv", "--without-pip", str(folder / "venv")], {})
        if code:
            raise NotMade("no_venv", f"{python} makes no virtual environment: {words}")
        (folder / "tmp").mkdir()
        code, words = run([*_pip(python, made, wish), *_arguments(wish)], _environment(wish, folder))
        offline = _NO_WAY.search(words)
        if code and offline:
            raise NotMade(
                "no_internet",
                f"pip reached no package index ({offline[0]}): audit_wheelhouse brings torch without internet, "
                "probe_runtime_index and probe_runtime_proxy name a way",
            )
        if code:
            raise NotMade("pip_failed", f"{_wanting(wish)}pip could not bring torch {wish.version}: {words}")
        shutil.rmtree(folder / "tmp", ignore_errors=True)
        (folder / "wish.json").write_text(json.dumps(wish._asdict()), encoding="utf-8")
    except BaseException:
        remove(folder)
        raise
    return made


def remove(folder: Path) -> str | None:
    """Remove one folder of ours; None when it is gone, else why it is not."""
    if not folder.exists():
        return None
    if not _is_ours(folder):
        return f"{folder} is no torch folder of the audit's"
    problems: list[str] = []
    shutil.rmtree(folder, onerror=lambda _, path, error: problems.append(f"{path}: {error[1]}"))
    return problems[0] if problems else None


def _is_ours(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    mine = status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == 0o700
    return bool(NAME.fullmatch(folder.name)) and stat.S_ISDIR(status.st_mode) and mine


def _place(need: int) -> Path:
    tried = []
    for place in places():
        if not os.access(place, os.W_OK | os.X_OK):
            continue
        disk = os.statvfs(place)
        free = disk.f_bavail * disk.f_frsize
        if free >= need and not os.statvfs(place).f_flag & os.ST_NOEXEC:
            return place
        tried.append(f"{place} {free >> 20} MiB")
    raise NotMade(
        "disk_full", f"torch needs {need >> 20} MiB where programs may run; free: {', '.join(tried) or 'nowhere'}"
    )


def _wanting(wish: Wish) -> str:
    """What to make on the controller, where the wheelhouse that came holds another torch than this server runs."""
    held = sorted({os.path.basename(path) for path in glob.glob(os.path.join(wish.find_links, "torch-*.whl"))})
    if not wish.find_links or any(name.startswith(f"torch-{wish.version}-") for name in held):
        return ""
    python = "%d.%d" % sys.version_info[:2]
    return f"this server needs `make wheelhouse SERVER_PYTHON={python} TORCH={wish.version}` ({', '.join(held)} came): "


def _pip(python: str, made: Path, wish: Wish) -> list[str]:
    """How to run pip for the new environment: the server's own, else the wheel that came with the wheelhouse."""
    for wheel in sorted(glob.glob(os.path.join(wish.find_links or "/nonexistent", "pip-*.whl"))):
        return [str(made), f"{wheel}/pip"]
    code, words = _run([python, "-m", "pip", "--version"], {})
    version = re.match(r"pip (\d+)\.(\d+)", words)
    if code or not version:
        raise NotMade(
            "no_pip", f"{python} has no pip; make a wheelhouse (make wheelhouse) and name it: audit_wheelhouse"
        )
    if (int(version[1]), int(version[2])) < (22, 3):
        raise NotMade(
            "old_pip", f"pip {version[1]}.{version[2]} cannot serve another environment; use audit_wheelhouse"
        )
    return [python, "-m", "pip", "--python", str(made)]


def _arguments(wish: Wish) -> list[str]:
    words = ["install", "--no-input", "--no-cache-dir", "--disable-pip-version-check", "--quiet"]
    for flag, value in (
        ("--index-url", wish.index),
        ("--extra-index-url", wish.extra_index),
        ("--find-links", wish.find_links),
        ("--trusted-host", wish.trusted_host),
        ("--proxy", wish.proxy),
    ):
        words += [flag, value] if value else []
    return words + (["--no-index"] if wish.offline else []) + [f"torch=={wish.version}"]


def _environment(wish: Wish, folder: Path) -> dict:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    kept.update({name: value for name, value in os.environ.items() if name.startswith("PIP_") and not wish.offline})
    return {**kept, "TMPDIR": str(folder / "tmp")}


def _run(argv: Sequence[str], environment: dict) -> tuple:
    """Exit status and the last line a program said."""
    try:
        done = subprocess.run(
            list(argv),
            env=environment or None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PIP_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 126, str(error)[:200]
    lines = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
    wrong = [line for line in lines if _NO_WAY.search(line)] or [line for line in lines if line.startswith("ERROR")]
    return done.returncode, (wrong or lines or [""])[-1][-300:]
