"""The CPUID instruction, through a few bytes of machine code: what the processor says, not what a file says.

Leaf 1 tells whether a hypervisor runs below; leaves 0x40000000, 0x40000100… carry the names of hypervisors
(a second one where it imitates another). NVML itself scans the same leaves.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
from typing import Callable, List, NamedTuple, Optional

# push rbx; mov eax, edi; mov ecx, esi; mov r8, rdx; cpuid;
# mov [r8], eax; mov [r8+4], ebx; mov [r8+8], ecx; mov [r8+12], edx; pop rbx; ret  (System V calling convention)
_CODE = bytes.fromhex("53 89f8 89f1 4989d0 0fa2 418900 41895804 41894808 4189500c 5b c3")
_LEAVES = range(0x40000000, 0x40001000, 0x100)
SIGNATURES = (
    "KVMKVMKVM",
    "Microsoft Hv",
    "VMwareVMware",
    "XenVMMXenVMM",
    "TCGTCGTCGTCG",
    "bhyve bhyve",
    "VBoxVBoxVBox",
    "prl hyperv",
    "lrpepyh vr",
    "ACRNACRNACRN",
    "QNXQVMBSQG",
    "Linux KVM Hv",
    "CLHVCLHVCLHV",
    "SRESRESRESRE",
    "Jailhouse",
    "UnisysSpar64",
)


class Registers(NamedTuple):
    """What one leaf answers."""

    eax: int
    ebx: int
    ecx: int
    edx: int


Leaf = Callable[[int], Registers]


def instruction() -> Optional[Leaf]:
    """A function that executes CPUID; None on another architecture or where no code may be made (a hardened kernel)."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return None
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    page.write(_CODE)
    place = ctypes.addressof(ctypes.c_char.from_buffer(page))
    call = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(place)

    def leaf(number: int) -> Registers:
        answer = (ctypes.c_uint32 * 4)()
        call(number, 0, ctypes.addressof(answer))
        return Registers(*answer)

    leaf.page = page  # type: ignore[attr-defined]  # the code lives as long as the function
    return leaf


def hypervisor_flag(leaf: Leaf) -> bool:
    """CPUID.1:ECX[31]."""
    return bool(leaf(1).ecx >> 31 & 1)


def hypervisor(leaf: Leaf) -> str:
    """The names the hypervisor leaves carry; `none` where no leaf holds one.

    Without the flag a processor answers these leaves with those of its highest ordinary one, so only known names count.
    """
    names: List[str] = []
    for number in _LEAVES:
        name = signature(leaf(number))
        known = next((s for s in SIGNATURES if name.startswith(s)), None)
        if known is not None and known not in names:
            names.append(known)
    if not names and hypervisor_flag(leaf):
        unknown = signature(leaf(_LEAVES[0]))
        return unknown if unknown.isprintable() and unknown else "unnamed"
    return ", ".join(names) or "none"


def signature(registers: Registers) -> str:
    """EBX, ECX, EDX as the twelve characters they are."""
    raw = struct.pack("<3I", registers.ebx, registers.ecx, registers.edx)
    return raw.split(b"\0")[0].decode("latin-1").strip()
