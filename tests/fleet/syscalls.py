"""The few Linux calls a machine is made of, which Python 3.11 has no wrapper for."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct

NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 8, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *args: object) -> None:
    """Call a libc function; raises OSError where it returns -1."""
    converted = [os.fsencode(a) if isinstance(a, (str, os.PathLike)) else a for a in args]
    if getattr(_libc, name)(*converted) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}{args}: {os.strerror(number)}")


def mount(source: object, target: object, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    """mount(2)."""
    call("mount", source, target, kind, ctypes.c_ulong(flags), data)


def adopt_orphans() -> None:
    """Become the parent of grandchildren whose own parent ends."""
    call("prctl", _PR_SET_CHILD_SUBREAPER, 1)


def loopback_up() -> None:
    """`ip link set lo up` in the current network namespace."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh22x", b"lo", 0x1 | 0x40))
