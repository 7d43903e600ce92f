"""What the measuring probes share: spread, laps, products, watch, PCIe and NUMA facts."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from auditor.probes.measuring import counted, exchange, laps, multicast, pcie, pinned, products, rates, spread
from auditor.probes.measuring.watch import POINTS, Track, Watch, steady_from


def test_one_repeat_has_no_spread() -> None:
    """A single figure claims neither a spread nor stability."""
    assert spread.of([5.0]) == spread.Repeats(5.0, None, 1, None)


def test_too_wide_a_spread_is_not_stable() -> None:
    """Repeats that differ by more than the limit say so, narrower ones do not."""
    assert spread.of([100.0, 110.0], 0.01).stable is False
    assert spread.of([100.0, 100.5], 0.01).stable is True


def test_an_unstable_figure_is_taken_once_more_and_only_once() -> None:
    """The second attempt counts, whatever it says."""
    attempts = iter([spread.of([1.0, 2.0]), spread.of([1.0, 3.0])])
    _, kept = spread.steady(lambda: (None, next(attempts)))
    assert kept.value == 2.0 and kept.stable is False


def test_percentiles_are_values_that_were_seen() -> None:
    """Nearest rank: p50 of 1..1000 is 500, p99.9 is 999, the maximum is the last."""
    values = [float(n) for n in range(1, 1001)]
    assert [spread.percentile(values, share) for share in (0.5, 0.99, 0.999, 1.0)] == [500, 990, 999, 1000]


def test_a_window_covers_whole_calls_from_the_first_border_on() -> None:
    """0.25 s in, 1.00 s long: calls of 0.1 s give the ten that end in it, and the host's borders of the same calls."""
    ends = laps.Laps(tuple(n * 0.1 for n in range(21)), tuple(100 + n * 0.1001 for n in range(21)))
    window = ends.window(0.25, 1.0)
    assert window.calls == 10
    assert window.device_seconds == pytest.approx(1.0)
    assert window.host_seconds == pytest.approx(1.001)
    assert window.opened == pytest.approx(100.3003)


def test_a_window_never_holds_less_than_one_call() -> None:
    """A call longer than the window is still one whole call."""
    window = laps.Laps((0.0, 3.0, 6.0), (0.0, 3.0, 6.0)).window(0.25, 1.0)
    assert (window.calls, window.device_seconds) == (1, 3.0)


def test_laps_on_the_cpu_count_every_call() -> None:
    """As many ends as calls, in rising order, for at least the calls asked for."""
    made: list[int] = []
    ends = laps.run(lambda: made.append(1), "cpu", calls=7)
    assert len(made) == len(ends.device) - 1 == 7
    assert list(ends.device) == sorted(ends.device)


def test_laps_stop_when_told() -> None:
    """A stop ends the calls long before the time is up."""
    ends = laps.run(lambda: None, "cpu", seconds=60, stop=lambda: True)
    assert len(ends.device) == 2


@pytest.mark.parametrize("dtype", ["bf16", "fp32", "fp64"])
def test_a_product_of_seeded_data_is_right_and_the_same_again(dtype: str) -> None:
    """The result is within the dtype's own rounding of float64, bit for bit the same twice, and the seed decides it."""
    product = products.make(dtype, 96, 96, 96, "cpu", seed=7)
    first = product.call().clone()
    assert products.mismatches(first, product.call()) == 0
    assert products.error_ratio(product, first, 7) < {"bf16": 5e-3, "fp32": 1e-5, "fp64": 1e-12}[dtype]
    assert products.mismatches(first, products.make(dtype, 96, 96, 96, "cpu", seed=8).call()) > 9000


def test_one_flipped_bit_is_found() -> None:
    """Silent corruption of a single element shows in the bit-for-bit comparison and in the error."""
    product = products.make("fp32", 64, 64, 64, "cpu", seed=1)
    first = product.call().clone()
    bad = first.clone()
    bad[1, 5] *= 1024
    assert products.mismatches(first, bad) == 1
    assert products.error_ratio(product, bad, 1) > 0.1


def test_int8_products_are_exact() -> None:
    """Whole numbers have no rounding: the error is exactly zero."""
    product = products.make("int8", 64, 64, 64, "cpu", seed=1)
    assert products.error_ratio(product, product.call(), 1) == 0.0


