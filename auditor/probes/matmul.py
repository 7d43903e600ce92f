"""How fast the GPU multiplies matrices: three figures that are never mixed.

*Boost* is the rate of calls 2-4 after at least 0.3 s of rest, before the power controller acts.
*Sustained* is the mean over exactly 1.00 s after the first 0.25 s of load, from at least 2 s of rest: the
power controller overshoots, dips and repeats with a period of 1.00 s, and a window of one period cancels it
(within 0.4 % of the 20 s value; a median would be 2.3 % high). *Per clock* is operations per SM clock
counted in a kernel: the silicon's fingerprint, whatever power, heat or data. Source: measured on H200,
docs/method.md.
"""

import contextlib
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from auditor.records import Reading

from .measuring import counted, laps, products, rates, spread

KEY = "matmul"
SCOPE = "gpu"
DEVICES = ("cuda", "cpu")
NEEDS = ("torch",)
METHOD = 1
ORDER = 30
SECONDS = {"quick": 20.0, "standard": 130.0, "soak": 130.0}

BOOST_IDLE = 0.35
SUSTAINED_IDLE = 2.0
SIZE = 8192
LARGE = 16384
_LONGEST_CALL = 0.1
STABLE_SUSTAINED = 0.015
"""Two windows of one load differ by up to 1 % on a healthy H200 (CV 0.7 %); twice that is another state."""
_SWEEP = (1024, 2048, 4096, 8192, 16384)
_SHAPES = (
    (4096, 4096, 4096),
    (4096, 4096, 8192),
    (4096, 4096, 16384),
    (8192, 4096, 8192),
    (8192, 8192, 4096),
    (8192, 8192, 8192),
    (8192, 8192, 16384),
    (2048, 2048, 13312),
    (16384, 8192, 8192),
    (16384, 16384, 8192),
    (16384, 16384, 16384),
)


class Part(NamedTuple):
    """One figure to take: what, of which dtype and size, after how long a rest, from how many starts."""

    kind: str
    dtype: str
    n: int
    idle: float
    rounds: int
    seconds: float
    alone: bool = False

    @property
    def name(self) -> str:
        """As it stands among what the budget cut."""
        return " ".join([self.kind, self.dtype, str(self.n)] + ["alone"] * self.alone)


def applies(context: Any) -> Optional[str]:
    """Every device multiplies."""
    return None


def plan(profile: str, main: str, ranks: int, device: str) -> List[Part]:
    """The parts in order of worth: what a short budget cuts stands last."""
    quick = profile == "quick" or device == "cpu"

    def boost(dtype: str) -> Part:
        return Part("boost", dtype, SIZE, BOOST_IDLE, 1 if quick else 4, 1.5 if quick else 2.5)

    def sustained(dtype: str, n: int = SIZE) -> Part:
        return Part("sustained", dtype, n, SUSTAINED_IDLE, 1, 4.8)

    def clock(dtype: str) -> Part:
        return Part("clock", dtype, SIZE, 0.0, 1, 0.6)

    if device == "cpu":
        return [boost("bf16"), sustained("bf16"), boost("fp32"), sustained("fp32")]
    others = [dtype for dtype in products.DTYPES if dtype != main]
    parts = [boost(main), sustained(main), clock(main), clock("fp8"), clock("fp32")]
    if ranks > 1:
        parts.append(boost(main)._replace(alone=True, rounds=1 if quick else 3))
    if quick:
        return parts
    for dtype in others:
        parts += [boost(dtype), sustained(dtype)] + [clock(dtype)] * (dtype not in ("fp8", "fp32"))
    parts += [Part("sweep", main, n, BOOST_IDLE, 1, 0.7) for n in _SWEEP]
    parts.append(Part("best", main, LARGE, 0.0, 1, 8.0))
    return parts + [sustained(dtype, LARGE) for dtype in (main, *others)]


