"""Long careful measurements of the same quantities, written apart: nothing here comes from the auditor.

Plain torch, ctypes on the CUDA driver, and kernels of its own through NVRTC. Each takes seconds where a probe takes a
fraction of one, so that its figure can be the yardstick.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

KERNELS = r"""
extern "C" __global__ void load16(const float4* data, long n, float* out) {
    float sum = 0;
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long)blockDim.x) {
        float4 v = data[i];
        sum += v.x + v.y + v.z + v.w;
    }
    if (sum == 12345.678f) *out = sum;
}
extern "C" __global__ void stream_triad(float4* a, const float4* b, const float4* c, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) {
        float4 p = b[i], q = c[i];
        a[i] = make_float4(p.x + 3.f * q.x, p.y + 3.f * q.y, p.z + 3.f * q.z, p.w + 3.f * q.w);
    }
}
"""


class Kernels:
    """The kernels above, compiled by the NVRTC that torch's wheels carry."""

    def __init__(self) -> None:
        torch.zeros(1, device="cuda")
        found = (path for folder in sys.path for path in Path(folder).glob("nvidia/*/lib/libnvrtc.so*"))
        names = [str(path) for path in found if "builtins" not in path.name]
        nvrtc = ctypes.CDLL(names[0])
        self.cuda = ctypes.CDLL("libcuda.so.1")
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        major, minor = torch.cuda.get_device_capability()
        options = (ctypes.c_char_p * 1)(f"--gpu-architecture=sm_{major}{minor}".encode())
        check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), KERNELS.encode(), b"reference.cu", 0, None, None))
        check(nvrtc.nvrtcCompileProgram(program, 1, options))
        check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        self.image = ctypes.create_string_buffer(size.value)
        check(nvrtc.nvrtcGetCUBIN(program, self.image))
        self.module = ctypes.c_void_p()
        check(self.cuda.cuModuleLoadData(ctypes.byref(self.module), self.image))

    def launcher(self, name: str, grid: int, block: int, *values: Any) -> Callable[[], None]:
        """A call that launches one kernel with fixed arguments on the default stream."""
        function = ctypes.c_void_p()
        check(self.cuda.cuModuleGetFunction(ctypes.byref(function), self.module, name.encode()))
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))

        def launch() -> None:
            check(self.cuda.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, None, pointers, None))

        launch.arguments = values  # type: ignore[attr-defined]  # or they would be freed under the pointers
        return launch


def check(code: int) -> None:
    """Raise on anything but success."""
    if code != 0:
        raise RuntimeError(f"CUDA or NVRTC answered {code}")


def product(dtype: str, n: int, zeros: bool = False) -> tuple[Callable[[], Any], Any]:
    """One matrix product of normal random data (or of zeros)."""
    torch.manual_seed(20261201)
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
    a, b = (torch.randn(n, n, device="cuda", dtype=kinds.get(dtype, torch.float32)) for _ in range(2))
    if zeros:
        a.zero_(), b.zero_()
    if dtype == "fp8":
        a8, b8, one = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t(), torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(
            a8, b8, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        ), (a8, b8)
    if dtype == "int8":
        ai = torch.randint(-127, 128, (n, n), device="cuda", dtype=torch.int8)
        bi = torch.randint(-127, 128, (n, n), device="cuda", dtype=torch.int8).t()
        return lambda: torch._int_mm(ai, bi), (ai, bi)
    out = torch.empty(n, n, device="cuda", dtype=a.dtype)
    return lambda: torch.matmul(a, b, out=out), (a, b)


def long_rate(dtype: str, n: int, seconds: float = 20.0, idle: float = 2.0) -> dict[str, float]:
    """TFLOPS from rest: over 20 s after the first 0.25 s, and each later second's deviation. One event a product."""
    call, _ = product(dtype, n)
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    time.sleep(idle)
    first = torch.cuda.Event(enable_timing=True)
    first.record()
    ends: list[float] = []
    waiting: list[Any] = []
    while not ends or ends[-1] < 0.25 + seconds:
        call()
        mark = torch.cuda.Event(enable_timing=True)
        mark.record()
        waiting.append(mark)
        if len(waiting) > 8:
            mark = waiting.pop(0)
            mark.synchronize()
            ends.append(first.elapsed_time(mark) / 1e3)
    torch.cuda.synchronize()
    begin = next(index for index, end in enumerate(ends) if end >= 0.25)
    work = 2.0 * n**3 / 1e12
    return {"mean": (len(ends) - 1 - begin) * work / (ends[-1] - ends[begin]), "calls": float(len(ends))}


def loop(call: Callable[[], Any], moved: float, seconds: float) -> float:
    """Bytes per second over a long stretch of back-to-back calls: one event before, one after."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(10):
        call()
    end.record()
    end.synchronize()
    calls = max(10, int(seconds / (begin.elapsed_time(end) / 1e4)))
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return calls * moved / (begin.elapsed_time(end) / 1e3)


def memory(seconds: float = 2.0, size: int = 8 << 30) -> dict[str, float]:
    """GB/s of device memory with buffers of 8 GiB: own read and triad, the driver's memset and copy."""
    kernels = Kernels()
    b = torch.randn(size // 4, device="cuda")
    a, c = torch.empty_like(b), b.clone()
    out = torch.zeros(1, device="cuda")
    count = size // 16
    n = ctypes.c_long(count)
    pa, pb, pc, po = (ctypes.c_void_p(t.data_ptr()) for t in (a, b, c, out))
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    address = ctypes.c_ulonglong
    calls = {
        "read": (kernels.launcher("load16", 16 * sms, 512, pb, n, po), 1),
        "write": (
            lambda: check(kernels.cuda.cuMemsetD32Async(address(a.data_ptr()), 7, ctypes.c_size_t(size // 4), None)),
            1,
        ),
        "copy": (
            lambda: check(
                kernels.cuda.cuMemcpyDtoDAsync_v2(
                    address(a.data_ptr()), address(b.data_ptr()), ctypes.c_size_t(size), None
                )
            ),
            2,
        ),
        "triad": (kernels.launcher("stream_triad", (count + 511) // 512, 512, pa, pb, pc, n), 3),
    }
    return {name: loop(call, streams * size, seconds) / 1e9 for name, (call, streams) in calls.items()}


def host(seconds: float = 3.0, size: int = 1 << 30) -> dict[str, float]:
    """GB/s between torch's own pinned memory and the GPU, 1 GiB at a time."""
    pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    gpu = torch.randint(0, 256, (size,), dtype=torch.uint8, device="cuda")
    return {
        "d2h": loop(lambda: pinned.copy_(gpu, non_blocking=True), size, seconds) / 1e9,
        "h2d": loop(lambda: gpu.copy_(pinned, non_blocking=True), size, seconds) / 1e9,
    }


def busy(seconds: float) -> None:
    """Multiply for some seconds: the second tenant of the positive control. Says when it has begun."""
    call, _ = product("bf16", 4096)
    call()
    torch.cuda.synchronize()
    sys.stdout.write("busy\n")
    sys.stdout.flush()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(20):
            call()
        torch.cuda.synchronize()


if __name__ == "__main__":
    busy(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
