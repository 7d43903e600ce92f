"""Delivered against ordered: refusals first, then what the table of single faults does not reach."""

from __future__ import annotations

import dataclasses

import pytest

from auditor.records import Record
from auditor.report.texts import render
from tests import builders
from tests.builders import CUDA, SYSFS, added, changed, reading, without
from tests.judge.faults import FAULTS, another, chain, on
from tests.judge.judged import METAL_A100, METAL_H200, found, ids, one, roots

A100 = builders.healthy("A100 SXM4 80GB")
H200 = builders.healthy()
ONE = builders.healthy(gpus=1)


def test_another_model_everywhere_is_one_finding() -> None:
    """H100 ordered, H200 delivered eight times: one root on the server, named by what the chips are."""
    result = one(H200, "8x H100-SXM5-80GB nvswitch bare-metal")
    finding = found(result, "gpu-wrong-model", "server")
    assert result.verdict == "reject"
    assert finding.parameters["delivered"] == "H200 SXM5 141GB"
    assert finding.parameters["count"] == 8


def test_another_model_in_one_slot_names_the_gpu() -> None:
    """One A100 40GB among seven 80GB: the finding is on that GPU."""
    record = A100
    for metric, value in (("gpu_identity_pci_device", "10de:20b0"), ("gpu_identity_memory_bytes", 42949672960)):
        record = changed(record, metric, value, "gpu3")
    record = changed(record, "gpu_identity_name", "NVIDIA A100-SXM4-40GB", "gpu3")
    finding = found(one(record, METAL_A100), "gpu-wrong-model")
    assert finding.subject == "gpu3"
    assert finding.severity == "reject"


def test_the_same_words_of_another_size_are_told_apart_by_memory() -> None:
    """A100 alone means either size; memory_gb narrows it."""
    wide = {"gpu": "A100", "gpus": 8, "interconnect": "nvswitch"}
    assert one(A100, wide).verdict == "accept"
    assert "gpu-wrong-model" in ids(one(A100, wide | {"memory_gb": 40}))


def test_a_model_known_from_the_driver_alone_is_for_review() -> None:
    """Without the kernel's PCI id the accusation rests on one family."""
    record = without(H200, "gpu_identity_pci_device")
    finding = found(one(record, "8x H100-SXM5-80GB nvswitch bare-metal"), "gpu-wrong-model")
    assert finding.severity == "review"


@pytest.mark.parametrize(
    ("ordered", "severity", "near"),
    [
        ("8x H200foo nvswitch", "advice", "H200 SXM5 141GB"),
        ("8x NVIDIA H200X", "advice", "H200 SXM5 141GB"),
        ("8x A100foo", "review", "A100 SXM4 80GB"),
        ("8x Z99", "review", None),
    ],
)
def test_an_ordered_model_nobody_knows_accuses_nobody(ordered: str, severity: str, near: str | None) -> None:
    """Nothing is known to hold the GPUs against: it is said with the nearest names and what was measured."""
    result = one(H200, ordered)
    finding = found(result, "ordered-model-unknown")
    assert "gpu-wrong-model" not in ids(result)
    assert finding.severity == severity
    assert near in (finding.parameters["near"] or "") if near else finding.parameters["near"] is None
    said = render(finding, "en")
    assert "H200 SXM5 141GB; GPUs: 8 (PCI id 10de:2335, SMs: 132)" in said.observed
    assert "no table" in said.title and "not measured" not in f"{said.observed}{said.expected}"


def test_an_unlisted_model_that_is_called_so_is_not_accused() -> None:
    """Ordered and called by the same unknown name: nothing is wrong, the model is said to be unknown."""
    record = another("10de:ffff", 100, 68719476736, "NVIDIA Z99")(ONE)
    result = one(record, "1x Z99 vm")
    assert "gpu-wrong-model" not in ids(result)
    assert found(result, "unknown-model").severity == "info"


def test_count_is_not_short_without_a_count_or_an_order() -> None:
    """No order, an order of none, and a record without any count accuse nobody."""
    assert "gpu-count-short" not in ids(one(ONE))
    assert "gpu-count-short" not in ids(one(ONE, {"gpus": 0}))
    bare = builders.record([reading("server_facts_kernel", "6.8", source=SYSFS)])
    assert "gpu-count-short" not in ids(one(bare, METAL_H200))


def test_gpus_on_the_bus_that_were_not_given() -> None:
    """Five of eight given: short by the driver and the device nodes, and a slice of a bigger node."""
    record = builders.healthy(gpus=5)
    record = changed(record, "server_facts_gpus_on_bus_total", 8)
    result = one(record, METAL_H200)
    assert found(result, "gpu-count-short").severity == "reject"
    subset = found(result, "gpu-subset-shared-node")
    assert subset.severity == "advice"
    assert subset.root == "gpu-01:gpu-count-short:server"
    assert found(one(record, "5x H200"), "gpu-subset-shared-node").root is None


