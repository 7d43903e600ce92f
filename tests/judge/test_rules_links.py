"""NVLink, fabric manager, collectives and peer copies: what is expected where, and what is no fault."""

from __future__ import annotations

import dataclasses

import pytest

from auditor.records import Record
from auditor.report.texts import render
from tests import builders
from tests.builders import NVML, SYSFS, added, changed, reading, without
from tests.judge.faults import chain, on, times
from tests.judge.judged import METAL_A100, METAL_H200, found, ids, one

H200 = builders.healthy()
A100 = builders.healthy("A100 SXM4 80GB")
LINK_IDS = {"nvlink-missing", "nvlink-partial", "nvlink-half-partition", "nvlink-no-mesh", "nvlink-off"}


def links(record: Record, ordered: object = None) -> set[str]:
    """The ids about NVLink."""
    return ids(one(record, ordered)) & LINK_IDS


@pytest.mark.parametrize(
    ("model", "gpus", "nvlink", "ordered", "expected"),
    [
        ("H100 SXM5 80GB", 4, True, "4x H100-SXM5-80GB nvlink", set()),
        ("A100 SXM4 80GB", 4, True, None, set()),
        ("H100 SXM5 80GB", 2, False, None, {"nvlink-missing"}),
        ("H100 SXM5 80GB", 2, False, "2x H100-SXM5-80GB pcie", set()),
        ("H100 SXM5 80GB", 1, False, None, {"nvlink-off"}),
        ("A100 PCIe 80GB", 2, False, "2x A100-PCIe-80GB", set()),
        ("A100 PCIe 80GB", 2, False, "2x A100-PCIe-80GB nvlink_bridge", {"nvlink-missing"}),
        ("L40S", 8, True, "8x L40S", set()),
        ("RTX 4090", 2, True, "2x RTX-4090", set()),
    ],
)
def test_where_nvlink_is_expected(model: str, gpus: int, nvlink: bool, ordered: str | None, expected: set[str]) -> None:
    """SXM boards with two GPUs or more, and what was ordered; PCIe cards without a bridge owe nothing."""
    assert links(builders.healthy(model, gpus, nvlink=nvlink), ordered) == expected


def test_an_order_of_one_gpu_with_nvlink_is_judged() -> None:
    """NVLink that was ordered is judged even with one GPU."""
    record = builders.healthy(gpus=1, guest=True, nvlink=False)
    assert "nvlink-missing" in links(record, METAL_H200)


def test_what_one_gpu_without_its_ordered_nvlink_is_told() -> None:
    """No pairs are counted where there are none, and a parameter nobody read is not measured, not "no"."""
    record = without(builders.healthy(gpus=1, nvlink=False), "server_facts_driver_parameter")
    finding = found(one(record, "1x H200 nvlink"), "nvlink-missing")
    assert finding.parameters["disabled"] is None
    seen = render(finding, "en").observed
    assert seen == "the one GPU shows no active NVLink (driver parameter NvLinkDisable set: not measured)"
    parameter = reading("server_facts_driver_parameter", "1", source=SYSFS, name="NvLinkDisable")
    assert found(one(added(record, parameter), "1x H200 nvlink"), "nvlink-missing").parameters["disabled"] is True


def test_unreadable_links_alone_prove_nothing() -> None:
    """Two GPUs, no matrix, no count of links: absence is not evidence of absence."""
    record = builders.healthy("H100 SXM5 80GB", 2, nvlink=False)
    for metric in ("topology_path", "topology_nvlinks_active_total"):
        record = without(record, metric)
    assert links(record) == set()


def test_one_gpu_whose_links_nvml_refuses() -> None:
    """A null count with a reason is the driver's refusal; for one GPU it is information."""
    record = without(builders.healthy(gpus=1, nvlink=False), "topology_nvlinks_active_total")
    record = on("server_facts_driver_parameter", "0")(record)
    assert links(record) == set()
    refused = added(record, reading("topology_nvlinks_supported_total", None, "gpu0", NVML))
    assert links(refused) == {"nvlink-off"}
    assert "nvlink-missing" in links(refused, METAL_H200)


def test_mig_and_vgpu_hide_nvlink_by_design() -> None:
    """With MIG on, inactive links are no fault."""
    dark = chain(on("topology_nvlinks_active_total", 0), on("topology_path", "SYS"))(H200)
    assert "nvlink-missing" in links(dark)
    assert links(on("gpu_identity_mig_enabled", True, which="current")(dark)) == set()
    assert links(on("gpu_identity_virtualization_mode", "vgpu")(dark)) == set()


