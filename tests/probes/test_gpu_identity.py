"""Identity of GPUs: every source for itself, over the NVML double and fake trees."""

import os

import pytest

from auditor.probes import gpu_identity
from auditor.probes.engine.gpu_facts import GpuFacts, pci_address, same_address
from tests import nvml_double
from tests.nvml_double import Machine, healthy

from .machine_tree import Tree

GPU0 = GpuFacts(0, "GPU-1", "0000:07:00.0")


def identity(asked, double):
    """The probe alone."""
    return asked("gpu_identity", double)


def readings(outcome, metric, subject="gpu0"):
    """Values of one GPU by (source, condition)."""
    return {
        (row["source"], *row["with"].values()): row["value"]
        for row in outcome.record["readings"]
        if row["metric"] == f"gpu_identity_{metric}" and row["subject"] == subject
    }


def test_a_healthy_gpu_by_nvml_and_cuda(asked, machine):
    """The same card by both: names agree, units are base units, what a card lacks is left out."""
    outcome = identity(asked, machine(healthy("h200x1-guest")))
    assert outcome.rows("gpu_identity")["server"]["status"] == "measured"
    assert readings(outcome, "name") == {("driver/nvml",): "NVIDIA H200", ("driver/cuda",): "NVIDIA H200"}
    assert readings(outcome, "uuid")["driver/nvml",] == readings(outcome, "uuid")["driver/cuda",]
    assert readings(outcome, "pci_device") == {("driver/nvml",): "10de:2335"}
    assert readings(outcome, "pci_subsystem") == {("driver/nvml",): "10de:18bf"}
    assert readings(outcome, "memory_bytes") == {
        ("driver/nvml",): 150754820096,
        ("driver/cuda",): 150109880320,
    }
    assert readings(outcome, "sms_total") == {("driver/cuda",): 132}
    assert readings(outcome, "l2_bytes") == {("driver/cuda",): 62914560}
    assert readings(outcome, "compute_capability") == {("driver/nvml",): "9.0", ("driver/cuda",): "9.0"}
    assert readings(outcome, "power_limit_watts") == {
        ("driver/nvml", "now"): 700.0,
        ("driver/nvml", "default"): 700.0,
        ("driver/nvml", "min"): 200.0,
        ("driver/nvml", "max"): 700.0,
        ("driver/nvml", "enforced"): 700.0,
    }
    assert readings(outcome, "sm_clock_hertz")["driver/nvml", "max"] == 1980e6
    assert readings(outcome, "memory_clock_hertz")["driver/nvml", "max"] == 3201e6
    assert readings(outcome, "celsius") == {
        ("driver/nvml", "gpu"): 42,
        ("driver/nvml", "shutdown"): 95,
        ("driver/nvml", "slowdown"): 89,
        ("driver/nvml", "max_operating"): 87,
    }
    assert readings(outcome, "virtualization_mode") == {("driver/nvml",): "passthrough"}
    assert readings(outcome, "architecture") == {("driver/nvml",): "hopper"}
    assert readings(outcome, "ecc_enabled") == {("driver/nvml", "current"): True, ("driver/nvml", "pending"): True}
    assert readings(outcome, "fan") == {("driver/nvml",): False}
    assert readings(outcome, "inforom_valid") == {("driver/nvml",): True}


def test_sources_that_contradict_each_other_both_stand(asked, machine):
    """A renamed card: NVML says one thing, CUDA another; nothing is reconciled."""
    profile = nvml_double.edited(
        healthy("a100x8-nvswitch", 2), 1, nvmlDeviceGetName="NVIDIA H100", **{"cuda name": "NVIDIA A100-SXM4-80GB"}
    )
    outcome = identity(asked, machine(profile))
    assert readings(outcome, "name", "gpu1") == {
        ("driver/nvml",): "NVIDIA H100",
        ("driver/cuda",): "NVIDIA A100-SXM4-80GB",
    }
    assert readings(outcome, "name", "gpu0")["driver/nvml",] == "NVIDIA A100-SXM4-80GB"