def test_a_count_that_only_the_driver_gives_is_for_review() -> None:
    """NVML and CUDA are one family; without the kernel's count it is a review."""
    record = builders.healthy(gpus=7)
    for metric in ("gpus_on_bus", "gpu_nodes"):
        record = without(record, f"server_facts_{metric}_total")
    finding = found(one(record, METAL_H200), "gpu-count-short")
    assert finding.severity == "review"


def test_less_memory_than_ordered_or_than_the_model_has() -> None:
    """Against the order's own figure first, else against what the model has; unknown models are not judged."""
    less = changed(ONE, "gpu_identity_memory_bytes", 70e9)
    result = one(less, {"gpu": "H200", "gpus": 1, "memory_gb": 141})
    assert found(result, "memory-short").basis == "order"
    assert found(one(less), "memory-short").basis == "spec"
    assert "memory-short" not in ids(one(changed(ONE, "gpu_identity_memory_bytes", "lots")))
    stranger = another("10de:ffff", 100, 1000, "NVIDIA Z99")(ONE)
    assert "memory-short" not in ids(one(stranger))


def test_capacity_that_the_budget_cut_is_no_fault() -> None:
    """Half written because time was short is not half missing; text in place of a figure is nothing."""
    half = changed(ONE, "memory_capacity_bytes", 60e9)
    assert "memory-capacity-short" in ids(one(half))
    rows = tuple(
        dataclasses.replace(row, cut=("60 GiB",)) if row.probe == "memory_capacity" else row for row in half.probes
    )
    assert "memory-capacity-short" not in ids(one(dataclasses.replace(half, probes=rows)))
    assert "memory-capacity-short" not in ids(one(changed(ONE, "memory_capacity_bytes", "all of it")))


def mig(record: Record) -> Record:
    """MIG on, with the profile in CUDA's name."""
    record = changed(record, "gpu_identity_mig_enabled", True, which="current")
    return changed(record, "gpu_identity_name", "NVIDIA H200 MIG 1g.18gb", "gpu0", CUDA)


def test_mig_against_an_order_and_without() -> None:
    """A MIG slice where whole GPUs were ordered; with what could be written as second family it is a reject."""
    sliced = changed(mig(ONE), "memory_capacity_bytes", 17e9)
    result = one(sliced, "1x H200")
    assert found(result, "mig-sliced").severity == "reject"
    assert found(result, "mig-sliced").parameters["profile"] == "1g.18gb"
    assert roots(result) == ["mig-sliced"]
    assert found(one(sliced), "mig-sliced").severity == "review"
    without_capacity = without(mig(ONE), "memory_capacity_bytes")
    assert found(one(without_capacity, "1x H200"), "mig-sliced").severity == "review"


def test_mixed_models_without_an_order() -> None:
    """Two models in one server are a finding of their own when no order names one."""
    record = A100
    for metric, value in (("gpu_identity_pci_device", "10de:20b0"), ("gpu_identity_memory_bytes", 42949672960)):
        record = changed(record, metric, value, "gpu3")
    record = changed(record, "gpu_identity_name", "NVIDIA A100-SXM4-40GB", "gpu3")
    assert "gpu-mixed-models" in ids(one(record))
    assert "gpu-mixed-models" not in ids(one(record, METAL_A100))


def test_memory_that_was_soldered_on() -> None:
    """A 48 GB 4090 is proven by id and memory; ordered as such it is what was ordered."""
    record = builders.healthy("RTX 4090 48GB (modded)", gpus=1)
    assert found(one(record, "1x RTX-4090"), "memory-mod").severity == "reject"
    assert "memory-mod" not in ids(one(record, {"gpu": "RTX 4090 48GB (modded)", "gpus": 1}))
    more = changed(ONE, "gpu_identity_memory_bytes", 300e9)
    assert "memory-mod" in ids(one(more))


def test_every_fault_without_an_order_accuses_nobody_of_a_wrong_delivery() -> None:
    """Without an order nothing is misallocated by the order; the verdict still stands."""
    for fault in FAULTS:
        for finding in one(fault.edit(H200)).findings:
            assert finding.basis != "order", (fault.name, finding.key)