def run(context: Any) -> Iterator[Reading]:
    """Take the figures of the profile. All workers meet at every part, also those that have nothing to do in it."""
    desk = _Desk(context)
    for part in plan(context.profile, products.main_dtype(context.device), context.ranks, context.device):
        missing = products.unavailable(part.dtype, context.device)
        if missing is None and part.kind == "clock":
            missing = counted.unavailable(context.kernels, counted.SOURCE, "stamp")
        if missing is None and context.remaining() < part.seconds:
            missing = part.name
        if missing is not None:
            context.cut(missing)
        with products.precision(part.dtype):
            yield from _attempts(desk, part, missing is None)


def _attempts(desk: "_Desk", part: Part, doing: bool) -> Iterator[Reading]:
    """The part's readings; where any GPU's spread was too wide, all take the part once more and keep the second."""
    readings: List[Reading] = []
    for attempt in (1, 2):
        samples: List[Any] = []
        for _ in range(part.rounds):
            desk.context.barrier()
            if doing:
                desk.make_ready(part)
                time.sleep(part.idle)
            desk.context.barrier()
            with desk.context.turn() if part.alone else contextlib.nullcontext():
                if doing:
                    samples.append(_MEASURE[part.kind](desk, part))
        readings = _READINGS[part.kind](desk, part, samples) if doing else []
        if attempt == 2 or not desk.context.agree(any(reading.stable is False for reading in readings)):
            break
    yield from readings


class _Desk:
    """The product at hand: made anew when dtype or size change, and its first result for the bit-for-bit check."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.device: str = context.device
        self.product: Optional[products.Product] = None
        self.first: Any = None
        self.starts: List[float] = []
        self._trials: Dict[str, Tuple[int, float]] = {}

    def make_ready(self, part: Part) -> None:
        """Let the part's product stand here, warm."""
        n = part.n if part.kind in ("sweep", "best") else self._size(part.dtype, part.n)
        now = self.product
        if now is None or now.dtype != part.dtype or now.n != n:
            self.product = self.first = now = None
            now = self.product = products.make(part.dtype, n, n, n, self.device, self.context.seed)
            self.first = now.call().clone()
        laps.run(now.call, self.device, calls=3)

    def at_hand(self) -> products.Product:
        """The product that was made ready."""
        if self.product is None:
            raise RuntimeError("no product was made ready")
        return self.product

    def _size(self, dtype: str, n: int) -> int:
        """`n`, or the power of two below it whose product takes no longer than a window can average over."""
        small, seconds = self._trials.get(dtype) or self._trial(dtype)
        longest = _LONGEST_CALL * (n / SIZE) ** 3
        while n > small and seconds * (n / small) ** 3 > longest:
            n //= 2
        return n

    def _trial(self, dtype: str) -> Tuple[int, float]:
        n = 2048 if self.device == "cuda" else 256
        trial = products.make(dtype, n, n, n, self.device, self.context.seed)
        ends = laps.run(trial.call, self.device, calls=6).device[2:]
        self._trials[dtype] = n, min(after - before for before, after in zip(ends, ends[1:]))
        return self._trials[dtype]


def _boost(desk: _Desk, part: Part) -> float:
    return rates.boost(desk.at_hand(), desk.device)


def _boost_readings(desk: _Desk, part: Part, samples: List[float]) -> List[Reading]:
    if not part.alone:
        desk.starts = list(samples)
    return [_boost_reading(desk, part, samples)]


def _boost_reading(desk: _Desk, part: Part, samples: List[float]) -> Reading:
    rate = spread.of(samples, spread.limit(desk.device))
    load = "alone" if part.alone else "all"
    return desk.context.reading(  # type: ignore[no-any-return]
        "boost_flops_per_second",
        rate.value,
        rate.spread,
        rate.n,
        rate.stable,
        dtype=part.dtype,
        n_=desk.at_hand().n,
        load=load,
    )