def test_precision_is_left_as_found() -> None:
    """The switch between tf32 and true float32 goes back to where it was."""
    import torch

    settings: Any = torch.backends.cuda.matmul
    before = settings.fp32_precision
    with products.precision("tf32"):
        assert settings.fp32_precision == "tf32"
    with products.precision("fp32"):
        assert settings.fp32_precision == "ieee"
    assert settings.fp32_precision == before


def test_a_cpu_multiplies_only_what_makes_sense_there() -> None:
    """fp8 on a CPU is no figure of a GPU; the reason names the dtype."""
    assert products.unavailable("bf16", "cpu") is None
    assert "fp8" in (products.unavailable("fp8", "cpu") or "")


def test_per_clock_is_operations_over_counted_clocks_and_sms() -> None:
    """Two products of 1,000,000 clocks on 2 SMs, an SM without a stamp left out; both counters give the clock."""
    marks = [
        [[10, 1000], [500, 1000], [0, 0]],
        [[1_000_010, 501_000], [1_000_500, 501_000], [7, 501_000]],
        [[2_000_010, 1_001_000], [2_000_500, 1_001_000], [9, 1_001_000]],
    ]
    result = counted._reckon(marks, operations=8e9, sms=2)
    assert result.per_clock == [4000.0, 4000.0]
    assert result.hertz == pytest.approx(2e9)


def test_clocks_that_no_sm_wrote_are_an_error() -> None:
    """No stamp means no figure, not a wrong one."""
    with pytest.raises(RuntimeError, match="no SM"):
        counted._reckon([[[0, 0]], [[0, 0]]], 1e9, 1)


def test_boost_counts_three_calls_and_a_short_window_all() -> None:
    """Rates are operations over time; on a CPU they stay below what any CPU can do and above nothing."""
    product = products.make("fp32", 128, 128, 128, "cpu", seed=1)
    for rate in (rates.boost(product, "cpu"), rates.short(product, "cpu", 0.01).value):
        assert 1e7 < rate < 1e14


def row(t: float, **values: Any) -> SimpleNamespace:
    """A sample with everything unreadable but what is named."""
    fields = dict.fromkeys([*Watch.FIELDS, "event_reasons", "nvlink_bytes"])
    return SimpleNamespace(t=t, **{**fields, **values})


def test_a_watch_sums_up_reasons_extremes_and_counters() -> None:
    """Shares are of the samples that told reasons; a counter gives its growth per second; None is left out."""
    watch = Watch(opened=100.0)
    watch.add([row(100.0 + n, gpu_celsius=40.0 + n, event_reasons=0x4 if n > 4 else 0x1) for n in range(10)])
    watch.add([row(110.0, nvlink_bytes=1000), row(112.0, nvlink_bytes=5000)])
    assert watch.reasons["sw_power_cap"] / watch.reasons_known == 0.5
    assert (watch.tracks["gpu_celsius"].start, watch.tracks["gpu_celsius"].most) == (40.0, 49.0)
    assert watch.tracks["watts"].count == 0
    assert watch.nvlink is not None and watch.nvlink.rate == 2000.0


def test_a_track_of_a_day_stays_short_and_keeps_its_mean() -> None:
    """However many samples, at most 600 points; mean and extremes are of all of them."""
    track = Track()
    for n in range(100_000):
        track.add(float(n), float(n % 100))
    assert POINTS / 2 <= len(track.points) <= POINTS
    assert track.mean == pytest.approx(49.5)
    assert track.points[0] == (0.0, 0.0)


def test_steady_is_when_the_temperature_stays() -> None:
    """A rise over 30 s, then level: steady from where it stays within a degree; a rise to the end is not steady."""
    rising, level = Track(), Track()
    for n in range(120):
        level.add(float(n), min(60.0, 30.0 + n))
        rising.add(float(n), 30.0 + n)
    assert steady_from(level) == 29.0
    assert steady_from(rising) is None


def test_too_few_samples_are_never_steady() -> None:
    """Five samples say nothing about a steady state."""
    track = Track()
    for n in range(5):
        track.add(float(n), 50.0)
    assert steady_from(track) is None


def fake_port(folder: Path, speed: str, width: str) -> None:
    """One PCI device's link files."""
    folder.mkdir(parents=True)
    (folder / "current_link_speed").write_text(speed + "\n")
    (folder / "current_link_width").write_text(width + "\n")


