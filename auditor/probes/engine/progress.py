"""What can be seen while it runs: JSON lines on stderr, and a small status file for who asks now and then."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from datetime import datetime, timezone
from typing import Any, Dict, Optional

_EVERY = 0.5
_FIGURES = 12
_MAX_STATUS = 4096


class Progress:
    """Percent, step and a few figures; never a reason to fail."""

    def __init__(self, status: Optional[str], run: str, server: str) -> None:
        self._path, self._began, self._written = status, time.monotonic(), 0.0
        self._speaks = True
        self._status: Dict[str, Any] = {
            "pid": os.getpid(),
            "boot_id": boot_id(),
            "run": run,
            "server": server,
            "percent": 0,
            "step": "starting",
            "started": now(),
            "updated": now(),
            "figures": {},
            "finished": False,
            "exit": None,
        }

    def event(self, name: str, **more: Any) -> None:
        """One line on stderr."""
        line = json.dumps({"t": round(time.monotonic() - self._began, 2), "event": name, **more})
        if self._speaks:
            try:
                sys.stderr.write(line + "\n")
                sys.stderr.flush()
            except OSError:
                self._speaks = False  # nobody listens any more; the record counts

    def sentence(self, text: str) -> None:
        """One line for a person, between the JSON lines."""
        if self._speaks:
            with contextlib.suppress(OSError):
                sys.stderr.write("auditor-probe: %s\n" % text)

    def step(self, step: Optional[str], percent: float) -> None:
        """Where the audit is; without a name, how far the same step has got."""
        self._status.update(step=step or self._status["step"], percent=int(percent))
        self.write()

    def figure(self, metric: str, value: Any) -> None:
        """A figure worth showing; the latest few are kept."""
        figures = self._status["figures"]
        figures.pop(metric, None)
        figures[metric] = value
        while len(figures) > _FIGURES:
            del figures[next(iter(figures))]
        self.write()

    def finish(self, code: int) -> None:
        """The last word of the status file."""
        self._status.update(finished=True, exit=code, step="done", percent=100)
        self.write(now_or_never=True)

    def write(self, now_or_never: bool = False) -> None:
        """Replace the status file, at most twice a second."""
        if self._path is None or (time.monotonic() - self._written < _EVERY and not now_or_never):
            return
        self._written = time.monotonic()
        self._status["updated"] = now()
        data = json.dumps(self._status)
        while len(data) > _MAX_STATUS and self._status["figures"]:
            self._status["figures"].pop(next(iter(self._status["figures"])))
            data = json.dumps(self._status)
        try:
            replace(self._path, data.encode())
        except OSError as error:
            self._path = None
            self.event("status", problem=str(error))


def replace(path: str, data: bytes) -> None:
    """Write a whole file or nothing; who reads it never sees half."""
    beside = "%s.%d" % (path, os.getpid())
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        os.unlink(beside)
        error.filename = path
        raise


def boot_id() -> Optional[str]:
    """This boot of the kernel; None in a sandbox that hides it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


def now() -> str:
    """RFC 3339, UTC."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
