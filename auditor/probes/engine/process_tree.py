"""Finding and ending everything a worker started, also what left its session and its parent.

Known by /proc: parent, start time, and a word of ours in the environment for what was handed to init. Only what
descends from us is ever touched; a process in uninterruptible sleep is told of, never waited for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Dict, Iterable, List, NamedTuple, Optional, Set

MARK = "AUDITOR_WORKER"


class Entry(NamedTuple):
    """One process: pid and start time name it for good."""

    pid: int
    ticks: int
    parent: int
    state: str
    name: str


def entry(pid: int) -> Optional[Entry]:
    """What /proc says of a process; None when it is gone. Only `stat` is read: it answers in any state."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    head, _, rest = text.rpartition(")")
    fields = rest.split()
    return Entry(pid, int(fields[19]), int(fields[1]), fields[0], head.partition("(")[2])


def everything() -> Dict[int, Entry]:
    """All processes there are."""
    found = (entry(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def descendants(root: int, processes: Optional[Dict[int, Entry]] = None) -> List[Entry]:
    """All live processes below `root`, zombies left out."""
    processes = everything() if processes is None else processes
    below: Set[int] = {root}
    grew = True
    while grew:
        grew = False
        for process in processes.values():
            if process.parent in below and process.pid not in below:
                below.add(process.pid)
                grew = True
    return [processes[pid] for pid in below - {root} if pid in processes and processes[pid].state != "Z"]


def marked(word: str, processes: Optional[Dict[int, Entry]] = None) -> List[Entry]:
    """Live processes with our word in their environment. One in uninterruptible sleep could hang its reader."""
    wanted = ("%s=%s" % (MARK, word)).encode()
    found = []
    for process in (everything() if processes is None else processes).values():
        if process.pid == os.getpid() or process.state in ("D", "Z"):
            continue
        try:
            with open("/proc/%d/environ" % process.pid, "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if wanted in words:
            found.append(process)
    return found


def end(root: Optional[int], word: str, ours: Iterable[int] = (), limit: float = 3.0) -> List[Entry]:
    """Kill `root`, all below it and all that carry `word`; returns what would not die within `limit` seconds.

    `ours` are the pids that somebody else waits for.
    """
    until = time.monotonic() + limit
    known: Dict[int, Entry] = {}
    while True:
        processes = everything()
        found = marked(word, processes)
        if root is not None and root in processes:
            found += [processes[root], *descendants(root, processes)]
        for process in found:
            known.setdefault(process.pid, process)
        alive = [process for process in known.values() if _same(process, processes.get(process.pid))]
        if not alive or time.monotonic() > until:
            return alive
        for process in alive:
            _kill(process)
        reap(ours)
        time.sleep(0.01)


def reap(ours: Iterable[int]) -> None:
    """Take in orphans that became our children and have ended."""
    keep = set(ours)
    for process in everything().values():
        if process.parent == os.getpid() and process.state == "Z" and process.pid not in keep:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def end_orphans(limit: float = 3.0) -> List[Entry]:
    """Kill whatever still descends from this process; returns what would not die."""
    until = time.monotonic() + limit
    while True:
        left = descendants(os.getpid())
        if not left or time.monotonic() > until:
            reap(())
            return left
        for process in left:
            _kill(process)
        reap(())
        time.sleep(0.01)


def _same(process: Entry, now: Optional[Entry]) -> bool:
    return now is not None and now.ticks == process.ticks and now.state != "Z"


def _kill(process: Entry) -> None:
    if _same(process, entry(process.pid)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)
