"""Is somebody else on this GPU? From what the driver tells; pure.

A visible process is an owner: the GPU is left alone. Memory or load without one (a container that hides
processes) leaves room for doubt: only the watcher of time slices runs.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, Optional, Set

MEMORY_BYTES = 1 << 30
"""The driver keeps up to 0.6 GiB with persistence on (evidence, shared-gpu); a tenant's context and data are more."""
LOAD_RATIO = 0.05
LEAST_SAMPLES = 4
"""At two a second: load over two seconds. One sample after the driver woke the GPU proves nothing."""


def owner(usage: Dict[str, Any], ours: Iterable[int] = ()) -> Optional[str]:
    """The first process that is not ours, as text."""
    mine = set(ours)
    for process in usage.get("processes") or []:
        if process["pid"] not in mine:
            return describe(process)
    return None


def strangers(before: Set[int], processes: List[Dict[str, Any]], ours: Set[int], expected: int) -> Optional[str]:
    """A process that came while we measure.

    Where the driver's numbers are ours (`ours` appear among them) every other one is a stranger. In a container of
    its own numbers none of ours appears: then a new number beyond the `expected` count of our own processes is one.
    """
    listed = {process["pid"] for process in processes}
    if listed & ours:
        found = listed - ours
    else:
        new = listed - before
        found = set(sorted(new)[: max(0, len(listed) - expected)])
    return next((describe(process) for process in processes if process["pid"] in found), None)


def hidden(memory: Optional[float], loads: List[float]) -> Optional[str]:
    """Use that no visible process explains."""
    if memory is not None and memory > MEMORY_BYTES:
        return "%.1f GiB in use without a visible process" % (memory / 2**30)
    if len(loads) >= LEAST_SAMPLES:
        median = sorted(loads)[len(loads) // 2]
        if median >= LOAD_RATIO:
            return "%.0f %% load without a visible process" % (100 * median)
    return None


def describe(process: Dict[str, Any]) -> str:
    """`python3 (pid 4711, 12.3 GiB)`; the name only where /proc shows it."""
    try:
        with open("/proc/%d/comm" % process["pid"], encoding="utf-8", errors="replace") as file:
            name = file.read().strip()
    except OSError:
        name = "a process"
    size = ", %.1f GiB" % (process["bytes"] / 2**30) if process.get("bytes") else ""
    return "%s (pid %d%s)" % (name, process["pid"], size)


def own_pids(root: int) -> Set[int]:
    """This process and all below it."""
    from . import process_tree

    return {root} | {process.pid for process in process_tree.descendants(root)} | {os.getpid()}
