"""Records that lack, contradict or invent: none of them is accepted, none costs another server its report."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from auditor import order
from auditor.finding import Finding
from auditor.judge import ServerInput, judge, rule
from auditor.judge.case import Case
from auditor.judge.fleet import Digest, Fleet
from auditor.records import Reading, Record, Value
from tests import builders
from tests.builders import CUDA, NVML, added, changed, reading, without
from tests.judge.judged import METAL_A100, found, ids, many, one

A100 = builders.healthy("A100 SXM4 80GB", 8)
SUSTAINED = "matmul_sustained_flops_per_second"
BUSBW = "collectives_busbw_bytes_per_second"
COPY = "host_copy_bytes_per_second"


def lacking(record: Record, *gpus: str) -> Record:
    """The record without any subject, row or reading of these GPUs."""

    def kept(subject: str) -> bool:
        return not set(subject.replace("/", "-").split("-")) & set(gpus)

    return dataclasses.replace(
        record,
        subjects=tuple(s for s in record.subjects if kept(s.id)),
        probes=tuple(p for p in record.probes if kept(p.subject)),
        readings=tuple(r for r in record.readings if kept(r.subject)),
    )


def test_the_healthy_server_is_accepted() -> None:
    """What each test here changes is accepted before it is changed."""
    result = one(A100, METAL_A100)
    assert result.verdict == "accept"
    assert result.missing == ()


@pytest.mark.parametrize("value", [0, 0.0, -1.0])
def test_a_rate_of_zero_is_no_rate(value: float) -> None:
    """Zero on all GPUs is said, is in no figure and meets no need; the next server is judged as ever."""
    bad = dataclasses.replace(changed(A100, SUSTAINED, value), server="bad")
    results = many((bad, METAL_A100), (builders.healthy("A100 SXM4 80GB", 8, serial="x"), METAL_A100))
    assert results["gpu-01"].verdict == "accept"
    assert results["bad"].verdict == "incomplete"
    assert "matmul of gpu0" in results["bad"].missing
    finding = found(results["bad"], "figure-implausible", "gpu0")
    assert (finding.category, finding.severity, finding.parameters["variant"]) == ("unproven", "review", "no-rate")
    assert results["bad"].figures["matmul_bf16_sustained"] is None
    assert results["bad"].figures["slowest_ratio"] is None


def test_a_bandwidth_of_zero_says_nothing_about_the_model() -> None:
    """Zero is no measurement: the need is unmet and no other card is suspected."""
    result = one(changed(A100, "memory_bandwidth_bytes_per_second", 0), METAL_A100)
    assert result.verdict == "incomplete"
    assert "memory_bandwidth of gpu0" in result.missing
    assert found(result, "figure-implausible", "gpu0").severity == "review"
    assert "figures-contradict-model" not in ids(result)


def test_a_record_that_cannot_be_judged_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever breaks on one server's data is that server's reason; the others keep their verdicts."""

    def breaks(case: Case) -> Iterator[Finding]:
        if case.server == "bad":
            raise KeyError("gpu9")
        yield from ()

    shipped = rule.server_rules()
    monkeypatch.setattr(rule, "server_rules", lambda: (*shipped, breaks))
    bad = dataclasses.replace(A100, server="bad")
    results = many((bad, METAL_A100), (builders.healthy("A100 SXM4 80GB", 8, serial="x"), METAL_A100))
    assert results["bad"].verdict == "incomplete"
    assert results["bad"].reason == "could not be judged: KeyError: 'gpu9'"
    assert results["bad"].missing == ("judgement",)
    assert results["gpu-01"].verdict == "accept"


