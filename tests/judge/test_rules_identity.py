"""Is the GPU what it says: within one GPU, within one server, across servers."""

from __future__ import annotations

import dataclasses

import pytest

from tests import builders
from tests.builders import CUDA, PROC, SYSFS, added, changed, reading, without
from tests.judge.faults import chain, on, slow, times
from tests.judge.judged import METAL_A100, METAL_H200, found, ids, many, one, roots

ONE = builders.healthy(gpus=1)
H200 = builders.healthy(gpus=3)


@pytest.mark.parametrize(
    ("metric", "value", "source", "severity"),
    [
        ("gpu_identity_name", "NVIDIA B200", CUDA, "review"),
        ("gpu_identity_uuid", "GPU-1", PROC, "review"),
        ("gpu_identity_pci_device", "10de:2330", SYSFS, "reject"),
        ("gpu_identity_compute_capability", "8.0", CUDA, "review"),
        ("gpu_identity_memory_bytes", 80e9, CUDA, "review"),
    ],
)
def test_sources_that_disagree(metric: str, value: object, source: str, severity: str) -> None:
    """Driver against kernel is a reject; NVML against CUDA is one family, so a review."""
    record = changed(ONE, metric, value, "gpu0", source)  # type: ignore[arg-type]
    assert found(one(record, "1x H200"), "nvml-vs-cuda-disagree").severity == severity


@pytest.mark.parametrize(
    ("metric", "value", "source"),
    [
        ("gpu_identity_name", "H200 NVIDIA", CUDA),
        ("gpu_identity_uuid", None, PROC),
        ("gpu_identity_memory_bytes", 146e9, CUDA),
        ("gpu_identity_pci_device", "10DE:2335", SYSFS),
    ],
)
def test_spellings_of_one_thing_agree(metric: str, value: object, source: str) -> None:
    """Another order of words, capitals, and CUDA's slightly smaller total are no contradiction."""
    assert "nvml-vs-cuda-disagree" not in ids(one(changed(ONE, metric, value, "gpu0", source)))  # type: ignore[arg-type]


def test_mig_explains_what_it_changes() -> None:
    """Under MIG name, UUID and memory differ by design."""
    record = chain(
        on("gpu_identity_mig_enabled", True, which="current"),
        on("gpu_identity_name", "NVIDIA H200 MIG 1g.18gb", source=CUDA),
        on("gpu_identity_uuid", "MIG-1", source=CUDA),
        on("gpu_identity_memory_bytes", 17e9, source=CUDA),
        on("gpu_identity_sms_total", 16),
    )(ONE)
    result = one(record, "1x H200")
    assert not ids(result) & {"nvml-vs-cuda-disagree", "patched-name", "figures-contradict-model"}
    assert roots(result) == ["mig-sliced"]


def test_a_mining_card_under_another_name() -> None:
    """CMP 170HX has the A100's chip and its own PCI id."""
    record = chain(on("gpu_identity_pci_device", "10de:20c2"), on("gpu_identity_name", "NVIDIA A100-SXM4-80GB"))(
        builders.healthy("A100 SXM4 80GB", gpus=1)
    )
    assert found(one(record, "1x A100-SXM4-80GB"), "cmp-as-a100").severity == "reject"
    honest = on("gpu_identity_name", "NVIDIA CMP 170HX")(record)
    assert "cmp-as-a100" not in ids(one(honest))


def test_chip_facts_that_do_not_fit_the_name() -> None:
    """SM count, cache and bus belong to another chip: patched, with the kernel's id beside it a reject."""
    record = chain(on("gpu_identity_sms_total", 82), on("gpu_identity_l2_bytes", 6 * 1024 * 1024))(ONE)
    finding = found(one(record, "1x H200"), "patched-name")
    assert finding.severity == "reject"
    assert finding.parameters["what"] == "sms, l2_bytes"


def test_what_the_silicon_does_against_what_it_claims() -> None:
    """One figure is for review, two together with the driver's claim are proof."""
    few = on("l2_cache_bytes", 5e6)(ONE)
    assert found(one(few), "figures-contradict-model").severity == "review"
    both = on("memory_bandwidth_bytes_per_second", times(0.2))(few)
    finding = found(one(both), "figures-contradict-model")
    assert finding.severity == "reject"
    assert roots(one(both)) == ["figures-contradict-model"]


