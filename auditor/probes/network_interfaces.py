"""Network cards: what each is, its link, its rate, its RDMA device, and the errors it counted.

Read from sysfs without root: /sys/class/net and /sys/class/infiniband. The error counters are read before
and after: `audit` is the difference, `history` the value since the driver was loaded.
"""

import os
import re
from typing import Any, Dict, Iterator, Optional, Tuple

from auditor.probes.engine import nics
from auditor.probes.engine.nics import Nic, text
from auditor.records import Reading

KEY = "network_interfaces"
SCOPE = "server"
DEVICES = ("cuda", "cpu")
NEEDS: Tuple[str, ...] = ()
SECONDS = {"quick": 0.3, "standard": 0.5, "soak": 0.5}
METHOD = 1
ORDER = 13

SOURCE = "kernel/sysfs"
NET_COUNTERS = ("rx_errors", "tx_errors", "rx_crc_errors", "rx_dropped")
RDMA_COUNTERS = ("link_downed", "symbol_error", "port_rcv_errors", "link_error_recovery")
_VIRTUAL_DRIVERS = ("virtio_net", "hv_netvsc", "vmxnet3", "xen-netfront", "veth", "tun")
_BASELINE: Dict[Tuple[str, str], int] = {}


def applies(context: Any) -> Optional[str]:
    """Where there is a card at all (a container's own pair is none)."""
    return None if nics.cards() else "no network card in sysfs"


def run(context: Any) -> Iterator[Reading]:
    """Facts of every card, and its counters as they stand."""
    for reading in facts(context, "/sys"):
        yield reading


def finish(context: Any) -> Iterator[Reading]:
    """What the counters rose by during the audit."""
    for reading in differences(context, "/sys"):
        yield reading


def facts(context: Any, sysfs: str) -> Iterator[Reading]:
    """Readings of all cards below `sysfs`; remembers the counters for `differences`."""
    _BASELINE.clear()
    for nic in nics.cards(sysfs):
        values: Dict[str, Any] = {
            "name": nic.name,
            "kind": kind(nic),
            "driver": driver(nic),
            "pci_device": pci_device(nic),
            "link": link(nic),
            "link_bits_per_second": bits_per_second(nic),
            "rdma": os.path.basename(nic.rdma) if nic.rdma else "none",
            "numa_node": numa_node(nic),
        }
        for quantity, value in values.items():
            if value is not None:
                yield context.reading(quantity, value, subject=nic.subject, source=SOURCE)
        if nic.rdma_port:
            for which, name in (("state", "state"), ("physical", "phys_state")):
                word = text(nic.rdma_port, name).partition(":")[2].strip().lower() or "unknown"
                yield context.reading("rdma_state", word, subject=nic.subject, source=SOURCE, which=which)
        for counter, value in counters(nic).items():
            _BASELINE[nic.subject, counter] = value
            yield context.reading(
                "errors_total", value, subject=nic.subject, source=SOURCE, counter=counter, when="history"
            )


def differences(context: Any, sysfs: str) -> Iterator[Reading]:
    """Counters now against the ones `facts` saw; one that fell was reset and counts from zero."""
    for nic in nics.cards(sysfs):
        for counter, value in counters(nic).items():
            before = _BASELINE.get((nic.subject, counter))
            if before is not None:
                grown = value - before if value >= before else value
                yield context.reading(
                    "errors_total", grown, subject=nic.subject, source=SOURCE, counter=counter, when="audit"
                )


def kind(nic: Nic) -> str:
    """ethernet, infiniband, roce or virtual."""
    if driver(nic) in _VIRTUAL_DRIVERS or nic.pci is None:
        return "virtual"
    layer = text(nic.rdma_port, "link_layer").lower() if nic.rdma_port else ""
    if layer == "infiniband" or (nic.net and text(nic.net, "type") == nics.INFINIBAND):
        return "infiniband"
    return "roce" if layer == "ethernet" else "ethernet"


def driver(nic: Nic) -> str:
    """The kernel driver's name, `unknown` where sysfs does not say."""
    path = os.path.join(nic.net or nic.rdma or "", "device", "driver")
    return os.path.basename(os.path.realpath(path)) if os.path.exists(path) else "unknown"


def pci_device(nic: Nic) -> Optional[str]:
    """`vendor:device` of the PCI function; None for a device without one."""
    folder = function(nic)
    vendor, number = text(folder, "vendor"), text(folder, "device")
    return (
        "%s:%s" % (vendor[2:], number[2:]) if folder and vendor.startswith("0x") and number.startswith("0x") else None
    )


def function(nic: Nic) -> str:
    """The folder of the card's PCI function; a virtio device lies below it. Empty for a device without one."""
    path = os.path.realpath(os.path.join(nic.net or nic.rdma or "", "device"))
    above, address, _ = path.partition("/%s" % nic.pci) if nic.pci else ("", "", "")
    return above + address


def link(nic: Nic) -> str:
    """up, down or unknown: the carrier of the interface, else the state of the RDMA port."""
    if nic.net:
        carrier = text(nic.net, "carrier")
        if carrier in ("0", "1"):
            return "up" if carrier == "1" else "down"
        if text(nic.net, "operstate") == "down":
            return "down"  # an interface that is switched off refuses to tell its carrier
    if nic.rdma_port:
        state = text(nic.rdma_port, "state").partition(":")[2].strip().upper()
        if state:
            return "up" if state == "ACTIVE" else "down"
    return "unknown"


def bits_per_second(nic: Nic) -> Optional[float]:
    """The negotiated rate; None where the link is down or the device has no rate (virtio)."""
    if nic.rdma_port:
        match = re.match(r"([\d.]+) Gb/sec", text(nic.rdma_port, "rate"))
        if match:
            return float(match.group(1)) * 1e9
    speed = text(nic.net, "speed") if nic.net else ""
    # -1 and 4294967295: the driver does not know.
    return float(speed) * 1e6 if speed.isdigit() and 0 < int(speed) < 2**31 else None


def numa_node(nic: Nic) -> Optional[int]:
    """The card's NUMA node, -1 where the firmware or a hypervisor hides it."""
    folder = function(nic)
    number = text(folder, "numa_node") if folder else ""
    return int(number) if re.fullmatch(r"-?\d+", number) else None


def counters(nic: Nic) -> Dict[str, int]:
    """Error counters by name; those the driver does not have are left out."""
    found: Dict[str, int] = {}
    for folder, names in ((nic.net, NET_COUNTERS), (nic.rdma_port, RDMA_COUNTERS)):
        for name in names if folder else ():
            value = text(str(folder), "statistics" if folder == nic.net else "counters", name)
            if value.isdigit():
                found[name] = int(value)
    return found
