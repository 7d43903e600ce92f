"""How much of the GPU's memory can really be written and read back.

At least 95 % of what is free is allocated, all of it is written with a pattern that follows from a seed and
each word's place, then all of it is read back: memory that is not there (a forged size) comes back as another
place's words. 139 GiB take 0.1 s of GPU time on an H200 (docs/method.md).
"""

import ctypes
from typing import Any, Iterator, List, Optional

from auditor.records import Reading

from .measuring import counted

KEY = "memory_capacity"
SCOPE = "gpu"
DEVICES = ("cuda",)
NEEDS = ("torch",)
METHOD = 1
ORDER = 75  # last on the GPU: the driver wipes the freed memory in the background, which slows memory and copies
SECONDS = {"quick": 2.0, "standard": 3.0, "soak": 3.0}

GIB = 1 << 30
_LEFT_FREE = 256 << 20
_LEFT_SHARE = 0.02

SOURCE = r"""
__device__ unsigned long long word(unsigned long long place, unsigned long long seed) {
    unsigned long long z = place * 0x9e3779b97f4a7c15ull + seed;  // SplitMix64: one word, one place
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

extern "C" __global__ void __launch_bounds__(1024) fill(ulonglong2* out, unsigned long long count,
                                                        unsigned long long first, unsigned long long seed) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        out[i] = make_ulonglong2(word(first + 2 * i, seed), word(first + 2 * i + 1, seed));
}

extern "C" __global__ void __launch_bounds__(1024) verify(const ulonglong2* in, unsigned long long count,
                                                          unsigned long long first, unsigned long long seed,
                                                          unsigned long long* wrong) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x, bad = 0;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        ulonglong2 found = in[i];
        bad += found.x != word(first + 2 * i, seed);
        bad += found.y != word(first + 2 * i + 1, seed);
    }
    if (bad) atomicAdd(wrong, bad);
}
"""


def applies(context: Any) -> Optional[str]:
    """Only a GPU's memory is tested: a server's own belongs to all its guests."""
    return counted.unavailable(context.kernels, SOURCE, "fill")


def run(context: Any) -> Iterator[Reading]:
    """Fill everything, then verify everything; what was taken is given back."""
    import torch

    fill, verify = (context.kernels.compile(SOURCE, name) for name in ("fill", "verify"))
    torch.cuda.empty_cache()
    wrong = torch.zeros(1, dtype=torch.int64, device="cuda")
    free, _ = torch.cuda.mem_get_info()
    chunks = allocate(torch, free - max(_LEFT_FREE, int(free * _LEFT_SHARE)))
    try:
        _each(torch, fill, chunks, context.seed, [])
        _each(torch, verify, chunks, context.seed, [ctypes.c_void_p(wrong.data_ptr())])
        errors = int(wrong.item())
        size = sum(chunk.numel() for chunk in chunks)
    finally:
        chunks.clear()
        torch.cuda.empty_cache()
    yield context.reading("bytes", size)
    yield context.reading("free_bytes", free, source="driver/cuda")
    yield context.reading("errors_total", errors)


def allocate(torch: Any, wanted: int) -> List[Any]:
    """Chunks of 1 GiB (the last one smaller) up to `wanted` bytes, or to where the driver says no."""
    chunks: List[Any] = []
    while wanted >= 2 << 20:
        size = min(GIB, wanted >> 21 << 21)
        try:
            chunks.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.cuda.OutOfMemoryError:
            break
        wanted -= size
    if not chunks:
        raise RuntimeError("not even 2 MiB of GPU memory could be allocated")
    return chunks


def _each(torch: Any, kernel: Any, chunks: List[Any], seed: int, more: List[Any]) -> None:
    sms = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    stream = torch.cuda.current_stream().cuda_stream
    first = 0
    for chunk in chunks:
        words = chunk.numel() // 8
        place = [ctypes.c_void_p(chunk.data_ptr()), ctypes.c_ulonglong(words // 2), ctypes.c_ulonglong(first)]
        kernel.launch((2 * sms, 1, 1), (1024, 1, 1), [*place, ctypes.c_ulonglong(seed & (2**64 - 1)), *more], stream)
        first += words
    torch.cuda.synchronize()