def test_fp64_that_a_consumer_chip_would_have() -> None:
    """1:64 under a data-centre name contradicts; the ratio needs both figures."""
    record = on("matmul_sustained_flops_per_second", 8e11, dtype="fp64")(ONE)
    assert "fp64_share_measured" in str(found(one(record), "figures-contradict-model").parameters["what"])
    alone = without(record, "matmul_sustained_flops_per_second", dtype="fp32")
    assert "figures-contradict-model" not in ids(one(alone))


def test_canned_numbers() -> None:
    """The same watts and degrees at rest and under load; a short window or moving watts prove nothing."""
    still = chain(on("thermal_watts", 300.0), on("thermal_gpu_celsius", 50.0))(ONE)
    assert "canned-readings" in ids(one(still))
    assert "canned-readings" not in ids(one(on("thermal_window_seconds", 1.0)(still)))
    assert "canned-readings" not in ids(one(on("thermal_watts", 310.0, stat="max")(still)))
    assert "canned-readings" not in ids(one(without(still, "thermal_flops_per_second", window="all")))


def test_one_uuid_on_two_gpus() -> None:
    """Two devices of one server with one UUID."""
    uuid = next(str(r.value) for r in H200.readings if r.metric == "gpu_identity_uuid")
    record = changed(H200, "gpu_identity_uuid", uuid, "gpu2")
    finding = found(one(record), "duplicate-identity")
    assert finding.subject == "gpu0"
    assert finding.parameters["others"] == "gpu2"
    by_kernel = changed(H200, "gpu_identity_uuid", None)
    by_kernel = added(by_kernel, *(reading("gpu_identity_uuid", uuid, f"gpu{n}", SYSFS) for n in range(3)))
    assert "duplicate-identity" not in ids(one(by_kernel))
    vgpu = on("gpu_identity_virtualization_mode", "vgpu")(record)
    assert "duplicate-identity" not in ids(one(vgpu))


def test_the_same_gpu_on_two_servers() -> None:
    """A UUID seen on two servers of one run is a finding on both, and names the other."""
    first, second = builders.healthy(gpus=1, server="a"), builders.healthy(gpus=1, server="b")
    uuid = next(str(r.value) for r in first.readings if r.metric == "gpu_identity_uuid")
    results = many((first, "1x H200"), (changed(second, "gpu_identity_uuid", uuid), "1x H200"))
    for name, other in (("a", "b gpu0"), ("b", "a gpu0")):
        finding = found(results[name], "duplicate-identity")
        assert finding.parameters["others"] == other
        assert finding.severity == "review"  # the driver's word alone
        assert results[name].verdict == "review"


@pytest.mark.parametrize("serial", ["0", "0000000000000", "N/A", "[N/A]", "", "<hidden>", "Unknown"])
def test_serials_that_name_nobody(serial: str) -> None:
    """Zero, blank and masked serials are normal and duplicate nothing."""
    records = [changed(builders.healthy(gpus=1, server=name), "gpu_identity_serial", serial) for name in ("a", "b")]
    results = many(*((record, "1x H200") for record in records))
    assert all("duplicate-identity" not in ids(result) for result in results.values())


def test_serials_twice() -> None:
    """The same telling serial on two servers is a finding."""
    records = [
        changed(builders.healthy(gpus=1, server=name), "gpu_identity_serial", "1654923001234") for name in ("a", "b")
    ]
    results = many(*((record, "1x H200") for record in records))
    assert found(results["a"], "duplicate-identity").parameters["kind"] == "serial"


def test_boards_of_different_batches_and_a_damaged_inforom() -> None:
    """Part numbers that differ are advice; a corrupt InfoROM is for review."""
    record = changed(H200, "gpu_identity_board_part_number", "900-2G520-0000-000", "gpu1")
    assert found(one(record), "mixed-batch").severity == "advice"
    broken = changed(H200, "gpu_identity_inforom_valid", False, "gpu1")
    assert found(one(broken), "inforom-corrupt").subject == "gpu1"


def test_libraries_between_program_and_driver() -> None:
    """A preloaded NVML or a library from a temporary folder; an allocator is nobody's business."""
    odd = on("server_facts_nvml_library", "/tmp/x/libnvidia-ml.so 1234")(ONE)
    assert "fake-nvml" in ids(one(odd))
    harmless = on("server_facts_preload", "/usr/lib/libjemalloc.so")(ONE)
    assert "fake-nvml" not in ids(one(harmless))


