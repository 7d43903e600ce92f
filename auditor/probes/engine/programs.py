"""Running other people's programs: fixed arguments, a bare environment, a time limit, the whole tree ended.

The environment holds PATH, a plain locale and the word by which the engine finds what a dead worker left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import IO, Any, List, NamedTuple, Optional, Union

from .process_tree import MARK


class Ended(NamedTuple):
    """How a program ended: its exit code as a shell shows it, and what it printed."""

    code: int
    out: str
    err: str


def start(argv: List[str], folder: str, out: Union[int, IO[Any]] = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own; `out` takes what it prints (errors too, unless it is a pipe)."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": folder}
    if MARK in os.environ:
        environment[MARK] = os.environ[MARK]
    return subprocess.Popen(  # noqa: S603  # arguments are fixed by the probes, no shell
        argv,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.PIPE if out == subprocess.PIPE else subprocess.DEVNULL,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )


def run(argv: List[str], folder: str, seconds: float) -> Optional[Ended]:
    """Run a program to its end; None when it took longer, and then nothing of it is left."""
    child = start(argv, folder)
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        end(child)
        return None
    code = child.returncode if child.returncode >= 0 else 128 - child.returncode
    return Ended(code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def end(child: subprocess.Popen[bytes], grace: float = 2.0) -> None:
    """Ask a program and its session to end, then kill them; pipes are drained, so that nothing blocks it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=grace)
