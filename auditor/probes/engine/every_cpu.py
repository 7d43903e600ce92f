"""All CPUs that the audit was given, for a worker that measures the host itself."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator


@contextlib.contextmanager
def every_cpu(torch: Any) -> Iterator[int]:
    """Let torch compute on every CPU of the parent, whatever an earlier probe pinned; gives their number."""
    cpus = os.sched_getaffinity(os.getppid())
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            os.sched_setaffinity(int(task), cpus)
    before = torch.get_num_threads()
    torch.set_num_threads(len(cpus))
    try:
        yield len(cpus)
    finally:
        torch.set_num_threads(before)
