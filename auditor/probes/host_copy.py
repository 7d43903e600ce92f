"""How fast data move between the server's memory and the GPU, and over which PCIe link.

Copies of 256 MiB (within 0.6 % of 1 GiB) between pinned memory and the GPU, back to back: up (h2d), down (d2h) and
both at once on two streams (the sum of both), then up and down from pageable memory for comparison. Memory lies
on the NUMA node nearest to the GPU and on the farthest. While copies run, the link's generation and width are
read from NVML and, with every port above the GPU, from sysfs: at rest a link may sleep in a lower state.
"""

import contextlib
import os
from typing import Any, Callable, Dict, Iterator, List, Optional

from auditor.records import Reading

from .measuring import laps, pcie, pinned, spread

KEY = "host_copy"
SCOPE = "gpu"
DEVICES = ("cuda",)
NEEDS = ("torch",)
METHOD = 1
ORDER = 40
SECONDS = {"quick": 6.0, "standard": 16.0, "soak": 16.0}

MIB = 1 << 20
SIZE = 256 * MIB
_SWEEP = tuple(4096 << (2 * step) for step in range(10))  # 4 KiB ... 1 GiB
_SECONDS = 0.1
STABLE = 0.03
STABLE_PAGEABLE = 0.15
"""The driver copies pageable memory through a small buffer with the CPU: it varies with all the server does."""


def applies(context: Any) -> Optional[str]:
    """A CPU's memory is measured by memory_bandwidth and host_memory."""
    return None


def run(context: Any) -> Iterator[Reading]:
    """Each GPU alone in turn, then (with several) all at once; the sweep of sizes in standard."""
    places = pinned.near_and_far(pcie.numa_node(context.gpu.pci))
    if context.profile == "quick":
        places = places[:1]
    size = _affordable(SIZE, context.ranks)
    for numa, node in places:
        with _buffers(size, node) as pair:
            yield from _in_turns(context, pair, numa, size)
            yield from _pageable(context, pair, node, numa, size)
    if context.profile != "quick":
        yield from _sweep(context, *places[0])


class _Pair:
    """Two pinned host buffers and two on the GPU, so that both directions can run at once."""

    def __init__(self, up: Any, down: Any) -> None:
        import torch

        self.host_up, self.host_down = up, down
        self.gpu_up = torch.empty(up.numel(), dtype=torch.uint8, device="cuda")
        source = torch.Generator(device="cuda")
        self.gpu_down = torch.randint(0, 256, (down.numel(),), dtype=torch.uint8, device="cuda", generator=source)
        self.streams = torch.cuda.Stream(), torch.cuda.Stream()

    def h2d(self) -> None:
        """One copy up."""
        self.gpu_up.copy_(self.host_up, non_blocking=True)

    def d2h(self) -> None:
        """One copy down."""
        self.host_down.copy_(self.gpu_down, non_blocking=True)

    def both(self) -> float:
        """Bytes per second of both directions together: each direction's own rate on its own stream, summed."""
        import torch

        copies = max(2, int(_SECONDS * 40e9 / self.host_up.numel()))
        marks = []
        torch.cuda.synchronize()
        for stream, copy in zip(self.streams, (self.h2d, self.d2h)):
            with torch.cuda.stream(stream):
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                for _ in range(copies):
                    copy()
                end.record()
                marks.append((begin, end))
        torch.cuda.synchronize()
        seconds = [begin.elapsed_time(end) / 1e3 for begin, end in marks]
        return float(sum(copies * self.host_up.numel() / each for each in seconds))


@contextlib.contextmanager
def _buffers(size: int, node: Optional[int]) -> Iterator[_Pair]:
    with pinned.buffer(size, node) as up, pinned.buffer(size, node) as down:
        pair = _Pair(up, down)
        pair.h2d()
        pair.d2h()  # the host's buffer now holds random bytes
        up.copy_(down)
        try:
            yield pair
        finally:
            import torch

            torch.cuda.synchronize()
            del pair.host_up, pair.host_down


def _in_turns(context: Any, pair: _Pair, numa: str, size: int) -> Iterator[Reading]:
    rates: Dict[str, Callable[[], spread.Repeats]] = {
        "h2d": lambda: rate_of(pair.h2d, size),
        "d2h": lambda: rate_of(pair.d2h, size),
        "both": lambda: spread.of([pair.both() for _ in range(2)], STABLE),
    }
    for load in ("alone", "all") if context.ranks > 1 else ("alone",):
        context.barrier()
        with context.turn() if load == "alone" else contextlib.nullcontext():
            for direction, rate in rates.items():
                if load == "all":
                    context.barrier()
                yield _reading(context, rate, direction, size, memory="pinned", numa=numa, load=load)
            if load == "alone" and numa != "far":
                yield from _links(context, pair)


