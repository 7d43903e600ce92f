"""CUDA's own view of the GPUs, by the driver API alone: no torch, and in a process of its own.

A sick driver may hang in cuInit; then this process is ended and the parent goes on. No context is made, so no
GPU memory is taken and nobody sees a process on the GPU.
"""

from __future__ import annotations

import ctypes
import uuid
from typing import Any, Dict, List, Optional

from .channel import Channel

# cuda.h, CUdevice_attribute
ATTRIBUTES = {
    "sms": 16,
    "memory_clock_kilohertz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "major": 75,
    "minor": 76,
    "sm_clock_kilohertz": 13,
    "ecc": 32,
    "integrated": 18,
    "gpu_direct_rdma": 116,
    "dma_buf": 124,
}


class _CudaError(Exception):
    pass


def ask() -> Dict[str, Any]:
    """What the driver API tells: its version, and of each visible GPU name, UUID, address, memory, attributes, peers.

    `refusal` is the driver's word where it does not answer (library_not_found, CUDA_ERROR_SYSTEM_NOT_READY…).
    """
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {"refusal": "library_not_found", "version": None, "devices": [], "peers": []}
    version = ctypes.c_int()
    try:
        _check(library, library.cuDriverGetVersion(ctypes.byref(version)))
        _check(library, library.cuInit(0))
        count = ctypes.c_int()
        _check(library, library.cuDeviceGetCount(ctypes.byref(count)))
        devices = [_device(library, index) for index in range(count.value)]
    except _CudaError as error:
        return {"refusal": str(error), "version": version.value or None, "devices": [], "peers": []}
    return {"refusal": None, "version": version.value, "devices": devices, "peers": _peers(library, len(devices))}


def _device(library: Any, index: int) -> Dict[str, Any]:
    device, size = ctypes.c_int(), ctypes.c_size_t()
    _check(library, library.cuDeviceGet(ctypes.byref(device), index))
    name, address = ctypes.create_string_buffer(256), ctypes.create_string_buffer(32)
    _check(library, library.cuDeviceGetName(name, 256, device))
    _check(library, library.cuDeviceGetPCIBusId(address, 32, device))
    total = getattr(library, "cuDeviceTotalMem_v2", None) or library.cuDeviceTotalMem
    _check(library, total(ctypes.byref(size), device))
    return {
        "name": name.value.decode("utf-8", "replace"),
        "pci": address.value.decode("ascii", "replace").lower(),
        "uuid": _uuid(library, device),
        "memory_bytes": size.value,
        **{name: _attribute(library, number, device) for name, number in ATTRIBUTES.items()},
    }


def _attribute(library: Any, number: int, device: ctypes.c_int) -> Optional[int]:
    found = ctypes.c_int()
    return found.value if library.cuDeviceGetAttribute(ctypes.byref(found), number, device) == 0 else None


def _uuid(library: Any, device: ctypes.c_int) -> Optional[str]:
    """As NVML writes it; CUDA 11.4 and later tell a MIG instance's own through the second version of the call."""
    raw = (ctypes.c_ubyte * 16)()
    call = getattr(library, "cuDeviceGetUuid_v2", None) or getattr(library, "cuDeviceGetUuid", None)
    if call is None or call(ctypes.byref(raw), device) != 0:
        return None
    return "GPU-%s" % uuid.UUID(bytes=bytes(raw))


def _peers(library: Any, count: int) -> List[List[Optional[bool]]]:
    def access(a: int, b: int) -> Optional[bool]:
        found = ctypes.c_int()
        answer = library.cuDeviceCanAccessPeer(ctypes.byref(found), ctypes.c_int(a), ctypes.c_int(b))
        return bool(found.value) if answer == 0 else None

    return [[None if a == b else access(a, b) for b in range(count)] for a in range(count)]


def _check(library: Any, answer: int) -> None:
    if answer != 0:
        text = ctypes.c_char_p()
        library.cuGetErrorName(answer, ctypes.byref(text))
        raise _CudaError((text.value or b"error %d" % answer).decode("ascii", "replace"))


def main(fileno: int) -> int:
    """Tell it over the channel."""
    Channel(fileno).send({"say": "cuda", **ask()})
    return 0