def test_cuda_is_matched_by_address_not_by_place(asked, machine):
    """CUDA may see fewer GPUs: the third of the bus is then its second."""
    profile = healthy("a100x8-nvswitch", 3)
    profile["cuda"] = {"visible": [0, 2]}
    profile["gpus"][2]["cuda name"] = "the third"
    outcome = identity(asked, machine(profile))
    assert readings(outcome, "name", "gpu2")["driver/cuda",] == "the third"
    assert ("driver/cuda",) not in readings(outcome, "name", "gpu1")


@pytest.mark.parametrize(
    ("edit", "metric", "expected"),
    [
        ({"nvmlDeviceGetEccMode": [1, 0]}, "ecc_enabled", {("current",): True, ("pending",): False}),
        ({"nvmlDeviceGetEccMode": None}, "ecc_enabled", {}),  # a GeForce: not supported is not "off"
        ({"nvmlDeviceGetMigMode": [0, 1]}, "mig_enabled", {("current",): False, ("pending",): True}),
        ({"nvmlDeviceGetComputeMode": 3}, "compute_mode", {(): "exclusive_process"}),
        ({"nvmlDeviceGetVirtualizationMode": 2}, "virtualization_mode", {(): "vgpu"}),
        ({"nvmlDeviceGetBrand": 4}, "brand", {(): "grid"}),
        ({"nvmlDeviceGetBrand": 77}, "brand", {(): "number 77"}),
        ({"nvmlDeviceGetFanSpeed": 30}, "fan", {(): True}),
        ({"nvmlDeviceValidateInforom": "ERR Corrupted InfoROM"}, "inforom_valid", {(): False}),
        ({"nvmlDeviceValidateInforom": "ERR Not Supported"}, "inforom_valid", {}),
        ({"nvmlDeviceGetSerial": "0"}, "serial", {(): "0"}),
        ({"nvmlDeviceGetApplicationsClock[1]": "ERR Deprecated"}, "sm_clock_hertz", "without application"),
        ({"nvmlDeviceGetPowerManagementLimit": 300000}, "power_limit_watts", "now 300"),
    ],
)
def test_what_a_driver_says_or_will_not_say(asked, machine, edit, metric, expected):
    """A refusal leaves no reading: unknown is neither off nor zero."""
    found = readings(identity(asked, machine(nvml_double.edited(healthy("h200x1-guest"), 0, **edit))), metric)
    by_nvml = {key[1:]: value for key, value in found.items() if key[0] == "driver/nvml"}
    if expected == "without application":
        assert ("application",) not in by_nvml and by_nvml["max",] == 1980e6
    elif expected == "now 300":
        assert by_nvml["now",] == 300.0 and by_nvml["default",] == 700.0
    else:
        assert by_nvml == expected


def test_the_first_look_is_taken_before_any_process_of_ours(asked, machine):
    """Memory, load and processes are those of the tenant, not of our workers."""
    profile = nvml_double.used(healthy("a100x8-nvswitch", 2), 1, os.getpid())
    profile = nvml_double.crowded(profile, 1, 5 << 30)
    profile["gpus"][1]["nvmlDeviceGetUtilizationRates"] = {"gpu": 80, "memory": 20}
    outcome = identity(asked, machine(profile))
    for metric, empty, used in (
        ("memory_used_bytes", 0, 5 << 30),
        ("processes_total", 0, 1),
        ("utilization_ratio", 0.0, 0.8),
    ):
        assert readings(outcome, metric)["driver/nvml",] == empty
        assert readings(outcome, metric, "gpu1")["driver/nvml",] == used


def test_a_lost_gpu_leaves_no_reading_and_hides_no_other(asked, machine):
    """nvidia-smi prints nothing at all for a server with a lost GPU."""
    outcome = identity(asked, machine(nvml_double.lost(healthy("a100x8-nvswitch", 3), 1)))
    assert {row["subject"] for row in outcome.record["readings"]} >= {"gpu0", "gpu2"}
    assert readings(outcome, "serial", "gpu1") == {}
    assert "gpu1: NVML says gpu_lost" in outcome.rows("gpu_identity")["server"]["reason"]


