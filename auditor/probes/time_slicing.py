"""Does somebody else compute on this GPU? A kernel watches its own clock for gaps.

One thread on each SM reads its clock over and over for 0.4 s. Alone, two readings are some 80 clocks apart; when the
driver gives the GPU to another process, all of them stand still for a time slice. On an H200: 0 gaps above
4000 clocks alone, about 11,880 gaps of up to 2.7 ms with a second process (docs/method.md). Nothing a container or
virtual machine hides can hide this.
"""

import ctypes
from typing import Any, Iterator, Optional

from auditor.records import Reading

from .measuring import counted

KEY = "time_slicing"
SCOPE = "gpu"
DEVICES = ("cuda",)
NEEDS = ("torch",)
METHOD = 1
ORDER = 20
SECONDS = {"quick": 1.0, "standard": 1.0, "soak": 1.0}

GAP_CLOCKS = 4000
WATCH_SECONDS = 0.4

SOURCE = r"""
extern "C" __global__ void watch(unsigned long long* out, unsigned long long nanoseconds, unsigned int gap) {
    unsigned long long began, now, last, clocks, first, largest = 0, gaps = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
    first = last = clock64();
    do {
        clocks = clock64();
        unsigned long long passed = clocks - last;
        last = clocks;
        if (passed > largest) largest = passed;
        gaps += passed > gap;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - began < nanoseconds);
    unsigned long long* row = out + 4 * blockIdx.x;
    row[0] = gaps;
    row[1] = largest;
    row[2] = last - first;
    row[3] = now - began;
}
"""


def applies(context: Any) -> Optional[str]:
    """A CPU is shared by design; there is no sense in watching for it."""
    return counted.unavailable(context.kernels, SOURCE, "watch")


def run(context: Any) -> Iterator[Reading]:
    """Watch all SMs for 0.4 s."""
    gaps, largest, seconds = watch(context.kernels, WATCH_SECONDS)
    yield context.reading("gaps_total", gaps)
    yield context.reading("largest_gap_seconds", largest)
    yield context.reading("watch_seconds", seconds)


def watch(kernels: Any, seconds: float) -> "tuple[int, float, float]":
    """Gaps over all SMs, the largest in seconds, and how long was really watched."""
    import torch

    kernel = kernels.compile(SOURCE, "watch")
    sms = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    rows = torch.zeros(sms, 4, dtype=torch.int64, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    pointer = ctypes.c_void_p(rows.data_ptr())
    for length in (1e-4, seconds):  # the first launch of a kernel loads it: that is no gap of a neighbour's
        arguments = [pointer, ctypes.c_ulonglong(int(length * 1e9)), ctypes.c_uint(GAP_CLOCKS)]
        torch.cuda.synchronize()
        kernel.launch((sms, 1, 1), (1, 1, 1), arguments, stream)
    torch.cuda.synchronize()
    found = rows.cpu().tolist()
    gaps = sum(row[0] for row in found)
    return gaps, max(row[1] / row[2] * row[3] * 1e-9 for row in found), max(row[3] for row in found) * 1e-9
