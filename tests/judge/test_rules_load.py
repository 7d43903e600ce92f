"""Rates, clocks, power and heat: judged under load, with their own spread, and only where a source says how much."""

from __future__ import annotations

import dataclasses

import pytest

from auditor.records import Record
from tests import builders
from tests.builders import NVML, SYSFS, added, changed, reading, without
from tests.judge.faults import chain, on, slow, times
from tests.judge.judged import METAL_H200, found, ids, one

H200 = builders.healthy(gpus=2)
ONE = builders.healthy(gpus=1)


def with_spread(record: Record, metric: str, spread: float) -> Record:
    """The record with another spread on a metric's readings."""
    rows = (dataclasses.replace(r, spread=spread) if r.metric == metric else r for r in record.readings)
    return dataclasses.replace(record, readings=tuple(rows))


def test_a_rate_that_varies_by_itself_is_given_the_benefit() -> None:
    """10 % below the line with a spread of 10 % accuses nobody."""
    low = slow(0.87)(ONE)
    assert "matmul-low" in ids(one(low))
    assert "matmul-low" not in ids(one(with_spread(low, "matmul_sustained_flops_per_second", 0.10)))


def test_the_worst_dtype_is_named() -> None:
    """One finding for all dtypes, with the one that falls shortest of its own expectation."""
    low = on("matmul_sustained_flops_per_second", times(0.5), dtype="fp16")(slow(0.8)(ONE))
    assert found(one(low), "matmul-low").parameters["dtype"] == "fp16"


def test_models_without_published_figures_are_held_against_a_share_of_spec() -> None:
    """An L4 has no sustained figure: the lowest share any healthy card was published with is its line."""
    record = builders.healthy("L4", gpus=1)
    finding = found(one(slow(0.7)(record)), "matmul-low")
    assert finding.basis == "spec"
    assert "lowest published share" in finding.source
    assert "matmul-low" not in ids(one(record))


def test_a_small_cube_is_used_when_the_large_one_was_too_slow() -> None:
    """A GPU so slow that the probe took a smaller product does not slip through."""
    rows = tuple(
        dataclasses.replace(r, conditions=r.conditions | {"n": 4096}, value=5e12)
        if r.metric == "matmul_sustained_flops_per_second" and r.conditions["dtype"] == "bf16"
        else r
        for r in ONE.readings
    )
    assert "matmul-low" in ids(one(dataclasses.replace(ONE, readings=rows)))


def test_impossible_figures_leave_averages_and_rankings() -> None:
    """A rate above what the model can do is a finding, and None in the figures."""
    record = on("matmul_sustained_flops_per_second", 1.5e15, "gpu0", dtype="bf16")(H200)
    result = one(record, "2x H200 nvswitch")
    assert found(result, "figure-implausible").severity == "review"
    assert result.gpus[0].figures["matmul_bf16_sustained"] is None
    assert result.figures["flops_delivered"] is None
    assert "not measured: compute" in str(result.scores[0].not_comparable)
    fast = on("memory_bandwidth_bytes_per_second", 5.5e12, op="write")(ONE)
    assert "figure-implausible" in ids(one(fast))
    stranger = chain(on("gpu_identity_pci_device", "10de:ffff"), on("gpu_identity_name", "NVIDIA Z"))(record)
    assert "figure-implausible" not in ids(one(stranger))


def test_work_per_clock_of_other_types() -> None:
    """FP8 has twice the formula; vector types run at another clock and are not held against it."""
    for dtype, value, hit in (("fp8", 8300.0, True), ("fp8", 7500.0, False), ("fp32", 9000.0, False)):
        record = added(ONE, reading("matmul_flops_per_clock_per_sm", value, "gpu0", dtype=dtype, n_=8192))
        assert ("per-clock-impossible" in ids(one(record))) is hit
    odd = added(ONE, reading("matmul_flops_per_clock_per_sm", 9e9, "gpu0", dtype="int3", n_=8192))
    assert "per-clock-impossible" not in ids(one(odd))


def test_results_that_differ_between_repeats() -> None:
    """Silent corruption is a reject on the GPU."""
    record = added(ONE, reading("matmul_mismatches_total", 4, "gpu0", dtype="bf16"))
    assert found(one(record), "wrong-results").severity == "reject"
    right = added(ONE, reading("matmul_mismatches_total", 0, "gpu0", dtype="bf16"))
    assert "wrong-results" not in ids(one(right))


