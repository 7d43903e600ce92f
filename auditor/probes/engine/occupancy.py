"""Is somebody else on this GPU? From what the driver tells; pure.

A visible process is an owner: the GPU is left alone. Memory or load without one (a container that hides
processes) leaves room for doubt: only the watcher of time slices runs.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set

MEMORY_BYTES = 1 << 30
"""The driver keeps up to 0.6 GiB with persistence on (evidence, shared-gpu); a tenant's context and data are more."""
IDLE_WORKER_BYTES = 2 << 30
"""A context with its libraries takes 0.5-0.8 GiB on an H200; a communicator some of the rest."""
LOAD_RATIO = 0.05
LEAST_SAMPLES = 4
"""At two a second: load over two seconds. One sample after the driver woke the GPU proves nothing."""


def owner(look: Dict[str, Any]) -> Optional[str]:
    """The first process on a GPU before any of ours was there, as text."""
    processes = look.get("processes") or []
    return describe(processes[0]) if processes else None


def hidden(memory: Optional[float], loads: List[float]) -> Optional[str]:
    """Use that no visible process explains."""
    if memory is not None and memory > MEMORY_BYTES:
        return "%.1f GiB in use without a visible process" % (memory / 2**30)
    if len(loads) >= LEAST_SAMPLES:
        median = sorted(loads)[len(loads) // 2]
        if median >= LOAD_RATIO:
            return "%.0f %% load without a visible process" % (100 * median)
    return None


class Tenants:
    """Who came to one GPU since we work there.

    Where the driver's process numbers are ours (`exact`, or one of ours appears among them), every number that never
    was ours is a stranger. In a container with numbers of its own none of ours appears: then it takes more processes
    than ours, in two looks running, since one of ours may be on its way out.
    """

    def __init__(self, exact: bool) -> None:
        self._exact = exact
        self._ours: Set[int] = set()
        self._known: Set[int] = set()
        self._surplus = 0

    def look(self, processes: Optional[List[Dict[str, Any]]], ours: Set[int], contexts: int) -> Optional[str]:
        """The stranger as text. `ours` are our processes now, `contexts` how many of them may be on this GPU."""
        self._ours |= ours
        listed = {process["pid"] for process in processes or ()}
        if self._exact or listed & self._ours:
            strangers = listed - self._ours
        else:
            self._surplus = self._surplus + 1 if len(listed) > contexts else 0
            strangers = (listed - self._known or listed) if self._surplus > 1 else set()
            if not self._surplus:
                self._known = listed
        return next((describe(process) for process in processes or () if process["pid"] in strangers), None)


def describe(process: Dict[str, Any]) -> str:
    """`python3 (pid 4711, 12.3 GiB)`; the name only where /proc shows it."""
    try:
        with open("/proc/%d/comm" % process["pid"], encoding="utf-8", errors="replace") as file:
            name = file.read().strip()
    except OSError:
        name = "a process"
    size = ", %.1f GiB" % (process["bytes"] / 2**30) if process.get("bytes") else ""
    return "%s (pid %d%s)" % (name, process["pid"], size)
