"""How fast one GPU's memory is copied to another's: every pair, each way, both ways, and all at once in a ring.

256 MiB, back to back, by the sending GPU's events; both ways and the ring by the host's clock, since two GPUs' events
have no common one (both: the sum of both directions; the ring: what each single link gave). Latency is the median
of single copies of 16 bytes. What arrives is compared word by word with what must arrive.
"""

import time
from typing import Any, Callable, Iterator, List, Optional, Tuple

from auditor.records import Reading

from .measuring import laps, spread

KEY = "peer_copy"
SCOPE = "pair"
DEVICES = ("cuda",)
NEEDS = ("torch",)
METHOD = 1
ORDER = 45
SECONDS = {"quick": 20.0, "standard": 45.0, "soak": 45.0}

SIZE = 256 << 20
_SMALL = 16
_SECONDS = 0.04
STABLE = 0.03


def applies(context: Any) -> Optional[str]:
    """One GPU has no peer."""
    return "one GPU: no peer" if len(context.gpus) < 2 else None


def run(context: Any) -> Iterator[Reading]:
    """The ring first (all at once tells most in the least time), then every pair."""
    indexes = [gpu.index for gpu in context.gpus]
    if len(indexes) > 2:
        yield from _ring(context, indexes)
    for a in range(len(indexes)):
        for b in range(a + 1, len(indexes)):
            if context.remaining() < 1.0:
                context.cut(f"gpu{indexes[a]}-gpu{indexes[b]}")
            else:
                yield from _pair(context, indexes, a, b)


class Path:
    """A buffer on the sender and one on the receiver (torch's device numbers), and the copy between them.

    Each path has its own stream at both ends: torch lets the receiver's stream wait for a copy, and two directions on
    the same streams would take turns.
    """

    def __init__(self, sender: int, receiver: int, size: int = SIZE) -> None:
        import torch

        self.sender, self.receiver, self.size = sender, receiver, size
        self.given = self._pattern(sender)
        self.got = torch.zeros_like(self.given, device=f"cuda:{receiver}")
        self.out, self.into = torch.cuda.Stream(sender), torch.cuda.Stream(receiver)
        for device in {sender, receiver}:
            torch.cuda.synchronize(device)

    def _pattern(self, device: int) -> Any:
        import torch

        places = torch.arange(self.size // 4, dtype=torch.int32, device=f"cuda:{device}")
        return places * 0x5BD1E995 + self.sender

    def streams(self) -> Any:
        """Make this path's streams the current ones of both GPUs, the sender's GPU the current one."""
        import contextlib

        import torch

        stack = contextlib.ExitStack()
        stack.enter_context(torch.cuda.stream(self.into))
        stack.enter_context(torch.cuda.stream(self.out))
        return stack

    def copy(self) -> None:
        """One copy; to be called inside `streams()`."""
        self.got.copy_(self.given, non_blocking=True)

    def wrong(self) -> int:
        """Words that differ from what must have arrived."""
        import torch

        for stream in (self.out, self.into):
            stream.synchronize()
        with torch.cuda.device(self.receiver):
            return int((self.got != self._pattern(self.receiver)).sum())


def _pair(context: Any, indexes: List[int], a: int, b: int) -> Iterator[Reading]:
    subject = pair_id(indexes[a], indexes[b])
    there, back = Path(a, b), Path(b, a)
    for path in (there, back):
        _, rate = spread.steady(lambda: (None, one_way(path)))  # noqa: B023
        yield context.reading(
            "bytes_per_second", rate.value, rate.spread, rate.n, rate.stable,
            subject=subject, direction="one_way", bytes=SIZE, from_=f"gpu{indexes[path.sender]}",
        )  # fmt: skip
    both, _ = at_once([there, back])
    yield context.reading(
        "bytes_per_second", both.value, both.spread, both.n, both.stable,
        subject=subject, direction="both_ways", bytes=SIZE,
    )  # fmt: skip
    wrong = there.wrong() + back.wrong()
    yield context.reading("errors_total", wrong, subject=subject)
    for sender, receiver in ((a, b), (b, a)):
        seconds = latency(sender, receiver)
        yield context.reading("latency_seconds", seconds, subject=subject, from_=f"gpu{indexes[sender]}")


def pair_id(one: int, other: int) -> str:
    """The pair's name, lower index first."""
    return f"gpu{min(one, other)}-gpu{max(one, other)}"


def one_way(path: Path) -> spread.Repeats:
    """Bytes per second over back-to-back copies after one to warm up."""
    with path.streams():
        ends = laps.run(path.copy, "cuda", seconds=_SECONDS, calls=5).device
    each = spread.of([path.size / (end - begin) for begin, end in zip(ends[1:], ends[2:])], STABLE)
    return each._replace(value=path.size * (len(ends) - 2) / (ends[-1] - ends[1]))


def latency(sender: int, receiver: int) -> float:
    """Seconds of one small copy: the median of a thousand."""
    path = Path(sender, receiver, _SMALL)
    with path.streams():
        ends = laps.run(path.copy, "cuda", calls=1000).device
    return spread.median([end - begin for begin, end in zip(ends, ends[1:])])


def at_once(paths: List[Path]) -> Tuple[spread.Repeats, List[float]]:
    """All paths at the same time: the sum over all of them, and each path's own rate by its GPU's events."""
    import torch

    def queue(copies: int) -> List[Tuple[Any, Any]]:
        marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in paths]
        for path, (begin, _) in zip(paths, marks):
            begin.record(path.out)
        for _ in range(copies):
            for path in paths:
                with path.streams():
                    path.copy()
        for path, (_, end) in zip(paths, marks):
            end.record(path.out)
        return marks

    def settle() -> None:
        for path in paths:
            path.out.synchronize()
            path.into.synchronize()

    seconds, _ = _host_seconds(lambda: queue(2), settle)
    copies = max(4, min(64, int(2 * _SECONDS / max(seconds / 2, 1e-6))))
    sums, own = [], [0.0] * len(paths)
    for _ in range(3):
        seconds, marks = _host_seconds(lambda: queue(copies), settle)
        sums.append(copies * sum(path.size for path in paths) / seconds)
        own = [copies * path.size / (begin.elapsed_time(end) / 1e3) for path, (begin, end) in zip(paths, marks)]
    return spread.of(sums, STABLE), own


def _host_seconds(start: Callable[[], Any], settle: Callable[[], None]) -> Tuple[float, Any]:
    settle()
    began = time.perf_counter()
    result = start()
    settle()
    return time.perf_counter() - began, result


def _ring(context: Any, indexes: List[int]) -> Iterator[Reading]:
    count = len(indexes)
    paths = [Path(sender, (sender + 1) % count) for sender in range(count)]
    whole, own = at_once(paths)
    for path, rate in zip(paths, own):
        sender, receiver = indexes[path.sender], indexes[path.receiver]
        yield context.reading(
            "bytes_per_second", rate, whole.spread, whole.n, whole.stable,
            subject=pair_id(sender, receiver), direction="ring", bytes=SIZE, from_=f"gpu{sender}",
        )  # fmt: skip
