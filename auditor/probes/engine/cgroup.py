"""What the cgroup grants: CPUs and memory, the tightest limit on the way up; None where there is none."""

from __future__ import annotations

import os
import re
from typing import Iterator, List, Optional

from . import tree

_NO_LIMIT = 1 << 60  # cgroup v1 writes a page-aligned 2^63 for "none"


def cpus(root: str) -> Optional[float]:
    """CPUs' worth of time per period."""
    grants: List[float] = []
    for folder in _folders(root, "cpu"):
        quota, period = _numbers(tree.text(root, folder + "/cpu.max"))
        if quota is None:
            quota = _number(tree.text(root, folder + "/cpu.cfs_quota_us"))
            period = _number(tree.text(root, folder + "/cpu.cfs_period_us"))
        if quota and period and quota > 0:
            grants.append(quota / period)
    return min(grants, default=None)


def memory(root: str) -> Optional[int]:
    """Bytes."""
    grants = []
    for folder in _folders(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _number(tree.text(root, "%s/%s" % (folder, name)))
            if limit is not None and limit < _NO_LIMIT:
                grants.append(int(limit))
    return min(grants, default=None)


def _folders(root: str, controller: str) -> Iterator[str]:
    """Our group's folder and all above it, in either version."""
    for line in (tree.text(root, "proc/self/cgroup") or "").splitlines():
        number, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if number == "0" and not controllers:
            mount = "sys/fs/cgroup"
        elif controller in controllers.split(","):
            mount = "sys/fs/cgroup/" + controller
        else:
            continue
        parts = [part for part in path.split("/") if part and part != ".."]
        for depth in range(len(parts), -1, -1):
            yield os.path.join(mount, *parts[:depth])


def _numbers(line: Optional[str]) -> "tuple[Optional[float], Optional[float]]":
    words = (line or "").split()
    return (_number(words[0]), _number(words[1])) if len(words) == 2 else (None, None)


def _number(word: Optional[str]) -> Optional[float]:
    return float(word) if word and re.fullmatch(r"-?\d+", word) else None