def test_memory_of_small_buffers_is_not_judged() -> None:
    """Below 1 GiB the rate speaks of launch and cache."""
    low = on("memory_bandwidth_bytes_per_second", times(0.5))(ONE)
    assert "memory-bandwidth-low" in ids(one(low))
    rows = (
        dataclasses.replace(r, conditions=r.conditions | {"bytes": 16777216}) if "memory_bandwidth" in r.metric else r
        for r in low.readings
    )
    assert "memory-bandwidth-low" not in ids(one(dataclasses.replace(low, readings=tuple(rows))))


def test_host_copies_of_all_gpus_are_one_finding() -> None:
    """Both GPUs slow: the server; gen 3 has its own line, and a gen 6 card in a gen 5 host is whole."""
    record = on("host_copy_bytes_per_second", times(0.6))(H200)
    assert found(one(record), "host-copy-low").subject == "server"
    old = builders.healthy("T4", gpus=1)
    assert "host-copy-low" not in ids(one(on("host_copy_bytes_per_second", times(0.8))(old)))
    finding = found(one(on("host_copy_bytes_per_second", times(0.5))(old)), "host-copy-low")
    assert (finding.subject, finding.severity, finding.parameters["expected"]) == ("gpu0", "review", 11.1e9)
    newest = on("host_copy_pcie_generation", 5)(builders.healthy("B300 SXM6 288GB", gpus=1))
    assert not ids(one(newest)) & {"host-copy-low", "pcie-gen-low"}


def test_copies_beside_others_are_not_held_against_the_link() -> None:
    """While all GPUs copy over one uplink, half the rate is no fault."""
    shared = reading(
        "host_copy_bytes_per_second", 2e10, "gpu0", direction="h2d", memory="pinned", bytes=268435456, load="all"
    )
    assert "host-copy-low" not in ids(one(added(H200, shared)))


@pytest.mark.parametrize("guest", [False, True])
def test_a_link_that_is_told_low_but_copies_well(guest: bool) -> None:
    """What the port says counts only when the copies show it; in a guest the root port lies."""
    record = builders.healthy(gpus=1, guest=guest, nvlink=False)
    told = on("host_copy_pcie_generation", 1)(record)
    assert not ids(one(told)) & {"pcie-gen-low", "host-copy-low"}
    shown = on("host_copy_bytes_per_second", times(0.4))(told)
    assert "pcie-gen-low" in ids(one(shown))


def test_a_link_told_low_without_any_copy() -> None:
    """On metal the port's word under load is enough for a review; in a guest it is nothing."""
    for guest, hit in ((False, True), (True, False)):
        record = without(builders.healthy(gpus=1, guest=guest, nvlink=False), "host_copy_bytes_per_second")
        told = on("host_copy_pcie_width_lanes", 4)(record)
        assert ("pcie-width-low" in ids(one(told))) is hit


def test_an_upstream_port_that_is_narrow() -> None:
    """The bottleneck may be a switch port above the card."""
    record = on("host_copy_bytes_per_second", times(0.5))(ONE)
    record = added(record, reading("host_copy_pcie_width_lanes", 8, "gpu0", SYSFS, port="0000:16:00.0"))
    assert found(one(record), "pcie-width-low").parameters["port"] == "0000:16:00.0"


def test_idle_generations_are_never_judged() -> None:
    """Gen 1 at rest is how links save power."""
    rest = on("topology_pcie_generation", 1, which="current")(H200)
    assert one(rest, "2x H200 nvswitch").verdict == "accept"


def test_power_limits() -> None:
    """Set in the driver, or enforced from elsewhere; a higher limit and a custom board are no fault."""
    enforced = changed(ONE, "gpu_identity_power_limit_watts", 500.0, which="enforced")
    assert found(one(enforced), "power-capped").parameters["where"] == "enforced by module or BMC"
    set_low = changed(ONE, "gpu_identity_power_limit_watts", 500.0, which="now")
    assert found(one(set_low), "power-capped").parameters["where"] == "set in the driver"
    for limits in ({"now": 750.0}, {"now": 500.0, "default": 500.0, "enforced": 500.0}):
        record = ONE
        for which, watts in limits.items():
            record = changed(record, "gpu_identity_power_limit_watts", watts, which=which)
        assert "power-capped" not in ids(one(record))
    assert "power-capped" not in ids(one(without(ONE, "gpu_identity_power_limit_watts", which="default")))


def test_application_clocks_below_their_default() -> None:
    """Application clocks that somebody lowered, of SMs or memory."""
    for kind in ("sm", "memory"):
        record = added(
            ONE,
            reading(f"gpu_identity_{kind}_clock_hertz", 1.2e9, "gpu0", NVML, which="application"),
            reading(f"gpu_identity_{kind}_clock_hertz", 1.5e9, "gpu0", NVML, which="default_application"),
        )
        assert found(one(record), "clock-locked").parameters["expected"] == 1.5e9