def test_a_server_of_renamed_cards_has_one_root() -> None:
    """4090s named A100: name, id, chip, memory, rates and links all follow from one root."""
    record = builders.healthy("RTX 4090", 8)
    record = on("gpu_identity_name", "NVIDIA A100-SXM4-80GB")(record)
    result = one(record, METAL_A100)
    assert result.verdict == "reject"
    assert {f.id for f in result.roots if f.severity == "reject"} == {"geforce-as-datacenter"}


FLEET = [builders.healthy(gpus=2, server=f"s{i:02d}") for i in range(5)]


def test_a_server_slower_than_its_fleet() -> None:
    """Both GPUs 12 % down: no sibling sees it, the fleet does."""
    slowed = slow(0.88)(FLEET[0])
    results = many((slowed, None), *((record, None) for record in FLEET[1:]))
    finding = found(results["s00"], "slower-than-fleet")
    assert finding.basis == "fleet"
    assert finding.parameters["peers"] == 4
    assert all("slower-than-fleet" not in ids(results[f"s0{i}"]) for i in range(1, 5))


@pytest.mark.parametrize("servers", [1, 2])
def test_a_fleet_of_one_or_two_says_nothing(servers: int) -> None:
    """Nobody can tell which of two is the slow one."""
    slowed = slow(0.88)(FLEET[0])
    results = many(*[(slowed, None), (FLEET[1], None)][:servers])
    assert "slower-than-fleet" not in ids(results["s00"])


def test_a_fleet_of_two_models_is_two_fleets() -> None:
    """A100 servers are not slow H200 servers."""
    others = [builders.healthy("A100 SXM4 80GB", 2, server=f"a{i:02d}") for i in range(4)]
    results = many(*((record, None) for record in (*FLEET, *others)))
    assert all("slower-than-fleet" not in ids(result) for result in results.values())


def test_figures_of_another_method_never_meet() -> None:
    """A server measured by a newer probe is another fleet for that figure."""
    slowed = slow(0.88)(FLEET[0])
    rows = tuple(dataclasses.replace(row, method=2) for row in slowed.probes)
    results = many((dataclasses.replace(slowed, probes=rows), None), *((r, None) for r in FLEET[1:]))
    assert "slower-than-fleet" not in ids(results["s00"])


def test_a_large_fleet_uses_its_whole_median() -> None:
    """Beyond two dozen servers one server does not move the median; the slow one is still found."""
    records = [builders.healthy(gpus=1, server=f"l{i:03d}", profile="quick") for i in range(30)]
    records[0] = slow(0.8)(records[0])
    results = many(*((record, None) for record in records))
    assert "slower-than-fleet" in ids(results["l000"])


def test_two_gpus_one_slow() -> None:
    """With two GPUs the slower one names itself, at 10 % only."""
    pair = builders.healthy(gpus=2)
    assert "slower-than-siblings" in ids(one(slow(0.85, "gpu0")(pair)))
    assert "slower-than-siblings" not in ids(one(slow(0.93, "gpu0")(pair)))


def test_five_per_cent_twice_among_siblings_that_agree() -> None:
    """7 % low in the sustained and in the thermal window is for review; in one of them alone it is nothing."""
    eight = builders.healthy()
    twice = slow(0.93, "gpu5")(eight)
    finding = found(one(twice, METAL_H200), "slower-than-siblings")
    assert finding.severity == "review"
    assert finding.subject == "gpu5"
    once = on("thermal_flops_per_second", times(0.93), "gpu5")(eight)
    assert "slower-than-siblings" not in ids(one(once, METAL_H200))
    notable = on("thermal_flops_per_second", times(0.91), "gpu5")(eight)
    assert found(one(notable, METAL_H200), "slower-than-siblings").severity == "advice"


def test_unstable_figures_are_not_compared() -> None:
    """A reading the probe itself calls unstable accuses nobody."""
    lame = slow(0.8, "gpu0")(builders.healthy(gpus=3))
    rows = (
        dataclasses.replace(r, stable=False) if r.subject == "gpu0" and r.source == "measured" else r
        for r in lame.readings
    )
    assert "slower-than-siblings" not in ids(one(dataclasses.replace(lame, readings=tuple(rows))))


def test_work_per_clock_of_two_gpus_blames_the_server() -> None:
    """With two GPUs nobody can say which chip is the odd one."""
    pair = on("matmul_flops_per_clock_per_sm", times(0.95), "gpu1")(builders.healthy(gpus=2))
    assert found(one(pair), "per-clock-differs").subject == "server"
    zero = on("matmul_flops_per_clock_per_sm", 0.0)(builders.healthy(gpus=3))
    assert "per-clock-differs" not in ids(one(zero))
