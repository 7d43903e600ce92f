"""The kernel's own files, below a root that tests can put elsewhere; what is not there is None, never a guess."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from typing import List, Optional

_MOST = 1 << 20
NVIDIA = "0x10de"


def text(root: str, path: str) -> Optional[str]:
    """A file's text without the space around it; None where it cannot be read."""
    raw = data(root, path)
    return None if raw is None else raw.decode("utf-8", "replace").replace("\0", " ").strip()


def data(root: str, path: str) -> Optional[bytes]:
    """A file's bytes, at most 1 MiB."""
    try:
        with open(os.path.join(root, path), "rb") as file:
            return file.read(_MOST)
    except OSError:
        return None


def found(root: str, pattern: str) -> List[str]:
    """Paths that match, with the root in front, sorted."""
    return sorted(glob.glob(os.path.join(root, pattern)))


@dataclass(frozen=True)
class PciFunction:
    """One function of a PCI device as sysfs shows it; numbers as the kernel writes them (`0x10de`)."""

    address: str
    path: str
    vendor: str
    device: str
    kind: str
    subsystem: str

    @property
    def name(self) -> str:
        """`10de:2335`."""
        return "%s:%s" % (self.vendor[2:], self.device[2:])

    @property
    def is_gpu(self) -> bool:
        """An NVIDIA display function: a GPU, not its audio or its switch."""
        return self.vendor == NVIDIA and self.kind[:6] in ("0x0300", "0x0302")


def pci_functions(root: str) -> List[PciFunction]:
    """All PCI functions."""
    functions = []
    for path in found(root, "sys/bus/pci/devices/*"):

        def read(name: str, folder: str = path) -> str:
            return (text(folder, name) or "").lower()

        subsystem = "%s:%s" % (read("subsystem_vendor")[2:], read("subsystem_device")[2:])
        functions.append(
            PciFunction(
                address=os.path.basename(path).lower(),
                path=path,
                vendor=read("vendor"),
                device=read("device"),
                kind=read("class"),
                subsystem=subsystem,
            )
        )
    return functions


def address(text_of_path: str) -> List[str]:
    """The PCI addresses in a device path, from the root port down."""
    return re.findall(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", text_of_path.lower())