def test_a_low_clock_with_a_reason_is_not_locked() -> None:
    """Under the power cap clocks fall by design; without any reason reading nothing is claimed."""
    low = chain(on("thermal_sm_clock_hertz", times(0.6)), on("thermal_watts", times(0.6)))(ONE)
    assert "clock-locked" not in ids(one(low))
    silent = without(low, "thermal_event_reason_ratio")
    assert "clock-locked" not in ids(one(silent))
    idle = chain(on("thermal_event_reason_ratio", 0.0), lambda r: without(r, "thermal_watts"))(low)
    assert "clock-locked" not in ids(one(idle))
    hungry = chain(on("thermal_event_reason_ratio", 0.0), on("thermal_watts", 700.0, stat="mean"))(low)
    assert "clock-locked" not in ids(one(hungry))


def test_reasons_pasted_from_text_count() -> None:
    """`Active` in an nvidia-smi dump is the driver's word at one moment."""
    record = added(ONE, reading("gpu_health_event_reason", True, "gpu0", "text/nvidia-smi", reason="hw_power_brake"))
    assert found(one(record), "power-brake").severity == "reject"
    calm = added(ONE, reading("gpu_health_event_reason", False, "gpu0", "text/nvidia-smi", reason="hw_power_brake"))
    assert "power-brake" not in ids(one(calm))


def test_heat_counts_only_when_it_costs() -> None:
    """84 degrees without a thermal reason or lost rate is no finding; without a steady value the maximum is used."""
    warm = chain(on("thermal_gpu_celsius", 84.0, stat="max"), on("thermal_gpu_celsius", 83.0, stat="steady"))(ONE)
    assert not ids(one(warm)) & {"temperature-above-floor", "hotter-than-siblings"}
    losing = on("thermal_flops_per_second", times(0.9), window="last")(warm)
    assert found(one(losing), "temperature-above-floor").basis == "floor"
    unsteady = without(losing, "thermal_gpu_celsius", stat="steady")
    assert found(one(unsteady), "temperature-above-floor").parameters["measured"] == 84.0
    blind = without(losing, "thermal_flops_per_second", window="first")
    assert "temperature-above-floor" not in ids(one(blind))


def test_one_gpu_much_hotter_than_its_siblings() -> None:
    """15 degrees above the median of the others, with a price: airflow or paste of this one."""
    hot = chain(
        on("thermal_gpu_celsius", 78.0, "gpu0", stat="steady"),
        on("thermal_flops_per_second", times(0.9), "gpu0", window="last"),
    )(H200)
    finding = found(one(hot), "hotter-than-siblings")
    assert finding.basis == "siblings"
    assert finding.subject == "gpu0"
    near = on("thermal_gpu_celsius", 66.0, "gpu0", stat="steady")(hot)
    assert "hotter-than-siblings" not in ids(one(near))
    alone = chain(
        on("thermal_gpu_celsius", 78.0, stat="steady"), on("thermal_flops_per_second", times(0.9), window="last")
    )(ONE)
    assert "hotter-than-siblings" not in ids(one(alone))


def test_compute_modes() -> None:
    """Exclusive is advice, prohibited a review, default nothing."""
    for mode, severity in (("exclusive_process", "advice"), ("prohibited", "review")):
        record = on("gpu_identity_compute_mode", mode)(ONE)
        assert found(one(record), "compute-mode-restricted").severity == severity
    assert "compute-mode-restricted" not in ids(one(ONE))


def test_sharing_signs() -> None:
    """A visible process explains memory and load; a few gaps are noise; without a watch nothing is claimed."""
    held = on("gpu_identity_memory_used_bytes", 5e9)(ONE)
    assert "shared-gpu" in ids(one(held))
    assert "shared-gpu" not in ids(one(on("gpu_identity_processes_total", 1)(held)))
    assert "shared-gpu" not in ids(one(on("time_slicing_gaps_total", 40)(ONE)))
    assert "shared-gpu" not in ids(
        one(without(on("time_slicing_gaps_total", 40000)(ONE), "time_slicing_watch_seconds"))
    )
    assert found(one(on("time_slicing_gaps_total", 11880)(ONE)), "shared-gpu").severity == "review"


def test_text_where_a_figure_should_be_is_nothing() -> None:
    """A hostile record with words for figures is silent, not a crash."""
    record = H200
    for metric in {r.metric for r in H200.readings if r.source == "measured"}:
        record = on(metric, "very fast")(record)
    result = one(record, METAL_H200)
    assert result.verdict in ("reject", "incomplete")
    assert all(f.category != "underperforming" for f in result.findings)
