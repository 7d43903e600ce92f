# Copyright: the auditor's authors
# A process that outlives the SSH connection: started, recognised, ended.
"""Starts the probe in a session of its own and finds it, and everything it started, again.

Standard library only, Python >= 3.8. A process is known by pid and start time; its descendants, also those that
left the session, by a variable in their environment that holds our folder's unpredictable name.

Run as a program, this file is the timer that keeps a server clean when the controller never comes back.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

MARK = "AUDITOR_FOLDER"
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LD_LIBRARY_PATH")
_IMAGE = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
_CACHES = (
    "TMPDIR",
    "XDG_CACHE_HOME",
    "CUDA_CACHE_PATH",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
)


class Identity(NamedTuple):
    """One process for good: a reused pid has another start time, a rebooted machine another boot id."""

    pid: int
    ticks: int
    boot: str


def environment(private: Path) -> dict[str, str]:
    """A small environment: ours, and what a container image set for its first process (its PATH and libraries).

    What torch and the driver cache or put aside goes into our own folder, and so goes away with it.
    """
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    try:
        words = Path("/proc/1/environ").read_bytes().split(b"\0")
    except OSError:
        words = []
    for name, _, value in (os.fsdecode(word).partition("=") for word in words):
        if name == "PATH" and value not in kept.get("PATH", ""):
            kept["PATH"] = kept.get("PATH", "/usr/bin:/bin") + ":" + value
        elif name in _IMAGE:
            kept.setdefault(name, value)
    return {"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **kept, **{name: str(private) for name in _CACHES}}


@contextlib.contextmanager
def stop_held() -> Iterator[None]:
    """What is started here begins with SIGTERM held back: a stop in its first instants waits until it listens."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(argv: list[str], folder: Path, environment: dict[str, str]) -> Identity:
    """Start `argv` with its own session, no terminal, its noise in `folder`."""
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("ab") as err, stop_held():
        process = subprocess.Popen(  # noqa: S603  # a fixed argv, no shell
            argv,
            cwd=folder,
            env={**environment, MARK: str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    process.returncode = 0  # it is not waited for: it outlives this module
    return Identity(process.pid, _ticks(process.pid) or 0, boot_id())


def start_timer(folder: Path, seconds: float, others: Sequence[Path] = ()) -> None:
    """Leave a sleeping process that ends what is ours and removes `folder` and `others` after so many seconds.

    It is `sleep`, which costs the server next to nothing, and becomes this file when its time is over. It carries our
    mark: whoever ends the audit ends it, too.
    """
    program = folder / "timer.py"
    program.write_text(_source(), encoding="utf-8")
    argv = ["/bin/sh", "-c", 'sleep "$0" && exec "$@"', str(math.ceil(seconds))]
    argv += [sys.executable, "-I", str(program), str(folder), *map(str, others)]
    subprocess.Popen(  # noqa: S603  # a fixed argv, no shell
        argv,
        cwd="/",
        env={"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", MARK: str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ).returncode = 0  # it is not waited for


def _source() -> str:
    """This file's text; on a server it lies in the archive that Ansible sent."""
    text = __loader__.get_source(__name__)  # type: ignore[name-defined]
    return str(text)


def _tidy(folders: list[Path]) -> None:
    end(None, folders[0], 0.0)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)  # a link in it is removed, never followed


def boot_id() -> str:
    """This boot of the kernel."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def alive(who: Identity) -> bool:
    """Whether that very process still runs (a zombie does not)."""
    return who.boot == boot_id() and who.ticks == _ticks(who.pid)


def end(who: Identity | None, folder: Path, grace: float, writing: float = 0.0) -> list[int]:
    """End the probe: ask it, wait at most `grace` seconds, then kill all that is ours. Returns what would not die.

    With `writing`, its workers are killed first, and it has so many seconds more to write down what they measured.
    """
    if who and alive(who):
        _send(who.pid, signal.SIGTERM)
        _wait(lambda: not alive(who), grace)
        if writing and alive(who):
            for pid in _marked(folder):
                if pid != who.pid:
                    _send(pid, signal.SIGKILL)
            _wait(lambda: not alive(who), writing)
    marked = _marked(folder)
    for pid in marked:
        _send(pid, signal.SIGKILL)
    _wait(lambda: not _marked(folder), 5.0 if marked else 0.0)
    return _marked(folder)


def _wait(done: object, seconds: float) -> None:
    limit = time.monotonic() + seconds
    while not done() and time.monotonic() < limit:  # type: ignore[operator]
        time.sleep(0.05)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _marked(folder: Path) -> list[int]:
    """Processes that carry our mark. One in uninterruptible sleep is left out: its files may hang the reader."""
    word = f"{MARK}={folder}".encode()
    pids = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid() or _state(int(entry.name)) in ("D", "Z", ""):
            continue
        with contextlib.suppress(OSError):
            if word in (entry / "environ").read_bytes().split(b"\0"):
                pids.append(int(entry.name))
    return pids


def _stat(pid: int) -> list[str]:
    """/proc/PID/stat from the state on; the name before it may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _state(pid: int) -> str:
    fields = _stat(pid)
    return fields[0] if fields else ""


def _ticks(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[19]) if len(fields) > 19 and fields[0] != "Z" else None


if __name__ == "__main__":
    _tidy([Path(name) for name in sys.argv[1:]])
