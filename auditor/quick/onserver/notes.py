"""Small files of ours in the audit's folder: what was started, how it ended, what it said last."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ansible.module_utils import detached, guest_folder

PROBE, RECORD, STATUS, RUN, PROGRESS, EXIT, ATTACHED = (
    "probe.pyz", "record.json", "status.json", "run.json", "stderr", "exit.json", "attached",
)  # fmt: skip


class Obstacle(Exception):
    """Why the probe cannot be started or followed here: a fixed word and a sentence's worth of detail."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def read(path: Path) -> dict[str, Any]:
    """A small JSON object of ours; empty while it is not there whole."""
    data = guest_folder.read_capped(path, 65536)
    try:
        found = json.loads(data) if data else None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def write(path: Path, value: dict[str, Any]) -> None:
    """Written whole: temporary file, rename."""
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(value), encoding="ascii")
    new.replace(path)


def keeper(folder: Path) -> Any:
    """The process that waits for the probe, as run.json names it (the Ansible module reads the same keys)."""
    return _identity(read(folder / RUN), "pid", "ticks")


def probe(folder: Path) -> Any:
    """The probe itself."""
    return _identity(read(folder / RUN), "probe", "probe_ticks")


def _identity(told: dict[str, Any], pid: str, ticks: str) -> Any:
    keys = ((pid, int), (ticks, int), ("boot", str))
    if not all(type(told.get(key)) is kind for key, kind in keys):
        return detached.Identity(-1, -1, "")
    return detached.Identity(told[pid], told[ticks], told["boot"])


def age(path: Path) -> float | None:
    """Seconds since the file was touched; None where there is none."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return None


def last_words(path: Path) -> str | None:
    """The last line on stderr that is no progress: a crash's reason."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 16384))
            lines = file.read(16384).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    plain = [line.strip() for line in lines if line.strip() and not line.startswith("{")]
    return plain[-1][:300] if plain else None
