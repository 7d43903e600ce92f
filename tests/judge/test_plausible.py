"""Figures that cannot be true are said and never used, whatever they are about; healthy machines have none."""

from __future__ import annotations

import dataclasses

import pytest

from auditor import catalog
from auditor.records import Condition, Value
from tests import builders
from tests.builders import NVML, SYSFS, added, changed, reading
from tests.golden import load
from tests.judge.judged import GUEST_H200, METAL_H200, found, ids, one

H200 = builders.healthy()
PAIR = "gpu0-gpu1"

ABOVE: tuple[tuple[str, str, Value, dict[str, Condition], str | None], ...] = (
    ("peer_copy_bytes_per_second", PAIR, 6.0e11, {}, "beyond-its-links"),  # 450 GB/s one way
    ("host_copy_bytes_per_second", "gpu0", 1.2e11, {"direction": "h2d"}, "beyond-its-links"),  # 64 GB/s one way
    ("collectives_busbw_bytes_per_second", "server", 1.1e12, {}, "beyond-its-links"),
    ("thermal_watts", "gpu0", 1400.0, {"stat": "mean"}, "beyond-measure"),
    ("matmul_watts", "gpu0", 5000.0, {}, "beyond-measure"),
    ("gpu_identity_power_limit_watts", "gpu0", 9000.0, {"which": "max"}, None),
    ("thermal_sm_clock_hertz", "gpu0", 2.6e9, {"stat": "max"}, None),  # 1,980 MHz
    ("gpu_identity_sm_clock_hertz", "gpu0", 9.9e9, {"which": "max"}, None),
    ("gpu_identity_memory_clock_hertz", "gpu0", 9.9e10, {"which": "max"}, "beyond-measure"),
    ("thermal_gpu_celsius", "gpu0", 400.0, {"stat": "max"}, "beyond-measure"),
    ("thermal_memory_celsius", "gpu0", 200.0, {"stat": "max"}, "beyond-measure"),
    ("gpu_identity_utilization_ratio", "gpu0", 97.0, {}, "beyond-measure"),
    ("thermal_event_reason_ratio", "gpu0", 40.0, {"reason": "hw_thermal"}, "beyond-measure"),
)


@pytest.mark.parametrize(("metric", "subject", "value", "where", "variant"), ABOVE)
def test_a_figure_above_what_can_be(
    metric: str, subject: str, value: Value, where: dict[str, Condition], variant: str | None
) -> None:
    """It is for review on its own subject, is told as what it is, and no other finding rests on it."""
    result = one(changed(H200, metric, value, subject, **where), METAL_H200)
    assert result.verdict in ("review", "incomplete")
    finding = found(result, "figure-implausible", subject)
    assert (finding.category, finding.severity, finding.parameters["variant"]) == ("unproven", "review", variant)
    assert float(str(finding.parameters["measured"])) > 1
    assert any(e.metric == metric and e.value == value for e in finding.evidence)
    assert {f.id for f in result.roots if f.severity in ("reject", "review")} == {"figure-implausible"}


BELOW: tuple[tuple[str, str, Value, dict[str, Condition], str | None], ...] = (
    ("peer_copy_bytes_per_second", PAIR, 0, {}, None),
    ("peer_copy_bytes_per_second", PAIR, -3e11, {}, None),
    ("thermal_watts", "gpu0", -5.0, {"stat": "mean"}, None),
    ("thermal_sm_clock_hertz", "gpu0", 0.0, {}, None),
    ("thermal_gpu_celsius", "gpu0", 0, {}, "thermal of gpu0"),
    ("matmul_flops_per_clock_per_sm", "gpu0", -1.0, {}, None),
    ("gpu_identity_memory_bytes", "gpu0", -1, {}, None),
    ("gpu_identity_utilization_ratio", "gpu0", -0.5, {}, None),
    ("time_slicing_gaps_total", "gpu0", -4, {}, None),
    ("latency_launch_seconds", "gpu0", -1e-5, {}, None),
)


@pytest.mark.parametrize(("metric", "subject", "value", "where", "missing"), BELOW)
def test_a_figure_below_what_can_be(
    metric: str, subject: str, value: Value, where: dict[str, Condition], missing: str | None
) -> None:
    """Nothing that counts or measures is below zero, and no rate, clock or power under load is zero."""
    result = one(changed(H200, metric, value, subject, **where), METAL_H200)
    assert result.verdict == ("incomplete" if missing else "review")
    assert missing is None or missing in result.missing
    assert found(result, "figure-implausible", subject).parameters["variant"] == "no-rate"


def test_a_count_below_zero_from_the_counters() -> None:
    """A counter that ran backwards is no health."""
    record = added(H200, reading("gpu_health_pcie_replays_total", -9, "gpu2", NVML, when="audit"))
    assert found(one(record, METAL_H200), "figure-implausible", "gpu2").parameters["what"].startswith("gpu_health")


def test_what_may_be_zero_or_negative() -> None:
    """No gaps, no errors, a hidden NUMA node and a margin that is used up are figures."""
    record = changed(H200, "thermal_slowdown_margin_celsius", -2.0, "gpu0")
    record = changed(record, "gpu_identity_numa_node", -1, "gpu0", SYSFS)
    assert "figure-implausible" not in ids(one(record, METAL_H200))


@pytest.mark.parametrize("model", [m.name for m in catalog.load().models if not m.modded and m.memory_bytes])
def test_no_healthy_model_is_implausible(model: str) -> None:
    """Two GPUs of every model of the catalogue, at the figures it publishes, pass every ceiling."""
    assert "figure-implausible" not in ids(one(builders.healthy(model, 2)))


@pytest.mark.parametrize("name", ["h200-quick", "h200-standard"])
def test_a_real_gpu_is_not_implausible(name: str) -> None:
    """Samples of a real H200 reach 1.2 times its power limit for a moment."""
    assert "figure-implausible" not in ids(one(load(name), GUEST_H200))


def test_a_board_with_a_limit_of_its_own() -> None:
    """Boards sold with another limit than the data sheet's are held against their own, as far as it is believable."""
    custom = changed(H200, "gpu_identity_power_limit_watts", 1000, "gpu0", which="max")
    loaded = changed(custom, "thermal_watts", 1300.0, "gpu0", stat="max")
    assert "figure-implausible" not in ids(one(loaded, METAL_H200))
    assert "figure-implausible" in ids(one(changed(H200, "thermal_watts", 1300.0, "gpu0", stat="max"), METAL_H200))


def test_a_spread_excuses_little() -> None:
    """A record that calls its own figures wide open is held against the lines all the same."""
    rows = tuple(
        dataclasses.replace(r, value=float(r.value) * 0.5, spread=1e9)  # type: ignore[arg-type]  # rates are numbers
        if r.metric in ("matmul_sustained_flops_per_second", "collectives_busbw_bytes_per_second")
        else r
        for r in H200.readings
    )
    result = one(dataclasses.replace(H200, readings=rows), METAL_H200)
    assert result.verdict == "review"
    assert {"matmul-low", "collective-low"} <= ids(result)
