"""Host CPU: floating-point rate of a matrix product on all CPUs and on one.

Square products of torch's BLAS with random data, the mean over a window after one warm-up product. All
CPUs tell a short quota, a throttled host, a neighbour; one CPU tells the clock and the generation. Any worker
that has torch measures it.
"""

import time
from typing import Any, Iterator, Optional

from auditor.probes.engine.every_cpu import every_cpu
from auditor.records import Reading

KEY = "host_cpu"
SCOPE = "any"
DEVICES = ("cuda", "cpu")
NEEDS = ("torch",)
SECONDS = {"quick": 0.8, "standard": 6.0, "soak": 20.0}
METHOD = 1
ORDER = 80

WINDOW = {"quick": 0.25, "standard": 1.0, "soak": 4.0}
SIZES = {"all": 2048, "one": 512}


def applies(context: Any) -> Optional[str]:
    """Everywhere."""
    return None


def run(context: Any) -> Iterator[Reading]:
    """float32 on all CPUs and on one; float64 too outside quick."""
    import torch

    dtypes = ("fp32",) if context.profile == "quick" else ("fp32", "fp64")
    with every_cpu(torch) as everyone:
        for dtype in dtypes:
            for threads, size in ((everyone, SIZES["all"]), (1, SIZES["one"])):
                torch.set_num_threads(threads)
                rate, n = product_rate(torch, dtype, size, WINDOW[context.profile], context.seed)
                yield context.reading("flops_per_second", rate, n=n, subject="server", dtype=dtype, threads=threads)
    if context.profile == "quick":
        context.cut("fp64")


def product_rate(torch: Any, dtype: str, size: int, window: float, seed: int) -> Any:
    """FLOP/s over `window` seconds of products of two `size` x `size` matrices, and how many there were."""
    kind = {"fp32": torch.float32, "fp64": torch.float64}[dtype]
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(size, size, dtype=kind, generator=generator) for _ in range(2))
    out = torch.empty(size, size, dtype=kind)
    torch.mm(a, b, out=out)
    begun, products = time.perf_counter(), 0
    while True:
        torch.mm(a, b, out=out)
        products += 1
        seconds = time.perf_counter() - begun
        if seconds >= window:
            return 2.0 * size**3 * products / seconds, products
