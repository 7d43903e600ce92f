"""What the GPU does under lasting load: heat, power, clocks, why it slowed down, and what of its rate remains.

All GPUs multiply 16-bit matrices of random numbers at once, for 10 s (quick), 2 minutes (standard) or as long as asked
(soak), while NVML is sampled at 10 Hz or more by another process. Throughput of the first second, of the last
and over all; the share of samples with each clock event reason (a power cap is normal at full load, a thermal
reason is not); energy as FLOP per joule. From 5 s to 60 s a healthy H200's rate moved by 0.07 % (docs/method.md).
"""

import glob
import time
from typing import Any, Callable, Iterator, List, Optional

from auditor.records import Reading

from . import dcgm
from .measuring import laps, products, spread
from .measuring.watch import Track, Watch, steady_from

KEY = "thermal"
SCOPE = "gpu"
DEVICES = ("cuda", "cpu")
NEEDS = ("torch",)
METHOD = 1
ORDER = 60
SECONDS = {"quick": 14.0, "standard": 126.0, "soak": 3660.0}

WINDOW = {"quick": 10.0, "standard": 120.0}
STRETCH = 60.0
"""Samples are fetched and summed up at least this often, so that a soak of days needs no more memory."""

STABLE = 0.02
"""Single seconds of a healthy H200 under its power cap differ by 0.5 %."""

_NVML_SLOWDOWN = 1
_EDGE = 1.0


def applies(context: Any) -> Optional[str]:
    """Every device gets warm."""
    return None


def run(context: Any) -> Iterator[Reading]:
    """Load all GPUs and tell what happened; in a soak the readings so far are told after every stretch."""
    n, dtype = (8192, products.main_dtype("cuda")) if context.device == "cuda" else (1024, "fp32")
    product = products.make(dtype, n, n, n, context.device, context.seed)
    wanted = float(context.soak_seconds) if context.profile == "soak" else WINDOW[context.profile]
    margin = 2.0
    seconds = min(wanted, max(2.0, context.remaining() - margin))
    if seconds < wanted - 0.5:
        context.cut(f"{wanted - seconds:.0f} s of {wanted:.0f} s of load")
    with products.precision(dtype):
        laps.run(product.call, context.device, calls=3)
        context.barrier()
        load = _Load(context, product)
        with dcgm.watching(context, seconds):
            while load.seconds < seconds and not load.asked_to_end():
                load.stretch(min(STRETCH, seconds - load.seconds))
                if load.seconds < seconds:
                    yield from load.readings()
    if load.calls:
        yield from load.readings()
        load.series()


class _Load:
    """The load so far: calls, time, and everything sampled."""

    def __init__(self, context: Any, product: products.Product) -> None:
        self.context, self.product = context, product
        self.watch = Watch(time.monotonic())
        self.cpu = Track()
        self.calls = 0
        self.seconds = 0.0
        self.first = self.last = 0.0
        self.seconds_rates: List[float] = []
        self.margin: Optional[float] = None

    def stretch(self, seconds: float) -> None:
        """Go on for some seconds, then take in the samples."""
        device = self.context.device
        look = _cpu_sampler(self.cpu, self.watch.opened) if device == "cpu" else None

        def stop() -> bool:
            if look is not None:
                look()
            return self.asked_to_end()

        with self.context.sampling() as samples:
            ends = laps.run(self.product.call, device, seconds=seconds, stop=stop)
            self.margin = _margin(self.context)
        self.watch.add(samples.rows)
        if not self.calls:
            self.first = self._rate(ends.window(0.0, _EDGE))
        self.last = self._rate(ends.window(max(0.0, ends.seconds - _EDGE), _EDGE))
        whole = range(1, int(ends.seconds) if len(self.seconds_rates) < 3600 else 0)
        self.seconds_rates += [self._rate(ends.window(float(second), 1.0)) for second in whole]
        self.calls += len(ends.device) - 1
        self.seconds += ends.seconds

    def asked_to_end(self) -> bool:
        """Whether the audit was told to stop: what was measured until then is kept."""
        return bool(self.context.remaining() <= 0)

    def _rate(self, window: laps.Window) -> float:
        return window.calls * self.product.operations / window.device_seconds

    def readings(self) -> Iterator[Reading]:
        """All figures over the load so far."""
        reading, watch = self.context.reading, self.watch
        what = {"dtype": self.product.dtype, "n_": self.product.n}
        total = self.calls * self.product.operations
        yield reading("flops_per_second", self.first, window="first", **what)
        yield reading("flops_per_second", self.last, window="last", **what)
        # How well the rate holds: the spread of its single seconds, the first one (boost) left out.
        held = spread.of(self.seconds_rates or [0.0], spread.limit(self.context.device, STABLE))
        yield reading("flops_per_second", total / self.seconds, held.spread, held.n, held.stable, window="all", **what)
        yield reading("window_seconds", self.seconds)
        if self.cpu.count:
            yield reading("cpu_celsius", self.cpu.start, source="kernel/sysfs", stat="start")
            yield reading("cpu_celsius", self.cpu.most, source="kernel/sysfs", stat="max")
        if watch.rows:
            yield from self._sampled(total)

    def _sampled(self, total: float) -> Iterator[Reading]:
        reading, watch, driver = self.context.reading, self.watch, "driver/nvml"
        yield reading("samples_per_second", watch.rows / self.seconds)
        steady = steady_from(watch.tracks["gpu_celsius"])
        for name, stats in _STATS.items():
            track = watch.tracks[name]
            for stat in stats if track.count else ():
                value = _stat(track, stat, steady)
                if value is not None:
                    yield reading(name, value, source=driver, n=track.count, stat=stat)
        if watch.tracks["gpu_celsius"].count:
            yield reading("steady_seconds", steady, source=driver)
        for reason, hits in watch.reasons.items() if watch.reasons_known else ():
            yield reading("event_reason_ratio", hits / watch.reasons_known, source=driver, reason=reason)
        watts = watch.tracks["watts"]
        if watts.count:
            joules = watts.mean * self.seconds
            yield reading("flops_per_joule", total / joules, dtype=self.product.dtype, n_=self.product.n)
        if self.margin is not None:
            yield reading("slowdown_margin_celsius", self.margin, source=driver)
        yield from _traffic(self.context, watch)

    def series(self) -> None:
        """The course over time of what was sampled, at most 600 points each."""
        for name in _STATS:
            points = self.watch.tracks[name].points
            if points:
                self.context.series(name, [t for t, _ in points], [value for _, value in points])