def test_orders_of_processors_memory_disk_and_cards() -> None:
    """Every key of the order is held against what the machine has, the cgroup's limits included."""
    record = added(
        ONE,
        reading("server_facts_cpu_quota_total", 16, source=SYSFS),
        reading("server_facts_memory_limit_bytes", 64e9, source=SYSFS),
        reading("server_facts_disk_free_bytes", 100e9, source=SYSFS, path="/"),
        reading("network_interfaces_link_bits_per_second", 2e11, "nic0", SYSFS),
        reading("network_interfaces_link_bits_per_second", 4e11, "nic1", SYSFS),
        reading("network_interfaces_link_bits_per_second", 4e11, "nic2", SYSFS),
        reading("network_interfaces_kind", "virtual", "nic2", SYSFS),
    )
    order = {
        "gpu": "H200", "gpus": 1, "cpus": 224, "ram_gb": 2048, "disk_gb": 1000, "driver": "570",
        "nics": {"count": 2, "gbps": 400},
    }  # fmt: skip
    result = one(record, order)
    for id, measured in (("cpus-short", 16), ("ram-short", 64e9), ("nics-short", 1)):
        assert found(result, id).parameters["measured"] == measured
        assert found(result, id).severity == "review"
    assert found(result, "disk-short").severity == "advice"
    assert found(result, "driver-differs").parameters["version"] == "580.159.04"
    fitting = {"gpu": "H200", "gpus": 1, "cpus": 224, "ram_gb": 2048, "driver": "580", "nics": {"count": 1}}
    roomy = added(ONE, reading("server_facts_disk_free_bytes", 2e12, source=SYSFS, path="/"))
    assert not ids(one(roomy, fitting | {"disk_gb": 1000})) & {"disk-short"}
    assert not ids(one(ONE, fitting)) & {"cpus-short", "ram-short", "driver-differs", "nics-short", "disk-short"}


def test_settings_of_cards() -> None:
    """ECC off counts on data-centre cards only; persistence off is information."""
    off = changed(builders.healthy("RTX 4090", gpus=1), "gpu_identity_ecc_enabled", False)
    assert "ecc-off" not in ids(one(off))
    lazy = changed(ONE, "gpu_identity_persistence", False)
    assert found(one(lazy), "persistence-off").severity == "info"
    mixed = added(ONE, reading("server_facts_driver_version", "575.1", source=SYSFS))
    assert found(one(mixed), "driver-mismatch").severity == "review"


def test_the_driver_has_no_name_for_the_card() -> None:
    """ "Graphics Device" is an old driver: an advice when nothing else identifies the card."""
    record = chain(on("gpu_identity_name", "NVIDIA Graphics Device"), on("gpu_identity_pci_device", "10de:ffff"))(ONE)
    result = one(record, "1x H200")
    assert found(result, "driver-too-old").severity == "advice"
    assert "unknown-name" not in ids(result)
    assert found(result, "unknown-model").severity == "review"


def test_a_name_nobody_knows_with_a_full_mesh_is_suspicious() -> None:
    """Re-labelled boards carry unknown names and NV18 meshes."""
    record = chain(on("gpu_identity_name", "NVIDIA L20Y"), on("gpu_identity_pci_device", "10de:ffff"))(H200)
    assert found(one(record), "unknown-name", "gpu0").severity == "review"
    none = without(without(ONE, "gpu_identity_name"), "gpu_identity_pci_device")
    assert not ids(one(none)) & {"unknown-name", "unknown-model"}


def test_links_that_lead_to_no_gpu_of_ours_are_a_slice() -> None:
    """One GPU of a board, with its NVLinks up to the switches: neighbours hold the others."""
    alone = builders.healthy(gpus=1)
    result = one(changed(alone, "topology_nvlinks_active_total", 18, "gpu0"), "1x H200")
    finding = found(result, "gpu-subset-shared-node")
    assert (result.verdict, finding.severity, finding.parameters["variant"]) == ("accept", "advice", "links")
    assert finding.parameters["links"] == 18
    assert "gpu-subset-shared-node" not in ids(one(alone, "1x H200"))


def test_memory_that_is_reported_short_but_can_be_written_is_a_contradiction() -> None:
    """The written memory is a witness against the server only where it is short as well."""
    told = changed(builders.healthy(), "gpu_identity_memory_bytes", 70 * 10**9, "gpu0")
    finding = found(one(told, "8x H200"), "memory-short", "gpu0")
    assert finding.severity == "review"
    assert all(e.metric != "memory_capacity_bytes" for e in finding.evidence)
    both = changed(told, "memory_capacity_bytes", 68 * 10**9, "gpu0")
    assert found(one(both, "8x H200"), "memory-short", "gpu0").severity == "reject"


def test_more_memory_than_the_card_is_made_with() -> None:
    """Told by the driver alone it is for review; written and read back it was soldered on."""
    told = changed(builders.healthy(), "gpu_identity_memory_bytes", 210 * 10**9, "gpu0")
    both = changed(told, "memory_capacity_bytes", 205 * 10**9, "gpu0")
    assert found(one(both, "8x H200"), "memory-mod", "gpu0").severity == "reject"
    result = one(told, "8x H200")
    assert found(result, "memory-mod", "gpu0").severity == "review"
    assert result.verdict == "review"
