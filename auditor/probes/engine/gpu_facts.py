"""The GPUs of this machine as the driver lists them: what every process of the engine must agree on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, Optional


@dataclass(frozen=True)
class GpuFacts:
    """One GPU. `index` is NVML's; `visible` is what a worker's CUDA_VISIBLE_DEVICES must hold.

    `fault` is the driver's word where it would not even name the GPU (gpu_lost, reset_required…).
    """

    index: int
    uuid: Optional[str] = None
    pci: Optional[str] = None
    name: Optional[str] = None
    visible: Optional[str] = None
    fault: Optional[str] = None

    @property
    def subject(self) -> str:
        """Its name in readings."""
        return "gpu%d" % self.index

    def wire(self) -> Dict[str, Any]:
        """As it travels to a worker."""
        return asdict(self)


def pci_address(bus_id: str) -> str:
    """NVML's `00000000:06:00.0` as the kernel writes it: `0000:06:00.0`. What is no address stays as it is."""
    domain, _, rest = bus_id.strip().lower().partition(":")
    try:
        return "%04x:%s" % (int(domain, 16), rest)
    except ValueError:
        return bus_id


def same_address(one: Optional[str], other: Optional[str]) -> bool:
    """Whether two sources mean the same function, however they write the domain."""
    return bool(one and other) and pci_address(one or "") == pci_address(other or "")