def _sustained(desk: _Desk, part: Part) -> Tuple[rates.Sustained, Optional[float]]:
    with desk.context.sampling() as samples:
        result = rates.sustained(desk.at_hand(), desk.device, again=desk.context.profile != "quick")
    watts = [row.watts for row in samples.rows if row.watts is not None and result.opened <= row.t <= result.closed]
    return result, sum(watts) / len(watts) if watts else None


def _sustained_readings(
    desk: _Desk, part: Part, samples: List[Tuple[rates.Sustained, Optional[float]]]
) -> List[Reading]:
    (result, watts), reading, product = samples[0], desk.context.reading, desk.at_hand()
    what: Dict[str, Any] = {"dtype": part.dtype, "n_": product.n}
    windows = [rate for rate in (result.rate, result.next_rate) if rate is not None]
    held = spread.of(windows, spread.limit(desk.device, STABLE_SUSTAINED))
    readings = [
        reading(
            "sustained_flops_per_second", result.rate, held.spread, held.n, held.stable,
            load="all", idle_seconds=part.idle, **what,
        ),
        reading("host_clock_ratio", result.host_ratio, **what),
    ]  # fmt: skip
    if watts is not None:
        readings.append(reading("watts", watts, source="driver/nvml", **what))
    if part.n == SIZE:
        # This load began after a rest too: one more start.
        readings.append(_boost_reading(desk, part, [*desk.starts, result.boost]))
        readings += _checks(desk, part)
    return readings


def _checks(desk: _Desk, part: Part) -> List[Reading]:
    """After the load: is the result right, and the same bit for bit as before it and over repeats?"""
    product, repeats = desk.at_hand(), 3
    wrong = sum(products.mismatches(desk.first, product.call()) for _ in range(repeats))
    error = products.error_ratio(product, product.call(), desk.context.seed)
    return [
        desk.context.reading("mismatches_total", wrong, n=repeats, dtype=part.dtype),
        desk.context.reading("error_ratio", error, dtype=part.dtype),
    ]


def _clock(desk: _Desk, part: Part) -> counted.Counted:
    return rates.per_clock(desk.context.kernels, desk.at_hand())


def _clock_readings(desk: _Desk, part: Part, samples: List[counted.Counted]) -> List[Reading]:
    found, what = samples[0], {"dtype": part.dtype, "n_": desk.at_hand().n}
    each = spread.of(found.per_clock)
    return [
        desk.context.reading(
            "flops_per_clock_per_sm", spread.median(found.per_clock), each.spread, each.n, each.stable, **what
        ),
        desk.context.reading("counted_sm_clock_hertz", found.hertz, **what),
    ]


def _sweep(desk: _Desk, part: Part) -> spread.Repeats:
    return rates.short(desk.at_hand(), desk.device)


def _sweep_readings(desk: _Desk, part: Part, samples: List[spread.Repeats]) -> List[Reading]:
    rate = samples[0]
    # Spread of single calls while the clock falls: told, but no ground for doubt in the mean.
    return [
        desk.context.reading("sweep_flops_per_second", rate.value, rate.spread, rate.n, dtype=part.dtype, n_=part.n)
    ]


def _best(desk: _Desk, part: Part) -> Tuple[products.Product, float]:
    desk.product = desk.first = None
    return rates.best(_SHAPES, part.dtype, desk.device, desk.context.seed)


def _best_readings(desk: _Desk, part: Part, samples: List[Tuple[products.Product, float]]) -> List[Reading]:
    product, rate = samples[0]
    shape = {"m": product.m, "n_": product.n, "k": product.k}
    return [desk.context.reading("best_flops_per_second", rate, dtype=part.dtype, **shape)]


_MEASURE: Dict[str, Any] = {
    "boost": _boost,
    "sustained": _sustained,
    "clock": _clock,
    "sweep": _sweep,
    "best": _best,
}
_READINGS: Dict[str, Any] = {
    "boost": _boost_readings,
    "sustained": _sustained_readings,
    "clock": _clock_readings,
    "sweep": _sweep_readings,
    "best": _best_readings,
}
