"""Whether NCCL may use NVLS, the switch's own reduction, and what NCCL said it chose."""

import ctypes
import re
from typing import Mapping, Optional

_MULTICAST_SUPPORTED = 132  # CUdevice_attribute CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED


def usable(environment: Mapping[str, str]) -> Optional[bool]:
    """False where a setting or the device forbids it, True where the device offers it, None where it cannot be told."""
    if environment.get("NCCL_NVLS_ENABLE") == "0":
        return False
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    value, device = ctypes.c_int(), ctypes.c_int()
    if library.cuDeviceGet(ctypes.byref(device), 0) != 0:
        return None
    if library.cuDeviceGetAttribute(ctypes.byref(value), _MULTICAST_SUPPORTED, device) != 0:
        return None
    return bool(value.value)


def heard(log: str) -> str:
    """NCCL's own words on channels and multicast, in short."""
    found = []
    match = re.search(r"(\d+) coll channels, (\d+) collnet channels, (\d+) nvls channels, (\d+) p2p channels", log)
    if match:
        found.append(f"{match[1]} coll, {match[3]} nvls, {match[4]} p2p channels")
    match = re.search(r"NVLS multicast support is (not )?available", log)
    if match:
        found.append(f"NVLS multicast {match[1] or ''}available")
    vias = sorted(set(re.findall(r"via (P2P/[\w/]+|SHM/[\w/]+|NET/[\w/]+)", log)))
    if vias:
        found.append("via " + ", ".join(vias))
    return "; ".join(found)
