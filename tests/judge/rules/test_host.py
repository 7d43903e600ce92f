"""The host's figures, from the kernel's files to findings: steal, quota, network links, storage."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from auditor.finding import ServerResult
from auditor.probes import network_interfaces, steal_time
from auditor.probes.engine import nics
from auditor.records import Reading, Record, Subject
from tests import builders
from tests.builders import SYSFS, added, changed, reading
from tests.judge.judged import METAL_H200, found, ids, one
from tests.probes.desk import desk
from tests.probes.test_network_interfaces import IB_DOWN, IB_UP, Sysfs

HEALTHY = builders.healthy("H200 SXM5 141GB")
ORDER = {"gpu": "H200", "gpus": 8, "interconnect": "nvswitch", "bare_metal": True}


def _stat(folder: Path, stolen: int, total: int) -> str:
    (folder / "stat").write_text(f"cpu  {total - stolen} 0 0 0 0 0 0 {stolen} 0 0\n", encoding="ascii")
    return str(folder)


def watched(tmp_path: Path, stolen: int, seconds: float, throttled: int = 0) -> ServerResult:
    """The result of a window in which of 10,000 ticks so many were stolen and of 100 periods so many throttled."""
    start = {"ticks": steal_time.cpu_ticks(_stat(tmp_path, 5, 1000)), "quota": (7, 50)}
    ticks = steal_time.cpu_ticks(_stat(tmp_path, 5 + stolen, 11_000))
    with desk("steal_time", tmp_path) as at:
        rows = list(steal_time.window(at.context, start, ticks, (7 + throttled, 150), seconds))
    return one(added(HEALTHY, *rows), METAL_H200)


def test_stolen_time_is_advice(tmp_path: Path) -> None:
    """More than 1 % over 30 s or more: a noisy host."""
    finding = found(watched(tmp_path, 250, 45.0), "steal-time")
    assert (finding.severity, finding.parameters["measured"], finding.parameters["window"]) == ("advice", 0.025, 45.0)


@pytest.mark.parametrize(("stolen", "seconds"), [(0, 45.0), (100, 45.0), (250, 12.0)])
def test_little_steal_or_a_short_window_is_no_finding(tmp_path: Path, stolen: int, seconds: float) -> None:
    """Up to 1 %, or watched for less than 30 s; zero is no finding and proves nothing."""
    assert "steal-time" not in ids(watched(tmp_path, stolen, seconds))


def test_a_quota_that_is_used_up_is_advice(tmp_path: Path) -> None:
    """20 of 100 periods were cut short."""
    finding = found(watched(tmp_path, 0, 45.0, throttled=20), "cpu-throttled")
    assert (finding.severity, finding.parameters["measured"]) == ("advice", 0.2)
    assert "cpu-throttled" not in ids(watched(tmp_path, 0, 45.0, throttled=1))


def _with(record: Record, metric: str, value: float) -> Record:
    if any(r.metric == metric for r in record.readings):
        return changed(record, metric, value)
    return added(record, reading(metric, value, source=SYSFS))


def test_few_processors_for_the_gpus_are_advice() -> None:
    """Six for each GPU are the line; the cgroup's quota counts too."""
    few = _with(HEALTHY, "server_facts_cpus_total", 47)
    finding = found(one(few, METAL_H200), "cpu-side")
    assert (finding.severity, finding.parameters["measured"], finding.parameters["expected"]) == ("advice", 47, 48)
    quota = _with(_with(HEALTHY, "server_facts_cpus_total", 192), "server_facts_cpu_quota_total", 16)
    assert found(one(quota, METAL_H200), "cpu-side").parameters["measured"] == 16
    assert "cpu-side" not in ids(one(_with(HEALTHY, "server_facts_cpus_total", 48), METAL_H200))


def test_an_ordered_number_of_processors_is_the_orders_business() -> None:
    """Who orders 32 CPUs gets no advice about 32 CPUs."""
    few = _with(HEALTHY, "server_facts_cpus_total", 32)
    assert "cpu-side" not in ids(one(few, {**ORDER, "cpus": 32}))


def test_less_memory_than_the_gpus_have_is_advice() -> None:
    """A terabyte and more of GPU memory behind half a terabyte of host memory."""
    small = _with(HEALTHY, "server_facts_memory_bytes", 512e9)
    finding = found(one(small, METAL_H200), "ram-below-gpu-memory")
    assert finding.severity == "advice"
    assert "ram-below-gpu-memory" not in ids(one(_with(HEALTHY, "server_facts_memory_bytes", 2e12), METAL_H200))


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    """An empty machine."""
    return Sysfs(tmp_path / "sys")


