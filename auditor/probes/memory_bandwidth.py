"""How fast the GPU reads, writes, copies and combines its own memory.

Buffers of 4 GiB (at least 1 GiB: small ones are slower and served by the cache), 25 passes back to back after
3 to warm up, mean. Bytes are counted as they move: read and write one stream, copy two (read + write), triad
three. Other tools count a copy once: nvbandwidth's `device_local_copy` prints half. Read and triad are small
kernels of our own, write and copy torch's `fill_` and `copy_`: the fastest of each kind on H200 (docs/method.md).
"""

import ctypes
from typing import Any, Callable, Dict, Iterator, Optional

from auditor.records import Reading

from .engine.kernels import KernelsUnavailable
from .measuring import laps, spread

KEY = "memory_bandwidth"
SCOPE = "gpu"
DEVICES = ("cuda", "cpu")
NEEDS = ("torch",)
METHOD = 1
ORDER = 35
SECONDS = {"quick": 5.0, "standard": 6.0, "soak": 6.0}

GIB = 1 << 30
_PASSES = 25
_WARM = 3
STABLE = 0.03
"""Single passes of one card differ by 0.7 % at 4 GiB; four times that is no longer the same state."""

SOURCE = r"""
// Eight loads of 16 bytes a thread, all in flight at once; the buffer is a multiple of 32 KiB.
extern "C" __global__ void __launch_bounds__(256) read_all(const uint4* in, unsigned int* out) {
    const uint4* mine = in + (unsigned long long)blockIdx.x * 256 * 8 + threadIdx.x;
    unsigned int all = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        uint4 p = mine[k * 256];
        all ^= p.x ^ p.y ^ p.z ^ p.w;
    }
    if (all == 0x5eed5eedu) out[threadIdx.x] = all;  // keeps the loads alive; hardly ever taken
}

extern "C" __global__ void __launch_bounds__(1024) triad(float4* a, const float4* b, const float4* c, float scale) {
    unsigned long long i = (unsigned long long)blockIdx.x * 1024 + threadIdx.x;
    float4 p = b[i], q = c[i];
    a[i] = make_float4(p.x + scale * q.x, p.y + scale * q.y, p.z + scale * q.z, p.w + scale * q.w);
}
"""


def applies(context: Any) -> Optional[str]:
    """Every device has memory."""
    return None


def run(context: Any) -> Iterator[Reading]:
    """Measure each operation on all GPUs at once."""
    import torch

    size = _size(torch, context.device)
    source = torch.Generator(device=context.device)
    source.manual_seed(context.seed)
    b = torch.randn(size // 4, device=context.device, generator=source)
    a, c = torch.empty_like(b), b.clone()
    operations: Dict[str, Callable[[], Any]] = {"write": lambda: a.fill_(1.5), "copy": lambda: a.copy_(b)}
    if context.device == "cuda":
        try:
            operations.update(_kernels(torch, context, a, b, c))
        except KernelsUnavailable as reason:
            context.cut(f"read and triad: {reason}")
    else:
        operations.update(read=lambda: b.sum(), triad=lambda: torch.add(b, c, alpha=3.0, out=a))
    for name, call in operations.items():
        context.barrier()
        _, rate = spread.steady(lambda: (None, _rate(call, context.device, _STREAMS[name] * size)))  # noqa: B023
        yield context.reading("bytes_per_second", rate.value, rate.spread, rate.n, rate.stable, op=name, bytes=size)


_STREAMS = {"read": 1, "write": 1, "copy": 2, "triad": 3}


def _size(torch: Any, device: str) -> int:
    """4 GiB; less, down to 1 GiB, where three buffers would not fit in half of what is free."""
    if device == "cpu":
        return 256 << 20
    free, _ = torch.cuda.mem_get_info()
    return next((size for size in (4 * GIB, 2 * GIB) if 3 * size <= free / 2), GIB)


def _kernels(torch: Any, context: Any, a: Any, b: Any, c: Any) -> Dict[str, Callable[[], Any]]:
    read, triad = (context.kernels.compile(SOURCE, name) for name in ("read_all", "triad"))
    pa, pb, pc = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (a, b, c))
    stream = torch.cuda.current_stream()
    words = b.numel() // 4  # of 16 bytes
    return {
        "read": read.bind((words // (256 * 8), 1, 1), (256, 1, 1), [pb, pa], stream),
        "triad": triad.bind((words // 1024, 1, 1), (1024, 1, 1), [pa, pb, pc, ctypes.c_float(3.0)], stream),
    }


def _rate(call: Callable[[], Any], device: str, bytes_moved: int) -> spread.Repeats:
    warm, passes = (_WARM, _PASSES) if device == "cuda" else (1, 5)
    ends = laps.run(call, device, calls=warm + passes).device[warm:]
    each = spread.of([bytes_moved / (end - begin) for begin, end in zip(ends, ends[1:])], spread.limit(device, STABLE))
    return each._replace(value=bytes_moved * passes / (ends[-1] - ends[0]))
