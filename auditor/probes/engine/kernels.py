"""Small CUDA kernels of our own, without a toolkit or a compiler on the server.

NVRTC is in torch's wheels (or beside it in conda and system installations); it compiles to a cubin for this
very GPU, which the driver loads into torch's own context. Source: tried on an H200, 0.02-0.07 s a kernel.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import glob
import os
import re
import sys
from typing import Any, Callable, Dict, List, Sequence, Tuple


class KernelsUnavailable(Exception):
    """Why no kernel of our own can run here."""


class Kernel:
    """A compiled function, ready to be launched."""

    def __init__(self, driver: Any, function: ctypes.c_void_p, module: ctypes.c_void_p) -> None:
        self._driver, self._function, self._module = driver, function, module

    def launch(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        stream: Any = 0,
        shared: int = 0,
    ) -> None:
        """Put one launch into `stream` (a number or an object with `cuda_stream`); `args` are ctypes values."""
        self.bind(grid, block, args, stream, shared)()

    def bind(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        stream: Any = 0,
        shared: int = 0,
    ) -> Callable[[], None]:
        """A launch made ready once and put into its stream at each call: a few microseconds cheaper."""
        boxed = [_boxed(value) for value in args]  # must outlive the call
        boxed = [_boxed(a) for a in args]
        pointers = (ctypes.c_void_p * max(1, len(boxed)))(*[ctypes.addressof(a) for a in boxed])
        handle = ctypes.c_void_p(getattr(stream, "cuda_stream", stream) or None)
        dimensions = [ctypes.c_uint(n) for n in (*_three(grid), *_three(block), shared)]
        driver, put = self._driver, self._driver.cuLaunchKernel
        given = (self._function, *dimensions, handle, pointers, None)

        def call(kept: Any = boxed) -> None:  # the values must outlive the pointers to them
            answer = put(*given)
            if answer != 0:
                _check(driver, answer, "cuLaunchKernel")

        return call


class Kernels:
    """Compiles kernels for the current GPU of torch; what was compiled is kept."""

    Unavailable = KernelsUnavailable

    def __init__(self) -> None:
        self._cache: Dict[Tuple[str, str], Kernel] = {}
        self._modules: Dict[str, ctypes.c_void_p] = {}
        self._nvrtc: Any = None
        self._driver: Any = None

    def compile(self, source: str, name: str) -> Kernel:
        """The `extern "C"` function `name` of `source`.

        Raises:
            KernelsUnavailable: no NVRTC, no driver, or a compiler that does not know this GPU; it says which.
        """
        key = (source, name)
        if key not in self._cache:
            if self._nvrtc is None:
                self._open()
            if source not in self._modules:
                self._modules[source] = self._load(self._cubin(source))
            function = ctypes.c_void_p()
            answer = self._driver.cuModuleGetFunction(ctypes.byref(function), self._modules[source], name.encode())
            _check(self._driver, answer, "cuModuleGetFunction " + name)
            self._cache[key] = Kernel(self._driver, function, self._modules[source])
        return self._cache[key]

    def _open(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise KernelsUnavailable("torch sees no CUDA GPU")
        torch.cuda.current_stream().synchronize()  # the primary context exists and is current from here on
        try:
            self._driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise KernelsUnavailable("libcuda.so.1: %s" % error) from None
        problems: List[str] = []
        for path in nvrtc_libraries(os.path.dirname(torch.__file__)):
            try:
                library = ctypes.CDLL(path)
                library.nvrtcGetCUBINSize  # noqa: B018  # CUDA 11.1 and later
            except (OSError, AttributeError) as error:
                problems.append("%s: %s" % (path, error))
            else:
                self._nvrtc = library
                return
        raise KernelsUnavailable(problems[0] if problems else "no libnvrtc beside torch or on this system")

    def _cubin(self, source: str) -> bytes:
        import torch

        nvrtc, program = self._nvrtc, ctypes.c_void_p()
        _nvrtc(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"probe.cu", 0, None, None))
        try:
            options = [b"--gpu-architecture=sm_%d%d" % torch.cuda.get_device_capability(), b"--std=c++14"]
            answer = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
            if answer != 0:
                log = _text(nvrtc, program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
                raise KernelsUnavailable("NVRTC: %s" % (log.strip().splitlines() or ["error %d" % answer])[0][:200])
            size = ctypes.c_size_t()
            _nvrtc(nvrtc, nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
            cubin = ctypes.create_string_buffer(size.value)
            _nvrtc(nvrtc, nvrtc.nvrtcGetCUBIN(program, cubin))
            return cubin.raw
        finally:
            nvrtc.nvrtcDestroyProgram(ctypes.byref(program))

    def _load(self, cubin: bytes) -> ctypes.c_void_p:
        module = ctypes.c_void_p()
        _check(self._driver, self._driver.cuModuleLoadData(ctypes.byref(module), cubin), "cuModuleLoadData")
        return module


def nvrtc_libraries(torch_folder: str) -> List[str]:
    """Where NVRTC may be, best first: mapped already, torch's own wheels, conda, the system's."""
    site, prefix = os.path.dirname(torch_folder), sys.prefix
    patterns = (
        os.path.join(site, "nvidia", "*", "lib", "libnvrtc.so*"),
        os.path.join(torch_folder, "lib", "libnvrtc*.so*"),
        os.path.join(prefix, "lib", "libnvrtc.so*"),
        "/usr/local/cuda/lib64/libnvrtc.so*",
        "/usr/lib/*-linux-gnu/libnvrtc.so*",
    )
    found = _mapped() + [path for pattern in patterns for path in sorted(glob.glob(pattern))]
    found += [name for name in [ctypes.util.find_library("nvrtc")] if name]
    return [path for path in dict.fromkeys(found) if not re.search(r"builtins|\.alt\.", path)]


def _mapped() -> List[str]:
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        return sorted({line.split()[-1] for line in file if re.search(r"/libnvrtc[^/]*\.so", line)})


def _boxed(value: Any) -> Any:
    return ctypes.c_int(value) if isinstance(value, int) else value


def _three(numbers: Sequence[int]) -> Tuple[int, int, int]:
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _text(nvrtc: Any, program: ctypes.c_void_p, size_of: Callable[..., int], read: Callable[..., int]) -> str:
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(max(1, size.value))
    read(program, text)
    return text.value.decode("utf-8", "replace")


def _nvrtc(nvrtc: Any, answer: int) -> None:
    if answer != 0:
        raise KernelsUnavailable("NVRTC error %d" % answer)


def _check(driver: Any, answer: int, call: str) -> None:
    """A driver call's error; errors of the GPU itself are no lack of kernels and rise as they are."""
    if answer == 0:
        return
    text = ctypes.c_char_p()
    driver.cuGetErrorName(answer, ctypes.byref(text))
    name = (text.value or b"error %d" % answer).decode()
    if call.startswith("cuModule"):
        raise KernelsUnavailable("%s: %s" % (call, name))
    raise RuntimeError("%s: %s" % (call, name))
