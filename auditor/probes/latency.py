"""How long one launch takes, from the host's call to its end, over thousands of launches.

An empty kernel is launched and waited for; the host's clock is read around it. Latency is told as percentiles:
a mean hides the pauses that a busy or virtualized host makes.
"""

import time
from typing import Any, Callable, Iterator, List, Optional

from auditor.records import Reading

from .measuring import counted, spread

KEY = "latency"
SCOPE = "gpu"
DEVICES = ("cuda",)
NEEDS = ("torch",)
METHOD = 1
ORDER = 55
SECONDS = {"quick": 1.0, "standard": 1.5, "soak": 1.5}

LAUNCHES = {"quick": 5_000, "standard": 20_000, "soak": 20_000}
_WARM = 500
SOURCE = 'extern "C" __global__ void nothing() {}'


def applies(context: Any) -> Optional[str]:
    """A CPU has no launches."""
    return counted.unavailable(context.kernels, SOURCE, "nothing")


def run(context: Any) -> Iterator[Reading]:
    """Percentiles of launch + synchronize, all GPUs at once."""
    import torch

    kernel = context.kernels.compile(SOURCE, "nothing")
    stream = torch.cuda.current_stream()
    launch, wait = kernel.bind((1, 1, 1), (1, 1, 1), [], stream), stream.synchronize

    def launch_and_wait() -> None:
        launch()
        wait()

    times = measure(launch_and_wait, LAUNCHES[context.profile])
    for stat, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)):
        yield context.reading("launch_seconds", spread.percentile(times, share), n=len(times), stat=stat)


def measure(call: Callable[[], Any], times: int) -> List[float]:
    """Sorted seconds of single calls by the host's clock, after a warm-up."""
    for _ in range(_WARM):
        call()
    found, now = [], time.perf_counter
    for _ in range(times):
        began = now()
        call()
        found.append(now() - began)
    return sorted(found)
