"""CPU time that the hypervisor kept, and CPU time that the cgroup's quota refused, over the whole audit.

/proc/stat, the `cpu` line, 8th number: ticks in which a virtual CPU was ready and did not run. Judged over
30 s or more under our own load (evidence: steal-time); zero proves nothing, for not every hypervisor tells.
"""

import os
import time
from typing import Any, Dict, Iterator, Optional, Tuple

from auditor.records import Reading

KEY = "steal_time"
SCOPE = "server"
DEVICES = ("cuda", "cpu")
NEEDS: Tuple[str, ...] = ()
SECONDS = {"quick": 0.1, "standard": 0.1, "soak": 0.1}
METHOD = 1
ORDER = 14

SOURCE = "kernel/sysfs"
_START: Dict[str, Any] = {}


def applies(context: Any) -> Optional[str]:
    """Where the kernel counts stolen time at all."""
    return None if cpu_ticks("/proc") else "/proc/stat tells no stolen time"


def run(context: Any) -> Iterator[Reading]:
    """Open the window; `finish` takes the figures."""
    _START.update(ticks=cpu_ticks("/proc"), quota=throttled("/sys/fs/cgroup"), at=time.monotonic())
    return iter(())


def finish(context: Any) -> Iterator[Reading]:
    """Close the window over the whole audit."""
    if not _START:
        return  # the process that opened the window is gone
    seconds = time.monotonic() - _START["at"]
    for reading in window(context, _START, cpu_ticks("/proc"), throttled("/sys/fs/cgroup"), seconds):
        yield reading


def window(
    context: Any,
    start: Dict[str, Any],
    ticks: Optional[Tuple[int, int]],
    quota: Optional[Tuple[int, int]],
    seconds: float,
) -> Iterator[Reading]:
    """Shares between two looks at the counters; nothing where a counter went away or ran backwards."""
    yield context.reading("window_seconds", seconds, source=SOURCE)
    if ticks and start["ticks"]:
        stolen, total = ticks[0] - start["ticks"][0], ticks[1] - start["ticks"][1]
        if total > 0 and 0 <= stolen <= total:
            yield context.reading("ratio", stolen / total, source=SOURCE)
    if quota and start["quota"]:
        refused, periods = quota[0] - start["quota"][0], quota[1] - start["quota"][1]
        if periods > 0 and 0 <= refused <= periods:
            yield context.reading("throttled_ratio", refused / periods, source=SOURCE)


def cpu_ticks(proc: str) -> Optional[Tuple[int, int]]:
    """Stolen ticks and all ticks of all CPUs since boot; guest time stands inside user time already."""
    try:
        with open(os.path.join(proc, "stat"), encoding="ascii") as file:
            words = file.readline().split()
    except OSError:
        return None
    if len(words) < 9 or words[0] != "cpu":
        return None
    numbers = [int(word) for word in words[1:9]]
    return numbers[7], sum(numbers)


def throttled(cgroup: str) -> Optional[Tuple[int, int]]:
    """Periods the quota cut short, and all periods; None without a quota or without cgroup v2."""
    try:
        with open(os.path.join(cgroup, "cpu.stat"), encoding="ascii") as file:
            numbers = dict(line.split() for line in file if len(line.split()) == 2)
        return int(numbers["nr_throttled"]), int(numbers["nr_periods"])
    except (OSError, KeyError, ValueError):
        return None