def test_missing_nvlink_on_one_family_is_for_review() -> None:
    """The driver's matrix alone is one family; slow copies are the second."""
    dark = chain(on("topology_nvlinks_active_total", 0), on("topology_path", "SYS"))(H200)
    assert found(one(dark, METAL_H200), "nvlink-missing").severity == "review"
    slow = chain(
        on("collectives_algbw_bytes_per_second", 8e9), on("collectives_busbw_bytes_per_second", 1.4e10),
    )(dark)  # fmt: skip
    assert found(one(slow, METAL_H200), "nvlink-missing").severity == "reject"
    copies = on("peer_copy_bytes_per_second", 2e10)(dark)
    assert found(one(copies, METAL_H200), "nvlink-missing").severity == "reject"


def test_links_down_on_every_gpu_alike() -> None:
    """Sixteen of eighteen on all GPUs is one finding on the server, not eight."""
    record = on("topology_nvlinks_active_total", 16)(H200)
    finding = found(one(record, METAL_H200), "nvlink-partial")
    assert finding.subject == "server"
    assert finding.parameters["measured"] == 16


def test_a_gpu_cut_off_from_the_mesh_is_partial_not_meshless() -> None:
    """One GPU without any link: the rest is meshed, the GPU is named."""
    record = changed(H200, "topology_nvlinks_active_total", 0, "gpu2")
    record = dataclasses.replace(
        record,
        readings=tuple(
            dataclasses.replace(r, value="SYS") if r.metric == "topology_path" and "gpu2" in r.subject else r
            for r in record.readings
        ),
    )
    result = one(record, METAL_H200)
    assert found(result, "nvlink-partial").subject == "gpu2"
    assert "nvlink-no-mesh" not in ids(result)


@pytest.mark.parametrize(
    ("name", "edits", "expected"),
    [
        ("service dead, fabric complete", (on("server_facts_fabric_manager", "failed"),), "review"),
        (
            "registration failed",
            (on("topology_fabric_state", "not_supported"), on("topology_fabric_status", 5)),
            "reject",
        ),
        ("not started", (on("topology_fabric_state", "not_started"),), "reject"),
        ("all well", (), None),
        ("service unknown", (on("server_facts_fabric_manager", "unknown"),), None),
    ],
)
def test_fabric_manager(name: str, edits: tuple[object, ...], expected: str | None) -> None:
    """State, registration and service; a completed fabric hides a dead service until the next reset."""
    result = one(chain(*edits)(H200), METAL_H200)  # type: ignore[arg-type]
    severities = [f.severity for f in result.findings if f.id == "fm-not-running"]
    # the state is the driver's word alone: misallocated needs two families for a reject
    wanted = {"reject": "review"}.get(expected or "", expected)
    assert severities == ([wanted] if wanted else []), name


def test_a_guest_has_no_fabric_manager_of_its_own() -> None:
    """In the shared-NVSwitch model the service runs on the host."""
    guest = builders.healthy(guest=True)
    dead = on("server_facts_fabric_manager", "inactive")(guest)
    assert "fm-not-running" not in ids(one(dead, "8x H200 nvswitch vm"))
    small = on("server_facts_fabric_manager", "failed")(builders.healthy(gpus=1))
    assert "fm-not-running" not in ids(one(small))


def test_floors_of_eight_gpus() -> None:
    """40 GB/s over NVLink and 8 GB/s over PCIe for 400 MB float32, at most review; 4 GPUs have no floor."""
    for model, rate, link in (("A100 SXM4 80GB", 39e9, "NVLink"), ("L40S", 7.9e9, "PCIe")):
        record = on("collectives_algbw_bytes_per_second", rate)(builders.healthy(model))
        finding = found(one(record), "allreduce-below-floor")
        assert finding.severity == "review"
        assert finding.basis == "floor"
        assert finding.parameters["link"] == link
    four = on("collectives_algbw_bytes_per_second", 1e9)(builders.healthy("A100 SXM4 80GB", 4))
    assert "allreduce-below-floor" not in ids(one(four))
    half = on("collectives_algbw_bytes_per_second", 1e9)(A100)
    half = dataclasses.replace(
        half,
        readings=tuple(
            dataclasses.replace(r, conditions=r.conditions | {"dtype": "bf16"})
            if r.metric.startswith("collectives_") and "dtype" in r.conditions
            else r
            for r in half.readings
        ),
    )
    assert "allreduce-below-floor" not in ids(one(half))