def test_a_record_that_breaks_among_the_others_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison with the fleet is behind the same border."""

    def breaks(digest: Digest, fleet: Fleet) -> Iterator[Finding]:
        if digest.server == "bad":
            raise ZeroDivisionError("float division by zero")
        yield from ()

    monkeypatch.setattr(rule, "fleet_rules", lambda: (breaks,))
    paid = order.parse(METAL_A100, "test")
    records = [dataclasses.replace(A100, server=name) for name in ("bad", "good")]
    judged = judge(lambda: [ServerInput(r.server, paid, record=r) for r in records])
    verdicts = {server.name: (server.verdict, server.reason) for server in judged.servers}
    assert verdicts["bad"] == ("incomplete", "could not be judged: ZeroDivisionError: float division by zero")
    assert verdicts["good"] == ("accept", None)


@pytest.mark.parametrize(("gpus", "left"), [(("gpu7",), 7), (tuple(f"gpu{n}" for n in range(2, 8)), 2)])
def test_gpus_that_are_counted_but_not_in_the_record(gpus: tuple[str, ...], left: int) -> None:
    """Counts of 8 do not stand in for GPUs nobody measured."""
    result = one(lacking(A100, *gpus), METAL_A100)
    assert result.verdict == "incomplete"
    assert {"count", "topology"} <= set(result.missing)
    assert f"{left} of 8 GPUs" in str(found(result, "not-measured", "server").parameters["reason"])
    assert found(result, "gpu-counts-disagree").severity == "review"


def test_gpus_that_no_order_names_are_needed_as_counted() -> None:
    """Without an order the count of the driver says how many GPUs must be in the record."""
    result = one(lacking(A100, "gpu7"))
    assert result.verdict == "incomplete"
    assert "count" in result.missing


@pytest.mark.parametrize(
    "counts",
    [
        {"server_facts_gpus_nvml_total": 7, "server_facts_gpus_cuda_total": 7},
        {"server_facts_gpus_cuda_total": 7},
        {"server_facts_gpus_on_bus_total": 7},
        {"server_facts_gpu_nodes_total": 7},
    ],
)
def test_counts_that_contradict_each_other(counts: dict[str, int]) -> None:
    """Sources that count the same GPUs differently are a contradiction."""
    record = A100
    for metric, value in counts.items():
        record = changed(record, metric, value)
    result = one(record, METAL_A100)
    assert result.verdict == "review"
    finding = found(result, "gpu-counts-disagree")
    assert (finding.category, finding.severity) == ("unproven", "review")
    assert "7" in str(finding.parameters["values"])


def test_a_bus_with_more_gpus_than_were_given_is_no_contradiction() -> None:
    """That is a slice of a node, which has its own finding."""
    assert "gpu-counts-disagree" not in ids(one(changed(A100, "server_facts_gpus_on_bus_total", 16), METAL_A100))


@pytest.mark.parametrize("value", ["FAILED", "", "N/A", float("inf")])
def test_words_are_no_bandwidth(value: Value) -> None:
    """A need for a figure is met by a finite figure only."""
    result = one(changed(A100, BUSBW, value), METAL_A100)
    assert result.verdict == "incomplete"
    assert result.missing == ("all_reduce",)
    assert result.figures["allreduce_busbw"] is None


@pytest.mark.parametrize("value", ["", "N/A", "0", "NV0", "NVX"])
def test_cells_that_name_no_path(value: str) -> None:
    """A matrix of blanks is no topology."""
    result = one(changed(A100, "topology_path", value), METAL_A100)
    assert "topology" in result.missing
    assert "0 of 28 pairs" in str(found(result, "not-measured", "server").parameters["reason"])
    assert result.verdict != "accept"


def test_a_name_without_words_is_no_word_about_the_model() -> None:
    """Blank readings of a second family do not make two families."""
    record = without(changed(A100, "gpu_identity_pci_device", "N/A"), "matmul_flops_per_clock_per_sm")
    assert "model of gpu0" in one(record, METAL_A100).missing


@pytest.mark.parametrize(
    ("metric", "subject", "figure", "what"),
    [
        (BUSBW, "server", "allreduce_busbw", "collectives"),
        ("collectives_algbw_bytes_per_second", "server", "allreduce_algbw", "collectives"),
        (COPY, "gpu0", "h2d", "host copy"),
        ("memory_bandwidth_bytes_per_second", "gpu0", "memory_read", "memory bandwidth"),
    ],
)
def test_rates_beyond_physics_win_nothing(metric: str, subject: str, figure: str, what: str) -> None:
    """An absurd rate is for review, is in no figure, and does not rank first."""
    absurd = changed(dataclasses.replace(A100, server="liar"), metric, 5e16)
    results = many((absurd, METAL_A100), (builders.healthy("A100 SXM4 80GB", 8, serial="x"), METAL_A100))
    liar = results["liar"]
    assert liar.verdict == "review"
    finding = found(liar, "figure-implausible", subject)
    assert (finding.severity, finding.parameters["what"]) == ("review", what)
    assert liar.figures[figure] is None
    assert all(f.id != "slower-than-fleet" for f in results["gpu-01"].findings)
    ranked = {s.use: s for s in liar.scores}["training_multi_gpu"]
    assert ranked.rank is None or metric.startswith("collectives_algbw")
    honest = {s.use: s.rank for s in results["gpu-01"].scores}
    assert honest["training_multi_gpu"] == 1


def test_an_absurd_rate_in_the_thermal_window() -> None:
    """The rate under sustained load has the same ceiling as the short one."""
    result = one(changed(A100, "thermal_flops_per_second", 5e16, "gpu3"), METAL_A100)
    assert found(result, "figure-implausible").subject == "gpu3"
    assert found(result, "figure-implausible").parameters["what"] == "matmul in the thermal window"


def test_a_model_nobody_knows_has_links_that_end_too() -> None:
    """Without a catalogue row no rate of calculation is held against spec, a rate of the bus still is."""
    record = changed(changed(A100, "gpu_identity_name", "NVIDIA Z"), "gpu_identity_pci_device", "10de:ffff")
    result = one(changed(record, COPY, 5e16, "gpu0"))
    assert found(result, "figure-implausible").parameters["variant"] == "beyond-links"
    assert "figure-implausible" not in ids(one(record))


@pytest.mark.parametrize("model", ["H200 SXM5 141GB", "B200 SXM6 180GB", "RTX 4090", "H20 96GB", "L4"])
def test_healthy_rates_are_below_every_ceiling(model: str) -> None:
    """What others published, NVLS included, is never implausible."""
    assert "figure-implausible" not in ids(one(builders.healthy(model, 8)))


@pytest.mark.parametrize(("ratio", "hit"), [(0.5, True), (0.0, True), (1.2, True), (0.95, False), (1.0001, False)])
def test_two_clocks_for_one_window(ratio: float, hit: bool) -> None:
    """Event time that differs from host time by 10 % makes every rate unproven."""
    result = one(added(A100, reading("matmul_host_clock_ratio", ratio, "gpu2", dtype="bf16", n_=8192)), METAL_A100)
    assert result.verdict == ("review" if hit else "accept")
    assert ("time-mismatch" in ids(result)) is hit
    if hit:
        assert found(result, "time-mismatch").category == "unproven"
        assert found(result, "time-mismatch").subject == "gpu2"


@pytest.mark.parametrize(
    ("dtype", "error", "hit"),
    [
        ("bf16", 0.3, True), ("bf16", 1.7e-3, False), ("fp32", 0.05, True), ("fp32", 1.6e-6, False),
        ("fp64", 1e-3, True), ("int8", 1e-9, True), ("int8", 0.0, False), ("fp8", 0.1, False), ("int3", 1.0, False),
    ],
)  # fmt: skip
def test_products_far_from_the_reference(dtype: str, error: float, hit: bool) -> None:
    """More error than rounding in the type explains is for review."""
    result = one(added(A100, reading("matmul_error_ratio", error, "gpu5", dtype=dtype)), METAL_A100)
    assert result.verdict == ("review" if hit else "accept")
    assert ("product-wrong" in ids(result)) is hit
    if hit:
        assert found(result, "product-wrong").category == "degraded"


def test_products_that_differ_are_a_reject() -> None:
    """One element that differs between repeats is silent corruption."""
    result = one(added(A100, reading("matmul_mismatches_total", 1, "gpu5", dtype="bf16")), METAL_A100)
    assert result.verdict == "reject"
    assert found(result, "wrong-results").category == "degraded"


def test_a_preloaded_slicer_is_a_software_slice() -> None:
    """libvgpu in the preload list says it although nothing else does; whole GPUs were ordered."""
    result = one(changed(A100, "server_facts_preload", "/usr/local/vgpu/libvgpu.so"), METAL_A100)
    assert result.level == "software slice"
    assert result.verdict in ("review", "reject")
    finding = found(result, "software-slice")
    assert finding.parameters["signs"] == "/usr/local/vgpu/libvgpu.so"
    assert "preload" not in ids(result)


def test_any_other_preloaded_library_is_said() -> None:
    """An allocator is harmless, but a library in every program is worth a line."""
    result = one(changed(A100, "server_facts_preload", "/usr/lib/libjemalloc.so.2"), METAL_A100)
    assert result.verdict == "accept"
    assert found(result, "preload").severity == "advice"
    assert "preload" not in ids(one(A100, METAL_A100))
    assert "preload" not in ids(one(changed(A100, "server_facts_preload", "/opt/libnvml-shim.so"), METAL_A100))


@pytest.mark.parametrize("name", ["Graphics Device", "NVIDIA Graphics Device"])
def test_a_driver_too_old_to_know_the_name(name: str) -> None:
    """NVML without the name beside CUDA with it is an old driver, not a forgery."""
    result = one(changed(A100, "gpu_identity_name", name, source=NVML), METAL_A100)
    assert result.verdict == "accept"
    assert found(result, "driver-too-old", "gpu0").severity == "advice"
    assert "nvml-vs-cuda-disagree" not in ids(result)


@pytest.mark.parametrize("metric", ["gpu_identity_vbios", "gpu_identity_uuid", "gpu_identity_name"])
@pytest.mark.parametrize("text", ["Requested functionality has been deprecated", "N/A", "[N/A]", "Unknown Error", ""])
def test_a_text_without_a_value_contradicts_nothing(metric: str, text: str) -> None:
    """What a driver prints where it has nothing to say is no second opinion."""
    result = one(changed(A100, metric, text, "gpu0", source=NVML), METAL_A100)
    assert "nvml-vs-cuda-disagree" not in ids(result)
    assert "patched-name" not in ids(result)
    assert result.verdict == "accept"


def test_a_name_that_differs_still_contradicts() -> None:
    """Two real names of one GPU stay a contradiction."""
    assert "nvml-vs-cuda-disagree" in ids(
        one(changed(A100, "gpu_identity_name", "NVIDIA A30", source=CUDA), METAL_A100)
    )


def test_links_bonded_against_links_active() -> None:
    """NV6 in every cell while each GPU has 12 active links to a switch cannot be."""
    result = one(changed(A100, "topology_path", "NV6"), METAL_A100)
    assert result.verdict != "accept"
    assert found(result, "nvlink-counts-disagree").severity == "review"


def test_readings_put_aside_stay_in_the_evidence() -> None:
    """The finding shows the figure that no other rule sees."""
    result = one(changed(A100, COPY, 5e16, "gpu0"), METAL_A100)
    evidence = found(result, "figure-implausible", "gpu0").evidence
    assert any(e.metric == COPY and e.value == 5e16 for e in evidence)
    assert isinstance(A100.readings[0], Reading)
