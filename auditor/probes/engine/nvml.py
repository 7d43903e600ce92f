"""The door to NVML: every call answers with a value or with the driver's refusal, never with an exception.

A refusal is evidence (a lost GPU, a missing permission, a driver older than the call), so it is data here.
pynvml raises for a symbol that an old driver lacks just as for an error code; both become a refusal.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Union

from .gpu_facts import GpuFacts

# nvml.h, nvmlReturn_t
WORDS: Dict[int, str] = {
    1: "uninitialized",
    2: "invalid_argument",
    3: "not_supported",
    4: "no_permission",
    6: "not_found",
    7: "insufficient_size",
    8: "insufficient_power",
    9: "driver_not_loaded",
    10: "timeout",
    11: "irq_issue",
    12: "library_not_found",
    13: "function_not_found",
    14: "corrupted_inforom",
    15: "gpu_lost",
    16: "reset_required",
    17: "os_blocked",
    18: "driver_mismatch",
    19: "in_use",
    20: "out_of_memory",
    21: "no_data",
    22: "vgpu_ecc_not_supported",
    23: "insufficient_resources",
    24: "frequency_not_supported",
    25: "version_mismatch",
    26: "deprecated",
    27: "not_ready",
    28: "gpu_not_found",
    29: "invalid_state",
    30: "reset_type_not_supported",
    999: "unknown_error",
}
NO_BINDING = -1


class NvmlRefusal(NamedTuple):
    """The driver did not answer: its code, our word for it, and the call it refused."""

    code: int
    word: str
    call: str

    def __str__(self) -> str:
        return "%s: %s" % (self.call, self.word)


class Nvml:
    """NVML of this process, opened at the first use."""

    def __init__(self) -> None:
        self._binding: Any = None
        self._refusal: Optional[NvmlRefusal] = None

    def open(self) -> Optional[NvmlRefusal]:
        """Load and initialize the library; None when it answers. Said once, remembered."""
        if self._binding is None and self._refusal is None:
            try:
                import pynvml
            except ImportError:
                self._refusal = NvmlRefusal(NO_BINDING, "no_binding", "import pynvml")
                return self._refusal
            try:
                pynvml.nvmlInit()
                self._binding = pynvml
            except pynvml.NVMLError as error:
                self._refusal = _refusal(error, "nvmlInit")
        return self._refusal

    def call(self, name: str, *arguments: Any) -> Any:
        """`pynvml.<name>(*arguments)`, or the refusal. A refusal among the arguments is handed through."""
        for argument in arguments:
            if isinstance(argument, NvmlRefusal):
                return argument
        refusal = self.open()
        if refusal is not None:
            return refusal
        function = getattr(self._binding, name, None)
        if function is None:
            return NvmlRefusal(13, WORDS[13], name)
        try:
            return function(*arguments)
        except self._binding.NVMLError as error:
            return _refusal(error, name)
        except UnicodeDecodeError:
            return NvmlRefusal(999, "undecodable", name)

    def handle(self, gpu: Union[GpuFacts, str, int, None]) -> Any:
        """The handle of a GPU given by facts, UUID or index; or the refusal."""
        if isinstance(gpu, GpuFacts):
            gpu = gpu.uuid or gpu.index
        if isinstance(gpu, int):
            return self.call("nvmlDeviceGetHandleByIndex", gpu)
        return self.call("nvmlDeviceGetHandleByUUID", (gpu or "").encode())

    def constant(self, name: str, default: Any = None) -> Any:
        """A constant of the binding, `default` where this binding does not know it."""
        return default if self.open() is not None else getattr(self._binding, name, default)


def value(answer: Any) -> Any:
    """The answer itself; None for a refusal."""
    return None if isinstance(answer, NvmlRefusal) else answer


def _refusal(error: Any, call: str) -> NvmlRefusal:
    code = int(error.value)
    return NvmlRefusal(code, WORDS.get(code, "error_%d" % code), call)