def _reading(context: Any, measure: Callable[[], spread.Repeats], direction: str, size: int, **what: Any) -> Reading:
    _, rate = spread.steady(lambda: (None, measure()))
    return context.reading(  # type: ignore[no-any-return]
        "bytes_per_second", rate.value, rate.spread, rate.n, rate.stable, direction=direction, bytes=size, **what
    )


def rate_of(call: Callable[[], Any], moved: int, limit: float = STABLE, seconds: float = _SECONDS) -> spread.Repeats:
    """Bytes per second over back-to-back calls after one to warm up, by the GPU's events."""
    ends = laps.run(call, "cuda", seconds=seconds, calls=4).device
    each = spread.of([moved / (end - begin) for begin, end in zip(ends[1:], ends[2:])], limit)
    return each._replace(value=moved * (len(ends) - 2) / (ends[-1] - ends[1]))


def _links(context: Any, pair: _Pair) -> Iterator[Reading]:
    """Generation and width while copies run."""
    import torch

    for _ in range(max(4, int(3e9) // SIZE)):
        pair.h2d()
    handle = context.nvml.handle(context.gpu.uuid)
    told: List[pcie.Link] = pcie.links(context.gpu.pci)
    generation = context.nvml.call("nvmlDeviceGetCurrPcieLinkGeneration", handle)
    lanes = context.nvml.call("nvmlDeviceGetCurrPcieLinkWidth", handle)
    torch.cuda.synchronize()
    for source, link in [("kernel/sysfs", link) for link in told]:
        yield context.reading("pcie_generation", link.generation, source=source, port=link.port)
        yield context.reading("pcie_width_lanes", link.lanes, source=source, port=link.port)
    for quantity, value in (("pcie_generation", generation), ("pcie_width_lanes", lanes)):
        if isinstance(value, int):
            yield context.reading(quantity, value, source="driver/nvml", port="gpu")


def _pageable(context: Any, pair: _Pair, node: Optional[int], numa: str, size: int) -> Iterator[Reading]:
    """Up and down from memory that is not pinned."""
    if numa == "far":
        return
    size = min(size, 64 * MIB)
    context.barrier()
    with context.turn(), pinned.buffer(size, node, pin=False) as host:
        part = pair.gpu_up[:size]
        for direction, call in (("h2d", lambda: part.copy_(host)), ("d2h", lambda: host.copy_(part))):
            measure = lambda call=call: rate_of(call, size, STABLE_PAGEABLE)  # noqa: E731
            yield _reading(context, measure, direction, size, memory="pageable", numa=numa, load="alone")


def _sweep(context: Any, numa: str, node: Optional[int]) -> Iterator[Reading]:
    """Both directions over sizes from 4 KiB to 1 GiB, as bandwidthTest's shmoo mode showed them."""
    largest = _affordable(_SWEEP[-1], context.ranks)
    context.barrier()
    with context.turn(), _buffers(largest, node) as whole:
        for size in (size for size in _SWEEP if size <= largest and size != SIZE):
            if context.remaining() < 1.0:
                context.cut(f"sweep from {size} bytes")
                return
            part = _Part(whole, size)
            for direction, call in (("h2d", part.h2d), ("d2h", part.d2h)):
                rate = rate_of(call, size, seconds=0.03)
                yield context.reading(
                    "bytes_per_second", rate.value, rate.spread, rate.n,
                    direction=direction, bytes=size, memory="pinned", numa=numa, load="alone",
                )  # fmt: skip


class _Part:
    """The first bytes of a pair's buffers."""

    def __init__(self, pair: _Pair, size: int) -> None:
        self._up, self._down = (pair.gpu_up[:size], pair.host_up[:size]), (pair.host_down[:size], pair.gpu_down[:size])

    def h2d(self) -> None:
        """One copy up."""
        self._up[0].copy_(self._up[1], non_blocking=True)

    def d2h(self) -> None:
        """One copy down."""
        self._down[0].copy_(self._down[1], non_blocking=True)


def _affordable(size: int, ranks: int) -> int:
    """The size, halved until all workers' pinned buffers take at most a quarter of the memory available."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            available = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    while size > 16 * MIB and 2 * size * max(1, ranks) > available / 4:
        size //= 2
    return size
