"""One measurement of one product: boost, sustained, per clock, short. docs/method.md says why each is taken so."""

from typing import Any, List, NamedTuple, Optional, Tuple

from . import counted, laps, products, spread
from .products import Product

SKIP = 0.25
WINDOW = 1.0
_STAMPED, _STAMPED_SECONDS = 12, 0.08
_LOAD_BEFORE_STAMPS = 0.2


class Sustained(NamedTuple):
    """The rate of the window, of the window after it (where asked), host over device time in the first, its borders.

    `boost` is the rate of the load's own calls 2-4: it began after a rest too.
    """

    rate: float
    boost: float
    next_rate: Optional[float]
    host_ratio: float
    opened: float
    closed: float


def boost(product: Product, device: str) -> float:
    """Operations per second of calls 2-4 after a rest: before the power controller acts."""
    window = laps.run(product.call, device, calls=4).calls(1, 4)
    return 3 * product.operations / window.device_seconds


def sustained(product: Product, device: str, again: bool = True) -> Sustained:
    """The mean over 1.00 s after 0.25 s. A second window follows only to tell how well the first one holds."""
    ends = laps.run(product.call, device, seconds=SKIP + (2 if again else 1) * WINDOW, calls=5)
    first, after = ends.window(SKIP, WINDOW), ends.window(SKIP + WINDOW, WINDOW)
    return Sustained(
        first.calls * product.operations / first.device_seconds,
        3 * product.operations / ends.calls(1, 4).device_seconds,
        after.calls * product.operations / after.device_seconds if again else None,
        first.host_seconds / first.device_seconds,
        first.opened,
        first.closed,
    )


def per_clock(kernels: Any, product: Product) -> counted.Counted:
    """Operations per counted SM clock, after 0.2 s of the same load (the first calls read 1 % low)."""
    before = laps.run(product.call, "cuda", seconds=_LOAD_BEFORE_STAMPS)
    each = before.seconds / (len(before.device) - 1)
    result = counted.count(kernels, product, max(4, min(_STAMPED, int(_STAMPED_SECONDS / each))))
    return result._replace(per_clock=result.per_clock[1:])


def short(product: Product, device: str, seconds: float = 0.05) -> spread.Repeats:
    """The rate over a short window after a rest: small products are launched from a graph, 20 at a time.

    A launch through torch takes 4 us, as long as the product of two 1024 matrices itself; from a graph 0.5 us.
    """
    call, each = (_graph(product), 20) if device == "cuda" and product.operations < 2e11 else (product.call, 1)
    ends = laps.run(call, device, seconds=seconds, calls=4).device
    rates = [each * product.operations / (b - a) for a, b in zip(ends[1:], ends[2:])]
    total = each * product.operations * (len(ends) - 2) / (ends[-1] - ends[1])
    return spread.of(rates)._replace(value=total)


def _graph(product: Product) -> Any:
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            product.call()
    graph.replay()
    torch.cuda.synchronize()
    return graph.replay


def best(shapes: Tuple[Tuple[int, int, int], ...], dtype: str, device: str, seed: int) -> Tuple[Product, float]:
    """The shape with the highest rate over a short window, each after the same rest."""
    import time

    found: List[Tuple[float, Product]] = []
    for m, n, k in shapes:
        product = products.make(dtype, m, n, k, device, seed)
        laps.run(product.call, device, calls=2)
        time.sleep(0.3)
        found.append((short(product, device).value, product._replace(a=None, b=None, call=_spent)))
    rate, product = max(found, key=lambda pair: pair[0])
    return product, rate


def _spent() -> None:
    raise RuntimeError("this product's operands were given back")
