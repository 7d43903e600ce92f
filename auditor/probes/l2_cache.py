"""How large the GPU's second-level cache really is, and how far away memory is.

One thread follows a random chain through buffers of rising size; each load depends on the one before, so the
time of a load is its latency. As long as the buffer fits in the cache a load takes the same time; the knee is the
largest buffer whose loads take at most 10 % more than those of small ones. GPUs with a cache in two halves (A100, H100,
H200) show the knee near half of what CUDA reports, since one SM is served by its near half.
"""

import ctypes
from typing import Any, Dict, Iterator, List, Optional

from auditor.records import Reading

from .measuring import counted, spread

KEY = "l2_cache"
SCOPE = "gpu"
DEVICES = ("cuda",)
NEEDS = ("torch",)
METHOD = 2
ORDER = 37
SECONDS = {"quick": 1.5, "standard": 2.0, "soak": 2.0}

MIB = 1 << 20
LINE = 128
_SHARES = (1 / 16, 1 / 8, 1 / 4, 5 / 16, 3 / 8, 7 / 16, 1 / 2, 9 / 16, 5 / 8, 3 / 4, 7 / 8, 1, 5 / 4, 3 / 2, 2, 4)
_LOADS = 16384
_KNEE = 1.10
_SMALL = 4  # so many of the smallest sizes say together what a hit costs

SOURCE = r"""
extern "C" __global__ void touch(const int* in, unsigned long long lines, int* out) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    int sum = 0;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < lines; i += step)
        sum += __ldcg(in + 32 * i);
    if (sum == 0x5eed5eed) out[0] = sum;
}

extern "C" __global__ void chase(const int* in, int start, int loads, unsigned long long* out) {
    unsigned long long began, ended, clocks;
    int at = start;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
    clocks = clock64();
    for (int i = 0; i < loads; ++i) at = __ldcg(in + 32ull * at);
    clocks = clock64() - clocks;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ended));
    out[0] = clocks;
    out[1] = ended - began;
    out[2] = at;
}
"""


def applies(context: Any) -> Optional[str]:
    """A GPU's cache is measured."""
    return counted.unavailable(context.kernels, SOURCE, "chase")


def run(context: Any) -> Iterator[Reading]:
    """Latency by buffer size, and the knee."""
    import torch

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    reported = getattr(properties, "L2_cache_size", 0) or 32 * MIB
    sizes = sorted({max(MIB, int(reported * share) // MIB * MIB) for share in _SHARES})
    latencies: Dict[int, float] = {}
    clocks: Dict[int, float] = {}
    for size in sizes:
        clocks[size], latencies[size] = _chase(torch, context, size)
    yield context.reading("bytes", knee(sizes, clocks), n=len(sizes))
    shown = (sizes[0], sizes[-1]) if context.profile == "quick" else sizes
    for size in shown:
        yield context.reading("latency_seconds", latencies[size], n=_LOADS, bytes=size)


def knee(sizes: List[int], clocks: Dict[int, float]) -> int:
    """The largest size up to which every load takes at most 10 % longer than in small buffers."""
    hit = spread.median([clocks[size] for size in sizes[:_SMALL]])
    last = sizes[0]
    for size in sizes[1:]:
        if clocks[size] > _KNEE * hit:
            break
        last = size
    return last


def _chase(torch: Any, context: Any, size: int) -> "tuple[float, float]":
    touch, chase = (context.kernels.compile(SOURCE, name) for name in ("touch", "chase"))
    lines = size // LINE
    source = torch.Generator(device="cuda")
    source.manual_seed(context.seed)
    order = torch.randperm(lines, device="cuda", generator=source, dtype=torch.int32).long()
    chain = torch.zeros(lines, LINE // 4, dtype=torch.int32, device="cuda")
    chain[order, 0] = order.roll(-1).to(torch.int32)
    out = torch.zeros(3, dtype=torch.int64, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    start, target, result = (
        ctypes.c_int(int(order[0])),
        ctypes.c_void_p(chain.data_ptr()),
        ctypes.c_void_p(out.data_ptr()),
    )
    for _ in range(2):
        touch.launch((256, 1, 1), (256, 1, 1), [target, ctypes.c_ulonglong(lines), result], stream)
    chase.launch((1, 1, 1), (1, 1, 1), [target, start, ctypes.c_int(_LOADS), result], stream)
    torch.cuda.synchronize()
    clocks, nanoseconds, _ = out.tolist()
    return clocks / _LOADS, nanoseconds * 1e-9 / _LOADS