def test_pcie_links_run_from_the_gpu_up_to_its_root_port(tmp_path: Path) -> None:
    """The GPU's own end is "gpu", the ports above carry their addresses; a port that tells nothing is left out."""
    root = tmp_path / "devices/pci0000:00/0000:00:01.0"
    gpu = root / "0000:01:00.0/0000:02:00.0/0000:03:00.0"
    fake_port(gpu, "32.0 GT/s PCIe", "16")
    fake_port_files = {root: ("16.0 GT/s PCIe", "8"), root / "0000:01:00.0": ("Unknown", "255")}
    for folder, (speed, width) in fake_port_files.items():
        (folder / "current_link_speed").write_text(speed)
        (folder / "current_link_width").write_text(width)
    (tmp_path / "bus").mkdir()
    (tmp_path / "bus/0000:03:00.0").symlink_to(gpu)
    (gpu / "numa_node").write_text("1\n")
    found = pcie.links("0000:03:00.0", str(tmp_path / "bus"))
    assert found == [pcie.Link("gpu", 5, 16), pcie.Link("0000:00:01.0", 4, 8)]
    assert pcie.numa_node("0000:03:00.0", str(tmp_path / "bus")) == 1


def test_a_hidden_node_is_none(tmp_path: Path) -> None:
    """-1, or no file at all, is no node."""
    (tmp_path / "0000:03:00.0").mkdir()
    assert pcie.numa_node("0000:03:00.0", str(tmp_path)) is None
    (tmp_path / "0000:03:00.0/numa_node").write_text("-1")
    assert pcie.numa_node("0000:03:00.0", str(tmp_path)) is None
    assert pcie.links("0000:03:00.0", str(tmp_path)) == []


def test_near_and_far_follow_the_distances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three nodes the farthest by the kernel's own distances; one node, or a hidden one, is "any"."""
    cpu = min(os.sched_getaffinity(0))
    for node, row_text in enumerate(("10 12 32", "12 10 20", "32 20 10")):
        folder = tmp_path / f"node{node}"
        folder.mkdir()
        (folder / "cpulist").write_text(f"{cpu}\n")
        (folder / "distance").write_text(row_text)
    monkeypatch.setattr(pinned, "_NODES", str(tmp_path))
    assert pinned.near_and_far(0) == [("near", 0), ("far", 2)]
    assert pinned.near_and_far(None) == [("any", None)]
    assert pinned.near_and_far(7) == [("any", None)]


def test_a_thread_goes_back_to_its_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Touching memory on a node's CPUs leaves the affinity as it was; CPUs that are not ours change nothing."""
    before = os.sched_getaffinity(0)
    (tmp_path / "node0").mkdir()
    (tmp_path / "node0/cpulist").write_text(f"{min(before)}")
    monkeypatch.setattr(pinned, "_NODES", str(tmp_path))
    with pinned.on_node(0):
        assert os.sched_getaffinity(0) == {min(before)}
    with pinned.on_node(9):
        assert os.sched_getaffinity(0) == before
    assert os.sched_getaffinity(0) == before


def test_pageable_memory_is_zeroed_and_given_back() -> None:
    """A buffer that is not pinned needs no GPU, holds zeros, and its mapping is closed."""
    with pinned.buffer(1 << 20, pin=False) as host:
        assert int(host.sum()) == 0 and host.numel() == 1 << 20
        del host


def test_bus_factors_are_nccl_tests() -> None:
    """Factors of doc/PERFORMANCE.md for eight ranks."""
    factors = [exchange.bus_factor(op, 8) for op in exchange.OPS]
    assert factors == [1.75, 0.875, 0.875, 1.0, 0.875, 1.0]


def test_elements_are_shared_evenly() -> None:
    """400 MB over 7 ranks: cut to a multiple of 7, never fewer than one each."""
    assert exchange.elements(400_000_000, "float32", 7) % 7 == 0
    assert exchange.elements(1, "bf16", 16) == 16


def test_nccl_said_what_it_chose() -> None:
    """Channels, multicast and transports are read out of NCCL's log; an empty log says nothing."""
    log = (
        "h:1:2 [0] NCCL INFO NVLS multicast support is not available on dev 0\n"
        "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
        "h:1:2 [0] NCCL INFO 24 coll channels, 0 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels\n"
    )
    assert multicast.heard(log) == (
        "24 coll, 0 nvls, 32 p2p channels; NVLS multicast not available; via P2P/CUMEM/read"
    )
    assert multicast.heard("") == ""


def test_a_setting_that_forbids_multicast_is_believed() -> None:
    """NCCL_NVLS_ENABLE=0 means no NVLS, whatever the device offers."""
    assert multicast.usable({"NCCL_NVLS_ENABLE": "0"}) is False
