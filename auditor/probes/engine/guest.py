"""Guest manners on disk: one audit a machine, one private folder, both gone afterwards."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from typing import Optional

from . import process_tree
from .progress import boot_id

_PREFIX = "auditor-probe-"
_OWNER = "owner"
_PLACES = ("/run/lock/auditor-probe.lock", "/tmp/auditor-probe.lock")  # noqa: S108  # opened without following links


class Busy(Exception):
    """Another audit runs here; says which."""


class Lock:
    """Held while this process lives; close-on-exec, so no orphan can keep it."""

    def __init__(self, path: Optional[str], run: str) -> None:
        """Take it.

        Raises:
            Busy: somebody holds it.
        """
        problems = []
        for place in [path] if path else _PLACES:
            try:
                self._handle, self._place = _take(place), place
            except OSError as error:
                problems.append("%s: %s" % (place, error.strerror))
                continue
            try:
                os.ftruncate(self._handle, 0)
                os.pwrite(self._handle, ("run %s, pid %d" % (run, os.getpid())).encode("ascii", "replace"), 0)
            except OSError:
                pass  # another user's file, opened to read: the lock itself holds
            return
        raise Busy("no lock can be taken (%s): name another file with --lock" % "; ".join(problems))

    def release(self) -> None:
        """Give it back; the file goes too, where it is ours to remove."""
        with contextlib.suppress(OSError):
            os.unlink(self._place)
        os.close(self._handle)


def _take(place: str) -> int:
    """The locked file. One that was removed while we waited at its door is no lock: then once more."""
    while True:
        handle = _open(place)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(handle, 200, 0).decode("ascii", "replace").strip()
            os.close(handle)
            told = (holder or "unnamed", place)
            raise Busy(
                "another audit is under way here (%s); lock file %s; try again when it has ended" % told
            ) from None
        try:
            if os.stat(place).st_ino == os.fstat(handle).st_ino:
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)


def _open(place: str) -> int:
    """A regular file, never a link, never created through one; another user's file serves too."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    for more in (os.O_RDWR, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDONLY):
        try:
            handle = os.open(place, flags | more, 0o644)
        except (FileNotFoundError, FileExistsError, PermissionError):
            if more == os.O_RDONLY:
                raise
            continue
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(0, "not a regular file")
        return handle
    raise AssertionError("the last way raises")


class Scratch:
    """A private folder for this audit; folders of audits that died are cleared away first."""

    def __init__(self) -> None:
        root = tempfile.gettempdir()
        _clear_dead(root)
        self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=root)
        ticks = (process_tree.entry(os.getpid()) or process_tree.Entry(0, 0, 0, "", "")).ticks
        with open(os.path.join(self.path, _OWNER), "w", encoding="ascii") as file:
            file.write("%d %d %s" % (os.getpid(), ticks, boot_id()))

    def fresh(self, name: str) -> str:
        """An empty folder inside."""
        path = os.path.join(self.path, name)
        shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path, 0o700)
        return path

    def remove(self) -> None:
        """Leave nothing."""
        shutil.rmtree(self.path, ignore_errors=True)


def _clear_dead(root: str) -> None:
    for name in os.listdir(root):
        path = os.path.join(root, name)
        if name.startswith(_PREFIX) and _is_dead(path):
            shutil.rmtree(path, ignore_errors=True)


def _is_dead(path: str) -> bool:
    """Ours, a real folder, and its owner is no more (another process with its pid started at another time)."""
    try:
        info = os.lstat(path)
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
            return False
        with open(os.path.join(path, _OWNER), encoding="ascii") as file:
            pid, ticks, boot = file.read().split(" ", 2)
        found = process_tree.entry(int(pid))
    except (OSError, ValueError):
        return False
    return boot != str(boot_id()) or found is None or found.ticks != int(ticks)