_STATS = {
    "gpu_celsius": ("start", "max", "steady"),
    "memory_celsius": ("start", "max", "steady"),
    "watts": ("start", "mean", "max"),
    "sm_clock_hertz": ("start", "mean", "min", "max", "steady"),
    "memory_clock_hertz": ("mean", "min"),
}


def _stat(track: Track, stat: str, steady: Optional[float]) -> Optional[float]:
    if stat == "steady":
        values = track.since(steady) if steady is not None else []
        return sum(values) / len(values) if values else None
    return {"start": track.start, "mean": track.mean, "max": track.most, "min": track.least}[stat]


def _traffic(context: Any, watch: Watch) -> Iterator[Reading]:
    tracks, driver = watch.tracks, "driver/nvml"
    if tracks["memory_use_ratio"].count:
        yield context.reading("memory_use_ratio", tracks["memory_use_ratio"].mean, source=driver)
    if watch.nvlink is not None and watch.nvlink.rate is not None:
        yield context.reading("nvlink_bytes_per_second", watch.nvlink.rate, source=driver)
    for direction in ("rx", "tx"):
        track = tracks["pcie_" + direction]
        if track.count:
            yield context.reading("pcie_bytes_per_second", track.mean, source=driver, direction=direction)


def _margin(context: Any) -> Optional[float]:
    """Degrees left to the slow-down threshold, read while the load still runs or has just ended."""
    if context.device != "cuda":
        return None
    handle = context.nvml.handle(context.gpu.uuid)
    threshold = context.nvml.call("nvmlDeviceGetTemperatureThreshold", handle, _NVML_SLOWDOWN)
    now = context.nvml.call("nvmlDeviceGetTemperature", handle, 0)
    if isinstance(threshold, int) and isinstance(now, int) and threshold > 0:
        return float(threshold - now)
    margin = context.nvml.call("nvmlDeviceGetMarginTemperature", handle)
    return float(margin) if isinstance(margin, int) else None


def _cpu_sampler(track: Track, opened: float) -> Callable[[], None]:
    """Reads the CPU's hottest sensor between two products, ten times a second at most."""
    last: List[float] = [0.0]

    def sample() -> None:
        now = time.monotonic()
        if now - last[0] >= 0.1:
            last[0] = now
            found = [value for value in map(_celsius, glob.glob(_SENSORS)) if value is not None]
            track.add(now - opened, max(found) if found else None)

    return sample


_SENSORS = "/sys/class/thermal/thermal_zone*/temp"


def _celsius(path: str) -> Optional[float]:
    try:
        with open(path, encoding="ascii") as file:
            value = int(file.read()) / 1000
    except (OSError, ValueError):
        return None
    return value if 0 < value < 150 else None
