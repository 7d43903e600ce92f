"""A poor link: copies between two sockets with a delay and a rate (this kernel has no tc netem)."""

from __future__ import annotations

import collections
import select
import socket
import time


def relay(a: socket.socket, b: socket.socket, rate: float, delay: float) -> None:
    """Copy both ways between `a` and `b`, `delay` seconds late, at `rate` bytes/s (0: no limit)."""
    ways = {a: b, b: a}
    queue: dict[socket.socket, collections.deque[tuple[float, bytes]]] = {s: collections.deque() for s in ways}
    free = dict.fromkeys(ways, 0.0)  # when the source's line is free again
    size, live = dict.fromkeys(ways, 0), set(ways)
    while live or any(queue.values()):
        now = time.monotonic()
        due = min((q[0][0] for q in queue.values() if q), default=None)
        can_read = [s for s in live if size[s] < 65536]
        for source in select.select(can_read, [], [], None if due is None else max(due - now, 0))[0]:
            try:
                data = source.recv(8192)
            except ConnectionError:
                data = b""
            if not data:
                live.discard(source)
            free[source] = max(free[source], time.monotonic()) + (len(data) / rate if rate else 0)
            queue[source].append((free[source] + delay, data))  # empty data stands for the end
            size[source] += len(data)
        for source, waiting in queue.items():
            while waiting and waiting[0][0] <= time.monotonic():
                data = waiting.popleft()[1]
                size[source] -= len(data)
                try:
                    ways[source].sendall(data) if data else ways[source].shutdown(socket.SHUT_WR)
                except OSError:
                    return
