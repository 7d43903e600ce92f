"""Finds our frames in whatever else a login shell prints: marker, kind, length, payload (threats C04, C05).

The marker is random for each command, so a banner cannot hold it by chance. Everything between frames is noise:
its tail is kept to quote it, its amount is bounded. A kind has a largest size; a stranger's frame past it is refused.
"""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from auditor import records
from auditor.quick.link import Ended, Flooded, Spoiled, Stream

_LIMITS = {
    "hello": 4096,
    "no_python": 4096,
    "started": 8192,
    "obstacle": 8192,
    "tick": 0,
    "progress": 65536,
    "ended": 8192,
    "record": records.MAX_RECORD_BYTES,
    "gone": 65536,
}
_NOISE_LIMIT = 1 << 20
_TOTAL_LIMIT = 256 << 20


class Frame(NamedTuple):
    """One thing the agent said."""

    kind: str
    payload: bytes


class Frames:
    """The frames of one stream, in order."""

    def __init__(self, stream: Stream, marker: str) -> None:
        self.mark = marker
        self._stream = stream
        self._head = re.compile(rb"\n" + re.escape(marker.encode("ascii")) + rb" ([a-z_]{1,16}) (\d{1,9})\n")
        self._keep = len(marker) + 32
        self._buffer = bytearray()
        self._noise_bytes = 0
        self._total = 0
        self._tail = b""

    def next(self, seconds: float) -> Frame | None:
        """The next frame; None when none came whole in time.

        Raises:
            Ended: the stream ended.
            Lost: the connection broke.
            Spoiled: a frame is not one of ours.
            Flooded: more noise, or more of anything, than an honest server sends.
        """
        end = time.monotonic() + seconds
        while True:
            frame = self._take()
            if frame is not None:
                return frame
            data = self._stream.read(max(0.0, end - time.monotonic()))
            if data is None:
                raise Ended("it ended without a word")
            if not data:
                return None
            self._total += len(data)
            if self._total > _TOTAL_LIMIT:
                raise Flooded(f"more than {_TOTAL_LIMIT >> 20} MiB in one audit")
            self._buffer += data

    def said(self) -> str:
        """The last line that was no frame of ours: what a shell or a banner said."""
        noise = self._tail + bytes(self._buffer) + b"\n" + bytes(self._stream.noise)
        lines = [line.strip() for line in noise.decode("utf-8", "replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")

    def _take(self) -> Frame | None:
        match = self._head.search(self._buffer)
        if match is None:
            self._drop(max(0, len(self._buffer) - self._keep))
            return None
        kind, size, start = match[1].decode("ascii"), int(match[2]), match.end() - match.start()
        self._drop(match.start())
        if size > _LIMITS.get(kind, -1):
            raise Spoiled(f"it sent {size} bytes of {kind!r}")
        if len(self._buffer) < start + size + 1:
            return None
        payload = bytes(self._buffer[start : start + size])
        del self._buffer[: start + size]  # the newline after it may be the first of the next frame
        return Frame(kind, payload)

    def _drop(self, count: int) -> None:
        if not count:
            return
        self._noise_bytes += count
        self._tail = (self._tail + bytes(self._buffer[:count]))[-2048:]
        del self._buffer[:count]
        if self._noise_bytes > _NOISE_LIMIT:
            raise Flooded(f"more than {_NOISE_LIMIT >> 20} MiB that is no answer of ours")
