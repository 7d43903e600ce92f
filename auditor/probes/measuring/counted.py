"""SM clocks counted by the SMs themselves, between products.

NVML's clock reads 9-22 % high under tensor load and lags by 100-150 ms (gpu-facts). A small kernel that
runs on every SM and writes down `clock64` and `globaltimer` before and after a product counts what really
passed; operations over these clocks are the silicon's own figure, whatever power, heat or data.
"""

import ctypes
from typing import Any, List, NamedTuple, Optional

from ..engine.kernels import KernelsUnavailable
from . import spread
from .products import Product

SOURCE = r"""
extern "C" __global__ void stamp(unsigned long long* out, int slots) {
    unsigned int sm;
    unsigned long long now;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    if (threadIdx.x != 0 || sm >= slots) return;
    unsigned long long clocks = clock64();
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    out[2 * sm] = clocks;
    out[2 * sm + 1] = now;
}
"""
_SLOTS = 1024  # SM numbers need not be dense; no GPU has this many


def unavailable(kernels: Any, source: str, name: str) -> Optional[str]:
    """Why a kernel of our own cannot run here, or None."""
    try:
        kernels.compile(source, name)
    except KernelsUnavailable as reason:
        return "no kernel of our own can run here: %s" % reason
    return None


class Counted(NamedTuple):
    """Operations per SM clock and SM, product by product, and the counted clock over the whole stretch."""

    per_clock: List[float]
    hertz: float


def count(kernels: Any, product: Product, repeats: int) -> Counted:
    """Run `repeats` products with a stamp between all of them; the caller has put the GPU under load just before."""
    import torch

    stamp = kernels.compile(SOURCE, "stamp")
    sms = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    marks = torch.zeros(repeats + 1, _SLOTS, 2, dtype=torch.int64, device="cuda")
    slot = marks[0].numel() * marks.element_size()
    stream = torch.cuda.current_stream().cuda_stream

    def mark(index: int) -> None:
        # Four blocks for each SM, so that none is left without a stamp.
        pointer = ctypes.c_void_p(marks.data_ptr() + index * slot)
        stamp.launch((4 * sms, 1, 1), (32, 1, 1), [pointer, ctypes.c_int(_SLOTS)], stream)

    mark(0)
    for index in range(repeats):
        product.call()
        mark(index + 1)
    torch.cuda.synchronize()
    return _reckon(marks.cpu().tolist(), product.operations, sms)


def _reckon(marks: List[List[List[int]]], operations: float, sms: int) -> Counted:
    def passed(first: List[List[int]], last: List[List[int]], column: int) -> float:
        both = [b[column] - a[column] for a, b in zip(first, last) if a[1] and b[1]]
        if not both:
            raise RuntimeError("no SM wrote its clock before and after the product")
        return spread.median(both)

    per_clock = [operations / passed(a, b, 0) / sms for a, b in zip(marks, marks[1:])]
    whole = marks[0], marks[-1]
    return Counted(per_clock, passed(*whole, 0) / (passed(*whole, 1) * 1e-9))