def test_nccl_tests_text_stands_in_for_the_floor() -> None:
    """A pasted nccl-tests table is held against the same floor."""
    record = without(A100, "collectives_algbw_bytes_per_second")
    what = {"op": "all_reduce", "ranks": 8, "dtype": "float", "bytes": 268435456, "place": "out"}
    record = added(record, reading("nccl_tests_algbw_bytes_per_second", 9e9, source="text/nccl-tests", **what))
    assert "allreduce-below-floor" in ids(one(record))


def test_published_all_reduce_needs_its_context() -> None:
    """Another count, another size class or an unknown model has no published line and no finding."""
    slow = chain(
        on("collectives_busbw_bytes_per_second", times(0.6)), on("collectives_algbw_bytes_per_second", times(0.6))
    )
    assert "collective-low" in ids(one(slow(A100), METAL_A100))
    assert "collective-low" not in ids(one(slow(builders.healthy("A100 SXM4 80GB", 3))))
    small = dataclasses.replace(
        slow(A100),
        readings=tuple(
            r
            for r in slow(A100).readings
            if r.conditions.get("bytes", 0) in (0, 8388608) or "bytes" not in r.conditions
        ),
    )
    assert "collective-low" not in ids(one(small))
    odd = chain(on("collectives_busbw_bytes_per_second", "fast"))(A100)
    assert "collective-low" not in ids(one(odd))


def test_nvls_unknown_uses_the_ring_level() -> None:
    """H200 with NVLS unknown is held against ring figures, where there are any at the size."""
    ring = on("collectives_busbw_bytes_per_second", times(0.82))(H200)
    assert "collective-low" in ids(one(ring, METAL_H200))
    assert "collective-low" not in ids(one(on("collectives_nvls", None)(ring), METAL_H200))


def test_slow_copies_of_one_pair_and_of_all() -> None:
    """One pair is named; when most are slow it is the server."""
    one_pair = on("peer_copy_bytes_per_second", 1e11, "gpu2-gpu3")(H200)
    assert found(one(one_pair, METAL_H200), "peer-copy-low").subject == "gpu2-gpu3"
    everything = on("peer_copy_bytes_per_second", 1e11)(H200)
    assert found(one(everything, METAL_H200), "peer-copy-low").subject == "server"


def test_wrong_data_of_every_kind() -> None:
    """Wrong elements of a collective or a copy are a reject on the subject that had them."""
    record = on("collectives_errors_total", 3)(H200)
    assert found(one(record, METAL_H200), "data-corrupted").subject == "server"
    unchecked = added(A100, reading("nccl_tests_errors_total", None, source="text/nccl-tests", op="all_reduce"))
    assert "data-corrupted" not in ids(one(unchecked))


def test_peer_access() -> None:
    """GeForce refuses by design, PCIe cards get advice, boards with NVLink a review."""
    for model, severity in (("RTX 4090", "info"), ("L40S", "advice"), ("H200 SXM5 141GB", "review")):
        record = on("topology_p2p_status", "gns", capability="read")(builders.healthy(model, 2))
        record = added(record, reading("topology_p2p_access", False, "gpu0-gpu1", "driver/cuda"))
        assert found(one(record), "p2p-disabled").severity == severity


def test_acs_and_iommu_on_bare_metal() -> None:
    """Redirect and translation are advice, and the cause where peers are refused; guests need them."""
    translated = chain(
        on("server_facts_iommu", "DMA-FQ,identity"),
        lambda r: added(r, reading("topology_acs_redirect", "0000:15:01.0", source=SYSFS)),
    )
    mild = one(translated(H200), METAL_H200)
    assert found(mild, "acs-on").severity == "advice"
    assert found(mild, "iommu-translated").severity == "info"
    blocked = one(translated(on("topology_p2p_status", "tns", capability="read")(H200)), METAL_H200)
    assert found(blocked, "acs-on").severity == "review"
    assert found(blocked, "p2p-disabled").root == "gpu-01:acs-on:server"
    guest = one(translated(builders.healthy(guest=True)), "8x H200 nvswitch vm")
    assert not ids(guest) & {"acs-on", "iommu-translated"}


def test_sys_inside_one_numa_node() -> None:
    """SYS between GPUs of one node is a virtual tree: the user's floor, an advice."""
    record = chain(on("topology_path", "SYS"), on("topology_numa_node", 0))(builders.healthy("L40S", 4))
    finding = found(one(record), "topology-cross-numa")
    assert finding.basis == "floor"
    assert finding.severity == "advice"


