"""Levels from several weighted signs, never from one; guests that are what was ordered are no complaint."""

from __future__ import annotations

import pytest

from auditor.records import Record, Subject
from auditor.report.texts import render
from tests import builders
from tests.builders import DMI, NVML, SYSFS, added, changed, reading, without
from tests.judge.faults import chain, on
from tests.judge.judged import METAL_H200, found, ids, one

METAL = builders.healthy(gpus=2)
GUEST = builders.healthy(gpus=2, guest=True)
ORDERED = "2x H200 nvswitch bare-metal"


def level(record: Record, ordered: str | None = ORDERED) -> tuple[str | None, str | None]:
    """The level, and the severity of `virtualized` if it is there."""
    result = one(record, ordered)
    severity = next((f.severity for f in result.findings if f.id == "virtualized"), None)
    return result.level, severity


def only(*edits: object) -> Record:
    """A bare-metal record with these edits."""
    return chain(*edits)(METAL)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "record", "expected"),
    [
        ("bare metal", METAL, ("bare metal", None)),
        ("full guest", GUEST, ("passthrough guest", "reject")),
        ("hypervisor flag alone", only(on("server_facts_hypervisor_flag", True)), ("unclear", "review")),
        (
            "Hyper-V root partition: flag and vendor are one family",
            only(on("server_facts_hypervisor_flag", True), on("server_facts_cpuid_vendor", "Microsoft Hv")),
            ("passthrough guest", "review"),
        ),
        (
            "metal cloud with its own cards",
            only(
                on("server_facts_dmi", "Amazon EC2", field="sys_vendor"),
                on("server_facts_dmi", "p5.48xlarge.metal", field="product_name"),
                on("server_facts_virtual_pci", "1d0f:ec20"),
            ),
            ("metal cloud", None),
        ),
        (
            "many weak signs",
            only(
                on("server_facts_cpu_model", "AMD EPYC-Milan Processor"),
                on("server_facts_microcode", "0xffffffff"),
                lambda r: added(r, reading("server_facts_acpi_oem", "BOCHS", source=SYSFS)),
            ),
            ("unclear", "review"),
        ),
        (
            "clock offered, not used, with the driver's word",
            only(
                on("gpu_identity_virtualization_mode", "passthrough"),
                lambda r: added(
                    r, reading("server_facts_clocksource", "tsc kvm-clock", source=SYSFS, which="available")
                ),
            ),
            ("passthrough guest", "reject"),
        ),
        ("container", only(on("server_facts_container", "docker")), ("container", "review")),
        ("gVisor", only(on("server_facts_sandbox", "gvisor")), ("sandbox", "review")),
        (
            "nothing could be read",
            without(without(METAL, "server_facts_hypervisor_flag"), "server_facts_cpuid_vendor"),
            ("unknown", None),
        ),
    ],
)
def test_levels(name: str, record: Record, expected: tuple[str, str | None]) -> None:
    """Each kind of machine comes out at its level, and as a reject only with two families."""
    found_level, severity = level(record)
    assert severity == expected[1], name
    if expected[0] != "unknown":
        assert found_level == expected[0], name


@pytest.mark.parametrize("ordered", [None, "2x H200 nvswitch", "2x H200 nvswitch vm"])
def test_a_guest_without_a_bare_metal_order_is_advice(ordered: str | None) -> None:
    """Virtualized is not bad: with full speed and no bare-metal order it is a description."""
    assert level(GUEST, ordered) == ("passthrough guest", "advice")
    said = render(found(one(GUEST, ordered), "virtualized"), "en")
    assert said.title == "Machine: passthrough guest"
    assert said.ask == "" and "Not bare metal" not in " ".join(vars(said).values())


def test_against_a_bare_metal_order_a_guest_is_complained_of() -> None:
    """What was ordered and is not there is asked for."""
    said = render(found(one(GUEST, ORDERED), "virtualized"), "en")
    assert said.title == "Not bare metal: passthrough guest"
    assert "Please move the order to bare metal" in said.ask
    nameless = without(changed(GUEST, "server_facts_cpuid_vendor", "none"), "server_facts_dmi")
    assert "(a hypervisor without a name)" in render(found(one(nameless, ORDERED), "virtualized"), "en").observed


@pytest.mark.parametrize(
    ("ordered", "title"), [(None, "Machine: looks like a guest"), (ORDERED, "Not bare metal: looks like a guest")]
)
def test_from_text_alone_a_guest_is_a_guess(ordered: str | None, title: str) -> None:
    """A pasted matrix names no hypervisor: the machine looks like a guest, no more."""
    paths = [reading("topology_path", "SYS", subject=f"gpu{a}-gpu{b}") for a in range(4) for b in range(a + 1, 4)]
    nodes = [reading("topology_numa_node", 0, subject=f"gpu{gpu}") for gpu in range(4)]
    gpus = [Subject(f"gpu{gpu}", "gpu", gpu) for gpu in range(4)]
    record = builders.record([*paths, *nodes], subjects=[*gpus, *(Subject(r.subject, "pair") for r in paths)])
    said = render(found(one(record, ordered, text_only=True), "virtualized"), "en")
    assert said.title == title
    assert "not measured" not in f"{said.observed}{said.ask}"


