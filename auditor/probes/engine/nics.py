"""The network cards of this machine as sysfs shows them, in one fixed order: nic0, nic1, … for every probe.

Cards with a PCI function first, by address; then virtual devices that are no bridge, tunnel or pair.
One card is one port: its network interface, its RDMA device, or both.
"""

import os
import re
from dataclasses import dataclass
from typing import Dict, List, Optional

ETHERNET, INFINIBAND, LOOPBACK = "1", "32", "772"


@dataclass(frozen=True)
class Nic:
    """One port: `name` is what `ip link` or `ibv_devices` calls it; paths are absolute, None where absent."""

    subject: str
    name: str
    pci: Optional[str]
    net: Optional[str]
    rdma: Optional[str]
    rdma_port: Optional[str]


def cards(sysfs: str = "/sys") -> List[Nic]:
    """All cards, physical ones before virtual ones."""
    rdma = _rdma_ports(sysfs)
    found: List[Nic] = []
    taken = set()
    net = os.path.join(sysfs, "class/net")
    for name in _names(net):
        path = os.path.join(net, name)
        if text(path, "type") not in (ETHERNET, INFINIBAND):
            continue
        device = os.path.realpath(os.path.join(path, "device")) if os.path.exists(os.path.join(path, "device")) else ""
        if not device:
            continue  # bridges, bonds, pairs, tunnels: no device behind them
        ports = rdma.get(device, [])
        number = _port_number(path)
        port = next((p for p in ports if p.endswith("/ports/%d" % number)), ports[0] if ports else None)
        if port:
            taken.add(port)
        found.append(Nic("", name, _pci(device), path, port and port.rsplit("/", 2)[0], port))
    for device, ports in rdma.items():
        for port in ports:
            if port not in taken:
                owner = port.rsplit("/", 2)[0]
                found.append(Nic("", os.path.basename(owner), _pci(device), None, owner, port))
    found.sort(key=lambda nic: (nic.pci is None, nic.pci or "", nic.name))
    return [
        Nic("nic%d" % index, nic.name, nic.pci, nic.net, nic.rdma, nic.rdma_port) for index, nic in enumerate(found)
    ]


def text(*parts: str) -> str:
    """One line of a sysfs file; empty where it cannot be read (a link that is down refuses some)."""
    try:
        with open(os.path.join(*parts), encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _rdma_ports(sysfs: str) -> Dict[str, List[str]]:
    ports: Dict[str, List[str]] = {}
    folder = os.path.join(sysfs, "class/infiniband")
    for name in _names(folder):
        path = os.path.join(folder, name)
        device = os.path.realpath(os.path.join(path, "device"))
        for number in _names(os.path.join(path, "ports")):
            ports.setdefault(device, []).append(os.path.join(path, "ports", number))
    return ports


def _port_number(net: str) -> int:
    number = text(net, "dev_port")
    return int(number) + 1 if number.isdigit() else 1


def _pci(device: str) -> Optional[str]:
    """The PCI address at the end of a device path, or above it (virtio devices hang below their function)."""
    for part in reversed(device.split("/")):
        if re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", part):
            return part
    return None


def _names(folder: str) -> List[str]:
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
