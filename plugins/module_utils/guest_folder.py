# Copyright: the auditor's authors
# Our one private folder on a server: made, found again, removed.
"""Everything the audit writes on a server lies in one folder of mode 0700 with an unpredictable name.

Standard library only, Python >= 3.8. Removal never follows a link and never leaves the folder's file system.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

NAME = re.compile(r"auditor-[0-9a-f]{16}")
_NEED_BYTES = 16 << 20  # the probe file, its record and attachments, with room to spare


class NoPlace(Exception):
    """No folder could be made; `reason` is a fixed word, the text says what was tried."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def places() -> list[Path]:
    """Where a folder may lie, best first; memory-backed places only where no disk can be written."""
    home = os.environ.get("HOME") or "/nonexistent"
    return [Path(p) for p in ("/tmp", "/var/tmp", home, "/dev/shm", f"/run/user/{os.geteuid()}")]  # noqa: S108


def make() -> Path:
    """A new folder of ours with room for the audit.

    Raises:
        NoPlace: disk_full where room was the problem, else read_only or not_writable.
    """
    tried: list[tuple[Path, OSError]] = []
    for place in places():
        if place.parts[1:2] in (("dev",), ("run",)) and any(e.errno in _FULL for _, e in tried):
            break  # a full disk is a finding, not something to work around in memory
        folder = place / f"auditor-{secrets.token_hex(8)}"
        try:
            folder.mkdir(mode=0o700)
            _reserve(folder / "room")
            return folder
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            tried.append((place, error))
    numbers = {error.errno for _, error in tried}
    reason = "disk_full" if numbers & _FULL else "read_only" if errno.EROFS in numbers else "not_writable"
    causes: dict[str, list[str]] = {}
    for place, error in tried:
        causes.setdefault(error.strerror, []).append(str(place))
    where = "; ".join(f"{', '.join(there)}: {why}" for why, there in causes.items())
    raise NoPlace(reason, f"{_NEED_BYTES >> 20} MiB are needed; {where}")


_FULL = {errno.ENOSPC, errno.EDQUOT}


def _reserve(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"\0")
        file.flush()
        os.posix_fallocate(file.fileno(), 0, _NEED_BYTES)
    path.unlink()


def emptied(folder: Path, kept: str) -> Path:
    """A folder of ours for another audit: everything goes but the file named `kept`."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != kept or entry.is_symlink():
            entry.unlink()
    return folder


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One start at a time for this user: the home folder itself is locked, so no lock file stays behind."""
    try:
        handle = os.open(os.environ.get("HOME") or "/", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        for _ in range(100):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.1)
        yield
    finally:
        os.close(handle)


def ours() -> list[Path]:
    """Folders of this user that an audit made, here now."""
    found = []
    for place in places():
        try:
            entries = [entry for entry in os.scandir(place) if NAME.fullmatch(entry.name)]
        except OSError:
            continue
        found += [Path(entry.path) for entry in entries if is_ours(Path(entry.path))]
    return sorted(set(found))


def is_ours(folder: Path) -> bool:
    """True for a real folder (no link) of this user, mode 0700, with a name as we give it."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return (
        bool(NAME.fullmatch(folder.name))
        and stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and stat.S_IMODE(status.st_mode) == 0o700
    )


def remove(folder: Path) -> str | None:
    """Remove one folder of ours; None when it is gone, else why it is not.

    A mount inside it is not entered: what lies there is not ours.
    """
    if not folder.exists() and not folder.is_symlink():
        return None
    if not is_ours(folder):
        return f"{folder} is no folder of the audit's"
    device = folder.lstat().st_dev
    for parent, names, _ in os.walk(folder, followlinks=False):
        for name in names:
            if os.lstat(os.path.join(parent, name)).st_dev != device:  # noqa: PTH118  # os.walk speaks str
                return f"{folder} holds a mount; it was left alone"
    problems: list[str] = []
    shutil.rmtree(folder, onerror=lambda _, path, error: problems.append(f"{path}: {error[1]}"))
    return problems[0] if problems else None


def read_capped(path: Path, limit: int) -> bytes | None:
    """At most `limit` + 1 bytes of a regular file that is no link; None where there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read(limit + 1)
