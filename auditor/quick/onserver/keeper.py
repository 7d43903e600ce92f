"""The process that outlives the SSH connection: starts the probe, waits for it, tidies up when nobody comes back.

Every wait on the server ends by itself: the probe at its limit, the record's storage after `linger` seconds without
an agent. The keeper is known by run.json in the audit's folder, with the same keys as the Ansible module writes.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from ansible.module_utils import detached, guest_folder

from auditor.quick.onserver import notes, place
from auditor.quick.onserver.notes import Obstacle

_PROGRESS_LIMIT = 8 << 20
_SET_CHILD_SUBREAPER = 36
_POLL = 0.05


def fork(folder: Path, argv: list[str], request: dict[str, Any]) -> None:
    """Leave a keeper behind that runs `argv`; returns when the probe has started.

    Raises:
        Obstacle: it could not be started.
    """
    ready, told = os.pipe()
    if os.fork():
        os.close(told)
        with os.fdopen(ready, "rb") as pipe:
            trouble = pipe.read(4096)
        if trouble:
            raise Obstacle("not_started", trouble.decode("utf-8", "replace"))
        return
    try:
        os.setsid()
        os.chdir("/")
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.close(ready)
        _Keeper(folder, request).live(argv, told)
    finally:
        with contextlib.suppress(Exception):
            guest_folder.remove(folder)
        os._exit(0)  # also after an exception: this copy must never run the agent's code


class _Keeper:
    """The probe's parent from start to the folder's end."""

    def __init__(self, folder: Path, request: dict[str, Any]) -> None:
        self.folder = folder
        self.request = request
        self.told_to_end = False

    def live(self, argv: list[str], told: int) -> None:
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with contextlib.suppress(OSError, AttributeError):  # orphans come to us: a container's PID 1 may not bury them
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            process = self._start(argv)
        except OSError as error:
            os.write(told, f"{error.filename or argv[0]}: {error.strerror}".encode("utf-8", "replace"))
            return
        os.close(told)
        code = self._wait(process)
        if self.folder.exists():
            notes.write(self.folder / notes.EXIT, {"code": code})
            self._linger()

    def _start(self, argv: list[str]) -> subprocess.Popen[bytes]:
        environment = {**detached.environment(self.folder), detached.MARK: str(self.folder)}
        with (self.folder / notes.PROGRESS).open("ab") as err, detached.stop_held():
            process = subprocess.Popen(  # noqa: S603  # a fixed argv, no shell
                argv,
                cwd=str(self.folder),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=err,
                start_new_session=True,
            )
        me = os.getpid()
        told = {"run": self.request["run"], "nonce": self.request["nonce"], "boot": detached.boot_id()}
        told.update(pid=me, ticks=_ticks(me), probe=process.pid, probe_ticks=_ticks(process.pid))
        notes.write(self.folder / notes.RUN, told)
        return process

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        """The probe's exit status; its deadline and our own end are kept."""
        limit = time.monotonic() + float(self.request["limit"])
        while process.poll() is None:
            if self.told_to_end or time.monotonic() > limit or not self.folder.exists():
                detached.end(notes.probe(self.folder), self.folder, 2.0 if self.told_to_end else 10.0)
                process.kill()
                process.wait()
            self._shorten()
            time.sleep(_POLL)
        detached.end(None, self.folder, 0)  # what the probe left behind ends with it
        _unlock(str(self.request["run"]), (*place.LOCKS, self.request["lock"] or ""))
        _bury()
        return process.returncode

    def _linger(self) -> None:
        """Keep the record until it was fetched (the folder is gone) or nobody came for it."""
        seconds = float(self.request["linger"])
        end = time.monotonic() + seconds
        while self.folder.exists() and time.monotonic() < end and not self.told_to_end:
            attached = notes.age(self.folder / notes.ATTACHED)
            if attached is not None and attached < 5:
                end = time.monotonic() + seconds
            _bury()
            time.sleep(_POLL)

    def _shorten(self) -> None:
        """A soak writes progress for hours; what nobody fetched by now nobody needs."""
        with contextlib.suppress(OSError):
            progress = self.folder / notes.PROGRESS
            if progress.stat().st_size > _PROGRESS_LIMIT:
                os.truncate(progress, 0)

    def _on_term(self, *_: object) -> None:
        self.told_to_end = True


def _ticks(pid: int) -> int:
    """The process's start time: with the pid, its identity."""
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19])


def _unlock(run: str, places: tuple[str, ...]) -> None:
    """Remove the lock file of a probe that was killed; one that somebody holds, or of another run, stays."""
    for path in places:
        with contextlib.suppress(OSError), os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if file.read(200).startswith(f"run {run}, "):
                Path(path).unlink()


def _bury() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
