"""Probe `network_interfaces` and the order of the cards, over a sysfs made of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.probes import network_interfaces
from auditor.probes.engine import nics

from .desk import desk, values


class Sysfs:
    """A /sys of our own: PCI functions with drivers, interfaces and RDMA ports on them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "class/net").mkdir(parents=True)

    def function(self, pci: str, vendor: str = "0x15b3", device: str = "0x1021", driver: str = "mlx5_core") -> Path:
        """A PCI function with its driver and NUMA node."""
        folder = self.root / "devices/pci0000:00" / pci
        folder.mkdir(parents=True, exist_ok=True)
        self._write(folder, vendor=vendor, device=device, numa_node="1")
        (self.root / "bus/drivers" / driver).mkdir(parents=True, exist_ok=True)
        if not (folder / "driver").exists():
            (folder / "driver").symlink_to(self.root / "bus/drivers" / driver)
        return folder

    def interface(self, name: str, device: Path | None, **files: str) -> Path:
        """A network interface, on a device or on none."""
        place = (device or self.root / "devices/virtual") / "net" / name
        place.mkdir(parents=True)
        self._write(place, **{"type": "1", **files})
        if device is not None:
            (place / "device").symlink_to(device)
        (self.root / "class/net" / name).symlink_to(place)
        return place

    def rdma(self, name: str, device: Path, port: int = 1, **files: str) -> Path:
        """A port of an RDMA device."""
        place = device / "infiniband" / name
        folder = place / "ports" / str(port)
        folder.mkdir(parents=True)
        self._write(folder, **files)
        if not (place / "device").exists():
            (place / "device").symlink_to(device)
        self.root.joinpath("class/infiniband").mkdir(exist_ok=True)
        if not (self.root / "class/infiniband" / name).exists():
            (self.root / "class/infiniband" / name).symlink_to(place)
        return folder

    @staticmethod
    def _write(folder: Path, **files: str) -> None:
        for name, text in files.items():
            (folder / name).write_text(text + "\n", encoding="ascii")


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    """An empty machine."""
    return Sysfs(tmp_path / "sys")


IB_UP = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}
IB_DOWN = {"state": "1: DOWN", "phys_state": "3: Disabled", "rate": "10 Gb/sec (4X SDR)", "link_layer": "InfiniBand"}


def test_cards_are_ordered_by_pci_address_and_virtual_ones_come_last(sysfs: Sysfs) -> None:
    """nic0 is the lowest PCI address; loopback, bridges and pairs are no cards."""
    sysfs.interface("lo", None, type="772")
    sysfs.interface("docker0", None)
    virtual = sysfs.root / "devices/virtio9"
    virtual.mkdir(parents=True)
    sysfs.interface("eth9", virtual)
    sysfs.interface("zz0", sysfs.function("0000:0a:00.0"))
    sysfs.rdma("mlx5_0", sysfs.function("0000:19:00.0"), **IB_UP)
    found = nics.cards(str(sysfs.root))
    assert [(nic.subject, nic.name) for nic in found] == [("nic0", "zz0"), ("nic1", "mlx5_0"), ("nic2", "eth9")]


def test_interface_and_rdma_device_of_one_port_are_one_card(sysfs: Sysfs) -> None:
    """IP over InfiniBand is the same card as its RDMA port; a second port of the function is a second card."""
    function = sysfs.function("0000:19:00.0")
    sysfs.interface("ib0", function, type="32", dev_port="0")
    sysfs.rdma("mlx5_0", function, 1, **IB_UP)
    sysfs.rdma("mlx5_0", function, 2, **IB_DOWN)
    found = nics.cards(str(sysfs.root))
    assert [(nic.name, nic.rdma_port and nic.rdma_port[-1]) for nic in found] == [("ib0", "1"), ("mlx5_0", "2")]


def test_an_infiniband_card_in_order(tmp_path: Path, sysfs: Sysfs) -> None:
    """Kind, driver, ids, link, rate, RDMA device and NUMA node, all from sysfs."""
    sysfs.rdma("mlx5_3", sysfs.function("0000:19:00.0"), **IB_UP)
    with desk("network_interfaces", tmp_path) as at:
        readings = {r.metric: r.value for r in network_interfaces.facts(at.context, str(sysfs.root))}
    assert readings["network_interfaces_kind"] == "infiniband"
    assert readings["network_interfaces_driver"] == "mlx5_core"
    assert readings["network_interfaces_pci_device"] == "15b3:1021"
    assert readings["network_interfaces_link"] == "up"
    assert readings["network_interfaces_link_bits_per_second"] == 400e9
    assert readings["network_interfaces_rdma"] == "mlx5_3"
    assert readings["network_interfaces_numa_node"] == 1