def test_half_a_box_spread_over_both_sockets() -> None:
    """Four of eight GPUs that would fit on one socket but sit on both."""
    record = changed(builders.healthy("L40S", 4), "server_facts_gpus_on_bus_total", 8)
    assert "topology-cross-numa" in ids(one(record))
    near = on("topology_numa_node", 0)(record)
    near = on("topology_path", "NODE")(near)
    assert "topology-cross-numa" not in ids(one(near))


def nics(record: Record, *cells: tuple[str, str]) -> Record:
    """The record with these cells of GPUs and network cards."""
    return added(record, *(reading("topology_path", word, pair, NVML) for pair, word in cells))


def test_network_cards_near_and_far() -> None:
    """A far card is a finding only where a sibling has a near one, and only on metal."""
    record = builders.healthy("L40S", 2)
    mixed = nics(record, ("gpu0-nic0", "PIX"), ("gpu0-nic1", "SYS"), ("gpu1-nic0", "SYS"), ("gpu1-nic1", "NODE"))
    finding = found(one(mixed), "nic-far")
    assert finding.parameters["gpus"] == "gpu1"
    assert finding.parameters["path"] == "NODE"
    alike = nics(record, ("gpu0-nic0", "SYS"), ("gpu1-nic0", "SYS"), ("gpu1-nic1", "odd"))
    assert "nic-far" not in ids(one(alike))
    guest = nics(builders.healthy("L40S", 2, guest=True), ("gpu0-nic0", "PIX"), ("gpu1-nic0", "SYS"))
    assert "nic-far" not in ids(one(guest))


def test_direct_rdma() -> None:
    """Neither peermem nor the open driver: advice, and a review where cards were ordered."""
    record = chain(on("server_facts_peermem", False), on("server_facts_driver_flavour", "proprietary"))(H200)
    assert "gdr-missing" not in ids(one(record))
    record = added(record, reading("network_interfaces_rdma", "mlx5_0", "nic0", SYSFS))
    assert found(one(record), "gdr-missing").severity == "advice"
    order = {"gpu": "H200", "gpus": 8, "nics": {"count": 1}}
    assert found(one(record, order), "gdr-missing").severity == "review"
    assert "gdr-missing" not in ids(one(on("server_facts_driver_flavour", "open")(record)))


def test_links_that_are_up_and_join_nobody() -> None:
    """Every cell SYS, all links up: copies at PCIe rate prove it, without them a person must look."""
    slow = chain(on("topology_path", "SYS"), on("peer_copy_bytes_per_second", 1.6e10))(H200)
    finding = found(one(slow, METAL_H200), "nvlink-no-mesh")
    assert (finding.severity, finding.parameters["variant"], finding.parameters["active"]) == ("reject", "unjoined", 18)
    assert "28 of 28" in render(finding, "en").observed
    blind = without(on("topology_path", "SYS")(H200), "peer_copy_bytes_per_second")
    assert found(one(blind, METAL_H200), "nvlink-no-mesh").severity == "review"


def test_a_matrix_of_sys_while_nvlink_carries() -> None:
    """Copies run faster than PCIe could: the matrix is wrong, and NVLink is not told to be missing."""
    result = one(on("topology_path", "SYS")(H200), METAL_H200)
    assert not ids(result) & LINK_IDS
    assert found(result, "nvlink-counts-disagree").severity == "review"
    assert result.verdict == "review"


@pytest.mark.parametrize(("model", "gpus", "path", "hit"), [
    ("L40S", 4, "NV18", True), ("RTX 4090", 2, "NV8", True), ("H100 PCIe 80GB", 4, "NV18", True),
    ("H100 PCIe 80GB", 2, "NV12", False), ("A100 SXM4 80GB", 8, "NV12", False), ("L40S", 4, "NODE", False),
])  # fmt: skip
def test_a_mesh_that_the_card_cannot_have(model: str, gpus: int, path: str, hit: bool) -> None:
    """NVLink among cards that have none, or among all of several that bridge in pairs: an SXM board renamed."""
    result = one(on("topology_path", path)(builders.healthy(model, gpus)))
    assert ("patched-name" in ids(result)) is hit
    if hit:
        finding = found(result, "patched-name")
        assert (finding.subject, finding.severity, finding.category) == ("server", "review", "unproven")