def test_a_gpu_that_is_lost_while_it_is_asked(asked, machine):
    """The answers it gave stand, the rest is missing; the other GPU is complete."""
    double = machine(nvml_double.lost_after(healthy("a100x8-nvswitch", 2), 1, 12))
    outcome = identity(asked, double)
    assert outcome.code == 0
    assert len(readings(outcome, "power_limit_watts")) == 5
    assert readings(outcome, "power_limit_watts", "gpu1") == {}


def test_a_driver_of_the_past_lacks_calls(asked, nvml_libraries, tmp_path):
    """Missing symbols cost their own readings only; memory falls back to the first form of its call."""
    missing = [
        "nvmlDeviceGetModuleId",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetMemoryBusWidth",
        "nvmlDeviceGetArchitecture",
        "nvmlDeviceGetComputeRunningProcesses_v3",
    ]
    double = Machine(tmp_path / "old", nvml_double.build(tmp_path / "libraries", missing), healthy("h200x1-guest"))
    outcome = identity(asked, double)
    assert readings(outcome, "module_id") == readings(outcome, "architecture") == {}
    assert readings(outcome, "memory_used_bytes")["driver/nvml",] == 644939776
    assert readings(outcome, "processes_total")["driver/nvml",] == 0
    assert readings(outcome, "name")["driver/nvml",] == "NVIDIA H200"


def test_a_cuda_that_does_not_answer_is_told(asked, machine):
    """Its word stands in the row; NVML's readings are all there."""
    profile = {**healthy("h200x1-guest"), "cuda": {"cuInit": 999}}
    outcome = identity(asked, machine(profile))
    assert "CUDA: CUDA_ERROR_UNKNOWN" in outcome.rows("gpu_identity")["server"]["reason"]
    assert readings(outcome, "name") == {("driver/nvml",): "NVIDIA H200"}


# --- bus and /proc -----------------------------------------------------------------------------------------------


def facts(found):
    """Facts by quantity."""
    return {quantity: (value, source) for quantity, value, source, _ in found}


def test_the_bus_tells_ids_and_node(tmp_path):
    """Whatever the driver says: the numbers in configuration space."""
    root = Tree(tmp_path).gpu("pci0000:00/0000:00:01.0/0000:07:00.0", node=1)
    assert facts(gpu_identity.by_bus(str(root), GPU0)) == {
        "pci_device": ("10de:20b2", "kernel/sysfs"),
        "pci_subsystem": ("10de:1463", "kernel/sysfs"),
        "numa_node": (1, "kernel/sysfs"),
    }
    assert facts(gpu_identity.by_bus(str(root), GpuFacts(1, "GPU-2", "0000:08:00.0"))) == {}
    assert facts(gpu_identity.by_bus(str(root), GpuFacts(1, "GPU-2", None))) == {}


def test_the_kernel_module_has_its_own_page(tmp_path):
    """Name, UUID and VBIOS by /proc; question marks, which an unprivileged reader gets, are no values."""
    page = "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-????????-????\nVideo BIOS: \t 92.00.45\nBus Type: \t PCIe\n"
    root = Tree(tmp_path).write("proc/driver/nvidia/gpus/0000:07:00.0/information", page)
    assert facts(gpu_identity.by_proc(str(root), GPU0)) == {
        "name": ("NVIDIA A100", "driver/proc"),
        "vbios": ("92.00.45", "driver/proc"),
    }


def test_addresses_are_the_same_however_the_domain_is_written():
    """Four digits, eight, capitals; another domain is another device."""
    assert pci_address("00000000:3B:00.0") == "0000:3b:00.0"
    assert pci_address("10000:E1:00.0") == "10000:e1:00.0"
    assert pci_address("nonsense") == "nonsense"
    assert same_address("00000000:06:00.0", "0000:06:00.0")
    assert not same_address("0001:06:00.0", "0000:06:00.0")
    assert not same_address(None, "0000:06:00.0")
