"""The records of a real H200: readable, complete, neutral, and explained metric by metric."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from auditor.reading import Read, read_file
from auditor.records import Record

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = sorted(Path(__file__).parent.glob("h200-*.json"))


def record(profile: str) -> Record:
    """One of the two records."""
    answer = read_file(Path(__file__).parent / f"h200-{profile}.json")
    assert isinstance(answer, Read), answer
    assert answer.unknown_keys == 0
    return answer.record


def one(found: Record, metric: str, **conditions: object) -> float:
    """The only value of a metric under these conditions."""
    values = [r.value for r in found.readings if r.metric == metric and conditions.items() <= r.conditions.items()]
    assert len(values) == 1, (metric, conditions, values)
    value = values[0]
    assert isinstance(value, (int, float))
    return float(value)


def test_both_profiles_are_there() -> None:
    """quick and standard, of a real machine."""
    assert [path.name for path in GOLDEN] == ["h200-quick.json", "h200-standard.json"]
    assert not record("quick").synthetic and not record("standard").synthetic


@pytest.mark.parametrize("profile", ["quick", "standard"])
def test_every_probe_of_a_single_gpu_was_measured(profile: str) -> None:
    """What was not measured cannot apply to one GPU, or needs a tool that is not there."""
    for row in record(profile).probes:
        assert row.status == "measured" or row.reason in (
            "needs two GPUs",
            "one GPU: nothing to exchange",
            "dcgmi is not installed",
            "all_reduce_perf is not installed",
        ), row


@pytest.mark.parametrize("profile", ["quick", "standard"])
def test_the_key_figures_are_those_of_an_h200(profile: str) -> None:
    """Within what two such cards gave in other runs (docs/benchmarks.md), widened by 5 %."""
    found = record(profile)
    assert 620e12 < one(found, "matmul_sustained_flops_per_second", dtype="bf16", n=8192) < 705e12
    assert 755e12 < one(found, "matmul_boost_flops_per_second", dtype="bf16", n=8192, load="all") < 857e12
    assert one(found, "matmul_flops_per_clock_per_sm", dtype="bf16") == pytest.approx(3770, rel=0.005)
    assert one(found, "matmul_host_clock_ratio", dtype="bf16", n=8192) == pytest.approx(1, abs=0.001)
    for op, least in (("read", 0.93), ("write", 0.95), ("copy", 0.88), ("triad", 0.90)):
        assert least * 4.8e12 <= one(found, "memory_bandwidth_bytes_per_second", op=op) < 4.8e12
    for direction in ("h2d", "d2h"):
        rate = one(
            found, "host_copy_bytes_per_second", direction=direction, memory="pinned", bytes=256 << 20, load="alone"
        )
        assert rate == pytest.approx(55.4e9, rel=0.02)
    assert one(found, "memory_capacity_errors_total") == 0
    assert one(found, "memory_capacity_bytes") >= 0.95 * one(found, "memory_capacity_free_bytes")
    assert one(found, "time_slicing_gaps_total") == 0
    assert one(found, "thermal_samples_per_second") >= 10
    assert one(found, "thermal_window_seconds") == pytest.approx(10 if profile == "quick" else 120, rel=0.05)


def test_all_but_one_figure_held_over_their_repeats() -> None:
    """A healthy card that nobody else uses gives figures that hold; a product of 18 ms outlasts the boost."""
    unstable = {
        (profile, reading.metric, reading.conditions["dtype"])
        for profile in ("quick", "standard")
        for reading in record(profile).readings
        if reading.stable is False
    }
    assert unstable == {("standard", "matmul_boost_flops_per_second", "fp64")}


def test_quick_and_standard_stay_within_their_times() -> None:
    """45 s and 5 minutes in all; at most 12 s of them are not measuring."""
    quick, standard = record("quick").seconds, record("standard").seconds
    assert quick.total <= 45 and standard.total <= 300
    assert all(seconds.total - seconds.measuring <= 12 for seconds in (quick, standard))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_nothing_names_the_machine(path: Path) -> None:
    """No UUID but the neutral one, no host name, no kernel build, no address of a network card."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"GPU-(?!00000000-0000-4000-8000)[0-9a-f]{8}-", text)
    assert not re.search(r"\b(?!00:00:00:00:00:00)(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", text)
    assert not re.search(r"nixbld|-fc-v|--firecracker-init", text)
    document = json.loads(text)
    named = {r["metric"]: r["value"] for r in document["readings"] if r["source"] == "kernel/sysfs"}
    assert named["server_facts_hostname"] == "gpu-server"
    assert named["server_facts_kernel"] == "6.18.0-guest"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_every_metric_is_explained(path: Path) -> None:
    """Each metric and each series of the record stands in docs/method.md."""
    method = (ROOT / "docs/method.md").read_text(encoding="utf-8")
    document = json.loads(path.read_text(encoding="utf-8"))
    metrics = {row["metric"] for row in [*document["readings"], *document["series"]]}
    assert not {metric for metric in metrics if f"`{metric}`" not in method}
