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

from . import kernel_calls

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


def mark(process: Entry) -> Optional[str]:
    """The word of ours in a process's environment. One in uninterruptible sleep could hang its reader: not asked."""
    if process.state in ("D", "Z"):
        return None
    try:
        with open("/proc/%d/environ" % process.pid, "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return None
    start = ("%s=" % MARK).encode()
    return next((os.fsdecode(word[len(start) :]) for word in words if word.startswith(start)), None)


def end(root: Entry, word: str, ours: Dict[int, str], limit: float = 3.0) -> List[Entry]:
    """Kill `root`, all below it, and what it left behind; returns what would not die within `limit` seconds.

    What a dead process leaves becomes our child (`adopt_orphans`), or init's where the kernel does not allow that:
    both are found, the second by `word` in the environment. `ours` are the other processes we started, with their
    words: they and their own orphans stay.
    """
    until = time.monotonic() + limit
    known: Dict[int, Entry] = {}
    while True:
        processes = everything()
        found = _orphans(processes, word, root.pid, ours)
        if _same(root, processes.get(root.pid)):  # else its number may be another's by now
            found += [root, *descendants(root.pid, processes)]
        for process in found:
            known.setdefault(process.pid, process)
        alive = [processes[pid] for pid, process in known.items() if _same(process, processes.get(pid))]
        if not alive or time.monotonic() > until:
            return alive
        for process in alive:
            _kill(process)
        reap({root.pid, *ours})
        time.sleep(0.01)


def _orphans(processes: Dict[int, Entry], word: str, root: int, ours: Dict[int, str]) -> List[Entry]:
    found, adopting = [], kernel_calls.adopts_orphans()
    for process in processes.values():
        if process.pid == os.getpid() or process.pid == root or process.pid in ours or process.parent == 2:
            continue
        adopted = adopting and process.parent == os.getpid()
        if adopted or process.parent == 1:
            of = mark(process)
            if of == word or (adopted and of not in ours.values()):
                found.append(process)
    return found


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
