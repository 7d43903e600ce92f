"""Where to work on this server and with which Python: the folder, the interpreter with torch, its environment."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

from ansible.module_utils import guest_folder, torch_search

from auditor.quick.onserver.notes import Obstacle

_KERNELS = ("/proc", "/sys", "/dev/pts", "/dev/mqueue", "/run/lock")
_ROOM = 4 << 20
LOCKS = ("/run/lock/auditor-probe.lock", "/tmp/auditor-probe.lock")  # noqa: S108  # where the probe takes its lock


def folder(wanted: str | None) -> Path:
    """Our private folder: where the user said, else where the audit always looks, else anywhere that can be written.

    Raises:
        Obstacle: disk_full where room is the problem, else not_writable.
    """
    if wanted:
        try:
            return _made(wanted)
        except OSError as error:
            raise Obstacle("not_writable", f"{wanted}: {error.strerror}; name another with --remote-dir") from None
    try:
        return Path(guest_folder.make())
    except guest_folder.NoPlace as error:
        if error.reason == "disk_full":
            raise Obstacle("disk_full", str(error)) from None
        tried = str(error)
    for place in _elsewhere():
        with contextlib.suppress(OSError):
            return _made(place)
    raise Obstacle("not_writable", f"{tried}. Name a folder that this user can write to with --remote-dir")


def lock(folder: Path) -> str | None:
    """The lock file where the probe cannot have its own two places: beside our folder, where the next audit looks."""
    for place in LOCKS:
        if os.access(place, os.R_OK) or os.access(Path(place).parent, os.W_OK | os.X_OK):
            return None
    return str(folder.with_name("auditor-probe.lock"))


def _made(place: str) -> Path:
    made = Path(place, "auditor-" + secrets.token_hex(8))
    made.mkdir(mode=0o700)
    try:
        room = made / "room"
        room.write_bytes(b"\0" * _ROOM)
        room.unlink()
    except OSError:
        with contextlib.suppress(OSError):
            room.unlink()
        made.rmdir()
        raise
    return made


def _elsewhere() -> list[str]:
    """Further places that may be writable: ours, where images keep data, every mount that is no kernel interface."""
    places = [os.environ.get("TMPDIR") or "", str(Path.cwd()), "/workspace", "/data", "/scratch", "/srv", "/opt"]
    with contextlib.suppress(OSError):
        mounts = os.fsdecode(Path("/proc/self/mounts").read_bytes())
        places += [
            re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), line.split(" ")[1]) for line in mounts.splitlines()
        ]
    return [
        place
        for place in dict.fromkeys(places)
        if place.startswith("/") and not place.startswith(_KERNELS) and os.access(place, os.W_OK | os.X_OK)
    ]


def interpreter(wanted: str | None) -> tuple[str, str | None, str | None]:
    """The interpreter to measure with, its torch and CUDA; without torch anywhere, the one that runs this.

    Raises:
        Obstacle: the wanted one is no program here.
    """
    if wanted and not os.access(wanted, os.X_OK):
        raise Obstacle("no_interpreter", f"{wanted} is no program on this server")
    for one in torch_search.search():
        if not wanted or os.path.realpath(one.interpreter) == os.path.realpath(wanted):
            return wanted or one.interpreter, one.torch, one.cuda
    return wanted or sys.executable, None, None


def bringer(python: str) -> str:
    """What could bring torch to this Python: `venv`, `pip` or `nothing`."""
    code = "import importlib.util as u;print(*(n for n in ('ensurepip','pip') if u.find_spec(n)))"
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        answer = subprocess.run([python, "-B", "-c", code], stdin=subprocess.DEVNULL, capture_output=True, timeout=10)  # noqa: S603
        words = answer.stdout.split()
        return "venv" if b"ensurepip" in words else "pip" if b"pip" in words else "nothing"
    return "nothing"