def test_an_rdma_device_without_link_is_down(tmp_path: Path, sysfs: Sysfs) -> None:
    """State and physical state are told in words; the rate of a dead port is what the kernel still prints."""
    sysfs.rdma("mlx5_0", sysfs.function("0000:19:00.0"), **IB_DOWN)
    with desk("network_interfaces", tmp_path) as at:
        readings = list(network_interfaces.facts(at.context, str(sysfs.root)))
    assert values(readings, "network_interfaces_link") == ["down"]
    assert values(readings, "network_interfaces_rdma_state", which="state") == ["down"]
    assert values(readings, "network_interfaces_rdma_state", which="physical") == ["disabled"]


def test_a_virtio_card_has_no_rate_and_shows_its_pci_function(tmp_path: Path, sysfs: Sysfs) -> None:
    """A virtio device hangs below its PCI function and answers -1 for its speed: no rate is claimed."""
    function = sysfs.function("0000:00:03.0", "0x1af4", "0x1041", "virtio-pci")
    device = function / "virtio2"
    device.mkdir()
    (sysfs.root / "bus/drivers/virtio_net").mkdir()
    (device / "driver").symlink_to(sysfs.root / "bus/drivers/virtio_net")
    (device / "vendor").write_text("0x1af4\n", encoding="ascii")
    (device / "device").write_text("0x0001\n", encoding="ascii")
    sysfs.interface("eth0", device, carrier="1", speed="-1", operstate="up")
    with desk("network_interfaces", tmp_path) as at:
        readings = list(network_interfaces.facts(at.context, str(sysfs.root)))
    assert values(readings, "network_interfaces_kind") == ["virtual"]
    assert values(readings, "network_interfaces_pci_device") == ["1af4:1041"]
    assert values(readings, "network_interfaces_link") == ["up"]
    assert values(readings, "network_interfaces_link_bits_per_second") == []


def test_an_interface_that_is_switched_off_is_down(tmp_path: Path, sysfs: Sysfs) -> None:
    """Its carrier cannot be read (the kernel answers EINVAL); its operational state says down."""
    sysfs.interface("eth0", sysfs.function("0000:0a:00.0", driver="ice"), operstate="down", speed="4294967295")
    with desk("network_interfaces", tmp_path) as at:
        readings = list(network_interfaces.facts(at.context, str(sysfs.root)))
    assert values(readings, "network_interfaces_link") == ["down"]
    assert values(readings, "network_interfaces_kind") == ["ethernet"]
    assert values(readings, "network_interfaces_link_bits_per_second") == []


def test_roce_is_ethernet_with_an_rdma_device(tmp_path: Path, sysfs: Sysfs) -> None:
    """The link layer of the RDMA port tells RoCE from InfiniBand."""
    function = sysfs.function("0000:0a:00.0")
    sysfs.interface("eth2", function, carrier="1", speed="200000")
    sysfs.rdma("mlx5_1", function, **{**IB_UP, "link_layer": "Ethernet", "rate": "200 Gb/sec (2X HDR)"})
    with desk("network_interfaces", tmp_path) as at:
        readings = list(network_interfaces.facts(at.context, str(sysfs.root)))
    assert values(readings, "network_interfaces_kind") == ["roce"]
    assert values(readings, "network_interfaces_link_bits_per_second") == [200e9]


def test_error_counters_are_history_and_difference(tmp_path: Path, sysfs: Sysfs) -> None:
    """What stood there is history; what came during the audit is the difference; a reset counter counts from zero."""
    place = sysfs.interface("eth0", sysfs.function("0000:0a:00.0"), carrier="1", speed="100000")
    (place / "statistics").mkdir()
    (place / "statistics/rx_errors").write_text("70\n", encoding="ascii")
    (place / "statistics/tx_errors").write_text("9\n", encoding="ascii")
    with desk("network_interfaces", tmp_path) as at:
        before = list(network_interfaces.facts(at.context, str(sysfs.root)))
        (place / "statistics/rx_errors").write_text("75\n", encoding="ascii")
        (place / "statistics/tx_errors").write_text("2\n", encoding="ascii")
        after = list(network_interfaces.differences(at.context, str(sysfs.root)))
    metric = "network_interfaces_errors_total"
    assert values(before, metric, counter="rx_errors", when="history") == [70]
    assert values(after, metric, counter="rx_errors", when="audit") == [5]
    assert values(after, metric, counter="tx_errors", when="audit") == [2]


def test_no_card_is_not_applicable(tmp_path: Path) -> None:
    """A sandbox without /sys/class/net has no cards, which is a reason and no error."""
    assert nics.cards(str(tmp_path)) == []