def networked(tmp_path: Path, sysfs: Sysfs, order: object = METAL_H200, later: bool = False) -> ServerResult:
    """The result for a healthy server with the cards of this sysfs; `later` adds the differences since then."""
    root = str(sysfs.root)
    with desk("network_interfaces", tmp_path) as at:
        rows: list[Reading] = [] if later else list(network_interfaces.facts(at.context, root))
        if later:
            rows = [*network_interfaces.differences(at.context, root)]
    cards = tuple(Subject(nic.subject, "nic", index) for index, nic in enumerate(nics.cards(root)))
    record = dataclasses.replace(HEALTHY, subjects=HEALTHY.subjects + cards)
    return one(added(record, *rows), order)


def _cards(sysfs: Sysfs, *states: dict[str, str]) -> None:
    for index, state in enumerate(states):
        sysfs.rdma(f"mlx5_{index}", sysfs.function(f"0000:{0x19 + index:02x}:00.0"), **state)


def test_a_dead_rdma_port_beside_live_ones_is_advice(tmp_path: Path, sysfs: Sysfs) -> None:
    """Nobody ordered a number of cards: siblings that are up tell that it should be too."""
    _cards(sysfs, IB_UP, IB_UP, IB_DOWN)
    result = networked(tmp_path, sysfs)
    finding = found(result, "ib-down", "nic2")
    assert (finding.severity, finding.parameters["up"], finding.parameters["of"]) == ("advice", 2, 3)


def test_a_dead_card_that_was_ordered_is_to_be_repaired(tmp_path: Path, sysfs: Sysfs) -> None:
    """Eight of 400 Gbit/s ordered, one has no link."""
    _cards(sysfs, *[IB_UP] * 7, IB_DOWN)
    result = networked(tmp_path, sysfs, {**ORDER, "nics": {"count": 8, "gbps": 400}})
    finding = found(result, "ib-down", "nic7")
    assert (finding.severity, finding.basis) == ("review", "order")


def test_a_spare_ethernet_port_without_a_cable_is_information(tmp_path: Path, sysfs: Sysfs) -> None:
    """A second port of the management card."""
    sysfs.interface("eth0", sysfs.function("0000:0a:00.0", driver="ice"), carrier="1", speed="25000")
    sysfs.interface("eth1", sysfs.function("0000:0a:00.1", driver="ice"), operstate="down")
    assert found(networked(tmp_path, sysfs), "ib-down", "nic1").severity == "info"


def test_a_slow_link_is_held_against_the_order(tmp_path: Path, sysfs: Sysfs) -> None:
    """200 of 400 Gbit/s on one of two cards."""
    _cards(sysfs, IB_UP, {**IB_UP, "rate": "200 Gb/sec (4X HDR)"})
    result = networked(tmp_path, sysfs, {**ORDER, "nics": {"count": 2, "gbps": 400}})
    finding = found(result, "nic-rate-low", "nic1")
    assert (finding.severity, finding.parameters["measured"], finding.parameters["expected"]) == ("review", 2e11, 4e11)


def test_slow_cards_beside_the_ordered_ones_are_no_finding(tmp_path: Path, sysfs: Sysfs) -> None:
    """One card of 400 Gbit/s was ordered and is there; another of 200 may be there too."""
    _cards(sysfs, IB_UP, {**IB_UP, "rate": "200 Gb/sec (4X HDR)"})
    result = networked(tmp_path, sysfs, {**ORDER, "nics": {"count": 1, "gbps": 400}})
    assert {"nic-rate-low", "nics-short"} & ids(result) == set()


@pytest.mark.parametrize(
    ("counter", "severity"), [("link_downed", "review"), ("symbol_error", "advice"), ("port_rcv_errors", "advice")]
)
def test_rdma_errors_during_the_audit(tmp_path: Path, sysfs: Sysfs, counter: str, severity: str) -> None:
    """A link that went down while we worked asks for a repair, single errors for a look."""
    _cards(sysfs, IB_UP)
    port = sysfs.root / "class/infiniband/mlx5_0/ports/1/counters"
    port.mkdir()
    (port / counter).write_text("5\n", encoding="ascii")
    assert "nic-errors" not in ids(networked(tmp_path, sysfs))
    (port / counter).write_text("6\n", encoding="ascii")
    finding = found(networked(tmp_path, sysfs, later=True), "nic-errors", "nic0")
    assert (finding.severity, finding.parameters["measured"]) == (severity, 1)


def test_storage_through_the_cache_is_told() -> None:
    """tmpfs or an overlay without O_DIRECT: the figure is the memory's."""
    rows = [
        reading("storage_bytes_per_second", 9e9, op="write", pattern="sequential", direct=False, tool="own"),
        reading("storage_file_system", "overlay", source=SYSFS, path="/data"),
    ]
    finding = found(one(added(HEALTHY, *rows), METAL_H200), "storage-not-direct")
    assert (finding.severity, finding.parameters["file_system"]) == ("info", "overlay")
    direct = reading("storage_bytes_per_second", 9e9, op="write", pattern="sequential", direct=True, tool="own")
    assert "storage-not-direct" not in ids(one(added(HEALTHY, direct), METAL_H200))
