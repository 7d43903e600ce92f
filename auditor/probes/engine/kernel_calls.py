"""Three requests to the kernel that Python has no function for; where one is refused the engine goes on without."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 1, 36, 37


def die_with_parent(parent: int) -> None:
    """A parent that was killed takes this process with it."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(0)


def adopt_orphans() -> bool:
    """Processes that a dead worker leaves behind become ours, not init's, so that they can be found and ended."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def adopts_orphans() -> bool:
    """Whether this process takes orphans in: then a child that it did not start is one."""
    answer = ctypes.c_int(0)
    return _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.addressof(answer)) and answer.value == 1


def die_first(score: int = 800) -> None:
    """When memory runs out the kernel should end the audit before the customer's work."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(str(score))
    except OSError:
        pass  # a sandbox; the audit is no worse a guest than any other process there


def _prctl(option: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False