def test_firecracker_without_dmi_is_a_guest() -> None:
    """A micro-VM has no DMI and an ACPI maker of its own."""
    record = without(GUEST, "server_facts_dmi")
    record = added(record, reading("server_facts_acpi_oem", "FIRECK", source=SYSFS))
    record = changed(record, "server_facts_sandbox", "firecracker")
    record = changed(record, "server_facts_cpuid_vendor", "none")
    assert level(record) == ("passthrough guest", "reject")
    assert found(one(record, ORDERED), "virtualized").parameters["kind"] == "firecracker"


def test_a_vgpu_is_a_slice_whatever_its_memory() -> None:
    """The profile's name and NVML's mode; ordered as a GPU it is misallocated, on one family for review."""
    record = chain(
        on("gpu_identity_virtualization_mode", "vgpu"), on("gpu_identity_name", "NVIDIA H200-141C", source=NVML)
    )(GUEST)
    result = one(record, "2x H200 vm")
    assert result.level == "vGPU"
    assert found(result, "vgpu-grid").severity == "review"
    assert found(result, "vgpu-grid").parameters["profile"] == "NVIDIA H200-141C"
    assert found(one(record), "vgpu-grid").basis == "evidence"
    slice_ = on("memory_capacity_bytes", 60e9)(record)
    assert found(one(slice_, "2x H200 vm"), "vgpu-grid").severity == "reject"
    blind = without(slice_, "memory_capacity_bytes")
    assert found(one(blind, "2x H200 vm"), "vgpu-grid").severity == "review"
    grid = on("gpu_identity_name", "GRID A100-40C", source=NVML)(GUEST)
    assert one(grid).level == "vGPU"


def test_a_software_slice_with_less_memory_is_proven() -> None:
    """The library is the kernel's word, the missing memory the driver's: together a reject."""
    record = chain(on("server_facts_software_slice", "libvgpu.so"), on("gpu_identity_memory_bytes", 40e9, source=NVML))(
        METAL
    )
    result = one(record, "2x H200")
    assert found(result, "software-slice").severity == "reject"
    assert one(record).level == "software slice"
    blind = without(record, "gpu_identity_memory_bytes")
    assert found(one(blind, "2x H200"), "software-slice").severity == "review"
    assert found(one(record), "software-slice").severity == "review"


def test_api_remoting() -> None:
    """CUDA without a device on the bus or in /dev: the GPU is somewhere else."""
    record = chain(
        on("server_facts_gpus_on_bus_total", 0), on("server_facts_gpu_nodes_total", 0),
        on("latency_launch_seconds", 1.2e-4),
    )(METAL)  # fmt: skip
    result = one(record, "2x H200")
    assert result.level == "API remoting"
    assert found(result, "api-remoting").severity == "reject"
    assert found(result, "launch-slow", "gpu0").root == "gpu-01:api-remoting:server"
    still = on("server_facts_gpus_cuda_total", 0)(record)
    assert "api-remoting" not in ids(one(still))


def test_a_hidden_hypervisor_is_a_contradiction() -> None:
    """CPUID denies what a paravirtual clock betrays; an honest guest hides nothing."""
    record = on("server_facts_clocksource", "kvm-clock", which="current")(METAL)
    assert "hypervisor-hidden" in ids(one(record, METAL_H200))
    told = on("gpu_identity_virtualization_mode", "passthrough")(record)
    assert "hypervisor-hidden" not in ids(one(told))
    assert "hypervisor-hidden" not in ids(one(GUEST))


def test_numa_that_is_hidden_from_gpus() -> None:
    """No NUMA node on one socket of a bare-metal machine hides nothing; in a guest it does."""
    small = chain(
        on("gpu_identity_numa_node", -1), on("topology_numa_node", -1), on("server_facts_numa_nodes_total", 1),
        on("server_facts_sockets_total", 1),
    )(METAL)  # fmt: skip
    assert "numa-hidden" not in ids(one(small))
    assert "numa-hidden" in ids(one(GUEST))
    assert "numa-hidden" in ids(one(on("gpu_identity_numa_node", -1)(METAL)))
    bare = without(without(GUEST, "gpu_identity_numa_node"), "topology_numa_node")
    assert "numa-hidden" not in ids(one(bare))


def test_dmi_that_any_metal_may_have() -> None:
    """OracleCloud's asset tag stands on bare metal too."""
    record = added(METAL, reading("server_facts_dmi", "OracleCloud.com", source=DMI, field="chassis_asset_tag"))
    assert level(record) == ("bare metal", None)


def test_bare_metal_is_said() -> None:
    """A server that shows no sign of a hypervisor is told to be metal, as information; a guest is not."""
    result = one(builders.healthy(), METAL_H200)
    finding = found(result, "bare-metal")
    assert (finding.severity, finding.parameters["level"], result.level) == ("info", "bare metal", "bare metal")
    assert "bare-metal" not in ids(one(builders.healthy(guest=True), "8x H200"))


def test_a_missing_management_controller_names_no_guest() -> None:
    """A workstation without a BMC stays metal; with a generic CPU name and more, the sign supports."""
    bare = changed(builders.healthy(), "server_facts_bmc", False)
    assert one(bare, METAL_H200).level == "bare metal"
    betrayed = changed(bare, "server_facts_virtual_pci", "1af4:1041")
    assert one(betrayed, METAL_H200).level == "passthrough guest"
