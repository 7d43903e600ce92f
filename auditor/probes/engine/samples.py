"""The samples as they come, and the windows that probes have open on them."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Set

_KEPT = 200_000
"""Samples kept a GPU: a soak asks for its samples at least once an hour (20 a second)."""


class Windows:
    """Which worker watches which GPU since when."""

    def __init__(self) -> None:
        self._rows: Dict[int, Deque[List[Optional[float]]]] = {}
        self._open: Dict[str, Any] = {}

    def add(self, gpu: int, row: List[Optional[float]]) -> None:
        """A sample; kept only while somebody watches."""
        if gpu in self.watched:
            self._rows.setdefault(gpu, deque(maxlen=_KEPT)).append(row)

    @property
    def watched(self) -> Set[int]:
        """GPUs with an open window."""
        return {gpu for gpu, _ in self._open.values() if gpu is not None}

    def open(self, worker: str, gpu: Optional[int]) -> None:
        """From now on."""
        self._open[worker] = (gpu, time.monotonic())

    def close(self, worker: str) -> Dict[str, Any]:
        """What was sampled since it opened."""
        gpu, since = self._open.pop(worker, (None, 0.0))
        rows = [row for row in self._rows.get(gpu, ()) if row[0] is not None and row[0] >= since]
        if gpu not in self.watched:
            self._rows.pop(gpu, None)
        seconds = time.monotonic() - since
        return {"rows": rows, "hertz": len(rows) / seconds if seconds > 0 else 0.0}
