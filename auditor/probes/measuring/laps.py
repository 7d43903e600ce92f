"""Back-to-back calls, timed at the end of each by the device's events and by the host's clock.

The host stays a bounded time ahead, so that it sees each call end within microseconds (both clocks can
be compared over the same window: a neighbour on the card shows on the host's clock alone, gpu-facts) and
so that a stop takes effect at once. Nothing is timed before the device is idle and the call is warm.
"""

import collections
import time
from typing import Any, Callable, Deque, List, NamedTuple, Optional, Tuple

Call = Callable[[], Any]

_AHEAD_SECONDS = 0.03


class Window(NamedTuple):
    """A stretch of calls: how many ended in it, its length by each clock, and the host's times of its borders."""

    calls: int
    device_seconds: float
    host_seconds: float
    opened: float
    closed: float


class Laps(NamedTuple):
    """Ends of calls in seconds since the first began (first entry 0.0): device events, and time.monotonic()."""

    device: Tuple[float, ...]
    host: Tuple[float, ...]

    def window(self, skip: float, seconds: float) -> Window:
        """From the first call that ends at or after `skip` to the first that ends `seconds` later (or the last)."""
        last = len(self.device) - 1
        begin = min(_first_at(self.device, skip), last - 1)
        end = min(max(_first_at(self.device, self.device[begin] + seconds), begin + 1), last)
        return self.calls(begin, end)

    def calls(self, begin: int, end: int) -> Window:
        """From the end of call number `begin` (0: the start of all) to the end of call number `end`."""
        return Window(
            end - begin,
            self.device[end] - self.device[begin],
            self.host[end] - self.host[begin],
            self.host[begin],
            self.host[end],
        )

    @property
    def seconds(self) -> float:
        """How long all calls took by the device's clock."""
        return self.device[-1]


def _first_at(ends: Tuple[float, ...], moment: float) -> int:
    for index, end in enumerate(ends):
        if end >= moment:
            return index
    return len(ends) - 1


def run(
    call: Call, device: str, seconds: float = 0.0, calls: int = 1, stop: Optional[Callable[[], bool]] = None
) -> Laps:
    """Call back to back for at least `seconds` and at least `calls` times, or until `stop()`."""
    return (_run_cuda if device == "cuda" else _run_cpu)(call, seconds, calls, stop)


def _run_cpu(call: Call, seconds: float, calls: int, stop: Optional[Callable[[], bool]]) -> Laps:
    started = time.monotonic()
    ends = [started]
    while ends[-1] - started < seconds or len(ends) <= calls:
        call()
        ends.append(time.monotonic())
        if stop is not None and stop():
            break
    return Laps(tuple(end - started for end in ends), tuple(ends))


def _run_cuda(call: Call, seconds: float, calls: int, stop: Optional[Callable[[], bool]]) -> Laps:
    import torch

    flying: Deque[Any] = collections.deque()
    device: List[float] = [0.0]
    torch.cuda.synchronize()
    first = torch.cuda.Event(enable_timing=True)
    first.record()
    host: List[float] = [time.monotonic()]
    made, ahead = 0, 2

    def land() -> None:
        event = flying.popleft()
        event.synchronize()
        host.append(time.monotonic())
        device.append(first.elapsed_time(event) / 1e3)

    while made < calls or device[-1] < seconds:
        call()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        flying.append(event)
        made += 1
        if len(flying) >= ahead:
            land()
            ahead = max(2, min(20, int(_AHEAD_SECONDS * (len(device) - 1) / max(device[-1], 1e-9))))
            if stop is not None and stop():
                break
    while flying:
        land()
    return Laps(tuple(device), tuple(host))
