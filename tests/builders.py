"""Synthetic records for tests: whole healthy machines of any catalogue model, and one fault at a time.

Everything made here says `synthetic: true`. Figures of a healthy machine are the catalogue's published ones (or
the share of spec the best-known cards reach), so that a test changes one thing and knows what must follow.
"""

from __future__ import annotations

import dataclasses
import itertools
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from auditor import catalog
from auditor.catalog.model import MIB, Model
from auditor.records import Condition, ProbeRow, Reading, Record, Seconds, Subject, Tool, Value

NVML, CUDA, PROC, SYSFS, CPUID, DMI = (
    "driver/nvml",
    "driver/cuda",
    "driver/proc",
    "kernel/sysfs",
    "kernel/cpuid",
    "kernel/dmi",
)
PROBES = (
    "server_facts",
    "gpu_identity",
    "topology",
    "gpu_health",
    "time_slicing",
    "matmul",
    "memory_bandwidth",
    "memory_capacity",
    "l2_cache",
    "latency",
    "host_copy",
    "peer_copy",
    "collectives",
    "thermal",
)
_METRIC_PROBES = sorted((*PROBES, "steal_time", "training_step", "kernel_log"), key=len, reverse=True)


def reading(
    metric: str, value: Value, subject: str = "server", source: str = "measured", *, spread: float | None = None,
    n: int | None = None, **conditions: Condition,
) -> Reading:  # fmt: skip
    """One reading; `from_` is written `from`, and the probe is read off the metric's name."""
    if conditions:
        conditions = {name.rstrip("_"): condition for name, condition in conditions.items()}
    return Reading(_probe(metric), metric, subject, value, source, conditions, spread, n)


@cache
def _probe(metric: str) -> str:
    return next((p for p in _METRIC_PROBES if metric.startswith(f"{p}_")), metric.split("_")[0])


def record(
    readings: Iterable[Reading] = (), *, server: str = "gpu-01", profile: str = "standard", device: str = "cuda",
    subjects: Iterable[Subject] = (), probes: Iterable[ProbeRow] = (), synthetic: bool = True, nonce: str | None = None,
) -> Record:  # fmt: skip
    """A record of exactly these readings."""
    return Record(
        schema=1,
        tool=Tool("auditor-probe", "0.1.0"),
        run="20261201T031500Z",
        server=server,
        profile=profile,
        device=device,
        started="2026-12-01T03:15:00Z",
        seconds=Seconds(61.0, 6.5, 54.5),
        synthetic=synthetic,
        nonce=nonce,
        subjects=tuple(subjects),
        probes=tuple(probes),
        readings=tuple(readings),
    )


@dataclass(frozen=True)
class Machine:
    """How a synthetic server is built; `scale` multiplies a GPU's figures of one kind: scale("matmul", 3)."""

    model: str = "H200 SXM5 141GB"
    gpus: int = 8
    server: str = "gpu-01"
    profile: str = "standard"
    guest: bool = False
    nvlink: bool = True
    scale: Callable[[str, int], float] = lambda kind, gpu: 1.0
    serial: str = ""


def healthy(model: str = "H200 SXM5 141GB", gpus: int = 8, **how: object) -> Record:
    """A healthy bare-metal server of a catalogue model with its full interconnect."""
    return build(Machine(model=model, gpus=gpus, **how))  # type: ignore[arg-type]  # the keywords are Machine's


def a100x8_kvm(server: str = "gpu-01", profile: str = "standard") -> Record:
    """The reference case: sold as bare-metal 8 x A100 with NVSwitch, is a KVM guest with NVLink off."""
    return build(Machine("A100 SXM4 80GB", 8, server, profile, guest=True, nvlink=False))


def build(machine: Machine) -> Record:
    """The record of a machine."""
    model = catalog.load().get(machine.model)
    assert model is not None, f"{machine.model} is in no catalogue"
    ids = [f"gpu{index}" for index in range(machine.gpus)]
    pairs = list(itertools.combinations(range(machine.gpus), 2))
    subjects = [Subject("server", "server")]
    for index in range(machine.gpus):
        subjects.append(Subject(ids[index], "gpu", index, _uuid(machine, index), _pci(machine, index), _name(model)))
    subjects += [Subject(f"gpu{a}-gpu{b}", "pair") for a, b in pairs]
    readings = [*_server(machine, model)]
    for index in range(machine.gpus):
        readings += _identity(machine, model, index)
        readings += _links(machine, model, index)
        readings += _work(machine, model, index)
    for a, b in pairs:
        readings += _pair(machine, model, a, b)
    if machine.gpus > 1:
        readings += _collectives(machine, model)
    rows = [
        ProbeRow(probe, 1, subject, "measured", None, 1.0)
        for probe in PROBES
        for subject in (ids if probe in _PER_GPU else ["server"])
        if machine.gpus > 1 or probe not in ("peer_copy", "collectives")
    ]
    return record(readings, server=machine.server, profile=machine.profile, subjects=subjects, probes=rows)


_PER_GPU = (
    "time_slicing",
    "matmul",
    "memory_bandwidth",
    "memory_capacity",
    "l2_cache",
    "latency",
    "host_copy",
    "thermal",
)
_SUSTAINED = {"bf16": 0.670, "fp16": 0.645, "tf32": 0.675, "fp32": 0.77, "fp8": 0.63, "fp64": 0.79}
_A100 = {"bf16": 0.85, "fp16": 0.83, "tf32": 0.82, "fp32": 0.97, "fp64": 0.93}
_MEMORY = {"read": 0.935, "write": 0.96, "copy": 0.89, "triad": 0.91}
_A100_MEMORY = {"read": 0.875, "write": 0.92, "copy": 0.84, "triad": 0.862}
_COPY = {3: 12.3e9, 4: 26.0e9, 5: 55.3e9, 6: 57.7e9}
_BUSBW = {  # 400 MB float32: published rows of the catalogue
    "A100 SXM4 80GB": 219e9, "A100 SXM4 40GB": 222e9, "H100 SXM5 80GB": 433e9, "H200 SXM5 141GB": 443e9,
    "B200 SXM6 180GB": 671e9, "H20 96GB": 349e9, "H800 SXM5 80GB": 205e9, "A800 SXM4 80GB": 150e9,
}  # fmt: skip


def _uuid(machine: Machine, index: int) -> str:
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{machine.server}{machine.serial}-{index}')}"


def _pci(machine: Machine, index: int) -> str:
    return f"0000:00:{5 + index:02x}.0" if machine.guest else f"0000:{0x1B + 0x10 * index:02x}:00.0"


def _name(model: Model) -> str:
    return model.nvml_names[0] if model.nvml_names else f"NVIDIA {model.name}"


def _server(machine: Machine, model: Model) -> Iterable[Reading]:
    facts: list[tuple[str, Value, str]] = [
        ("hostname", machine.server, SYSFS),
        ("os", "Ubuntu 24.04.3 LTS", SYSFS),
        ("kernel", "6.8.0-60-generic", SYSFS),
        ("architecture", "x86_64", SYSFS),
        ("cpu_model", "Intel(R) Xeon(R) Processor" if machine.guest else "Intel(R) Xeon(R) Platinum 8480+", CPUID),
        ("cpus_total", 224, SYSFS),
        ("sockets_total", 1 if machine.guest else 2, SYSFS),
        ("numa_nodes_total", 1 if machine.guest else 2, SYSFS),
        ("microcode", "0x1" if machine.guest else "0x2b000639", CPUID),
        ("cpufreq", "none" if machine.guest else "intel_pstate", SYSFS),
        ("memory_bytes", 2_151_677_882_368, SYSFS),
        ("shm_bytes", 1_075_838_941_184, SYSFS),
        ("hypervisor_flag", machine.guest, CPUID),
        ("cpuid_vendor", "KVMKVMKVM" if machine.guest else "none", CPUID),
        ("virtual_pci", "1af4:1041,1af4:1042,1b36:000d" if machine.guest else "", SYSFS),
        ("bmc", not machine.guest, SYSFS),
        ("container", "none", SYSFS),
        ("sandbox", "none", SYSFS),
        ("software_slice", "none", SYSFS),
        ("preload", "none", SYSFS),
        ("gpus_on_bus_total", machine.gpus, SYSFS),
        ("gpu_nodes_total", machine.gpus, SYSFS),
        ("gpus_nvml_total", machine.gpus, NVML),
        ("gpus_cuda_total", machine.gpus, CUDA),
        ("driver_version", "580.159.04", NVML),
        ("driver_version", "580.159.04", PROC),
        ("driver_flavour", "open", PROC),
        ("cuda_version", "13.0", NVML),
        ("fabric_manager", "active" if model.nvswitch_capable and not machine.guest else "absent", SYSFS),
        ("iommu", "none" if machine.guest else "identity", SYSFS),
        ("peermem", True, SYSFS),
        ("nvidia_smi", "elf", SYSFS),
        ("nvml_library", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.159.04 2257216", SYSFS),
        ("torch_version", "2.11.0+cu130", "measured"),
        ("torch_cuda_version", "13.0", "measured"),
        ("interpreter", "/usr/bin/python3 3.12.3", "measured"),
    ]
    for quantity, value, source in facts:
        yield reading(f"server_facts_{quantity}", value, source=source)
    maker = "QEMU" if machine.guest else "Supermicro"
    yield reading("server_facts_dmi", maker, source=DMI, field="sys_vendor")
    product = "Standard PC (Q35 + ICH9, 2009)" if machine.guest else "SYS-821GE-TNHR"
    yield reading("server_facts_dmi", product, source=DMI, field="product_name")
    clock = "kvm-clock" if machine.guest else "tsc"
    yield reading("server_facts_clocksource", clock, source=SYSFS, which="current")
    off = "1" if model.nvlink_links and not machine.nvlink else "0"
    yield reading("server_facts_driver_parameter", off, source=PROC, name="NvLinkDisable")


def _identity(machine: Machine, model: Model, index: int) -> Iterable[Reading]:
    gpu = f"gpu{index}"
    memory = int(model.memory_bytes[0])
    name, device = _name(model), model.pci_device_ids[0]
    uuid_ = _uuid(machine, index)
    facts: list[tuple[str, Value, tuple[str, ...]]] = [
        ("name", name, (NVML, CUDA, PROC)),
        ("pci_device", device, (NVML, SYSFS)),
        ("pci_subsystem", "10de:1463", (NVML, SYSFS)),
        ("uuid", uuid_, (NVML, CUDA, PROC)),
        ("serial", f"16{abs(hash_(uuid_)) % 10**11:011d}", (NVML,)),
        ("vbios", "96.00.99.00.01", (NVML, PROC)),
        ("board_part_number", "900-2G520-0040-000", (NVML,)),
        ("inforom_valid", True, (NVML,)),
        ("compute_capability", model.compute_capability, (NVML, CUDA)),
        ("sms_total", model.sm_count, (CUDA,)),
        ("l2_bytes", int((model.l2_mb or 50) * MIB), (CUDA,)),
        ("memory_bytes", memory, (NVML,)),
        ("memory_bytes", int(memory * 0.996), (CUDA,)),
        ("memory_used_bytes", 5 * MIB, (NVML,)),
        ("memory_bus_bits", model.memory_bus_bits, (NVML, CUDA)),
        ("persistence", True, (NVML,)),
        ("compute_mode", "default", (NVML,)),
        ("numa_node", -1 if machine.guest else index * 2 // max(machine.gpus, 1), (SYSFS,)),
        ("virtualization_mode", "passthrough" if machine.guest else "none", (NVML,)),
        ("minor", index, (NVML,)),
        ("fan", model.cooling.startswith("active"), (NVML,)),
        ("processes_total", 0, (NVML,)),
        ("utilization_ratio", 0.0, (NVML,)),
    ]
    for quantity, value, sources in facts:
        for source in sources:
            yield reading(f"gpu_identity_{quantity}", value, gpu, source)
    for which in ("current", "pending"):
        yield reading("gpu_identity_ecc_enabled", True, gpu, NVML, which=which)
        yield reading("gpu_identity_mig_enabled", False, gpu, NVML, which=which)
    for which in ("now", "default", "max", "enforced"):
        yield reading("gpu_identity_power_limit_watts", model.tdp_w, gpu, NVML, which=which)
    clock = (model.nvml_max_sm_clock_mhz or model.boost_clock_mhz or 1500) * 1e6
    yield reading("gpu_identity_sm_clock_hertz", clock, gpu, NVML, which="max")
    yield reading("gpu_identity_memory_clock_hertz", 2.6e9, gpu, NVML, which="max")
    yield reading("gpu_identity_celsius", 90, gpu, NVML, which="slowdown")


def hash_(text: str) -> int:
    """A number that is the same in every process, unlike Python's own hash of text."""
    return int.from_bytes(uuid.uuid5(uuid.NAMESPACE_DNS, text).bytes[:6], "big")


def _links(machine: Machine, model: Model, index: int) -> Iterable[Reading]:
    gpu = f"gpu{index}"
    if model.nvlink_links and (model.sxm or not machine.nvlink):
        active = model.nvlink_links if machine.nvlink and machine.gpus > 1 else 0
        yield reading("topology_nvlinks_active_total", active, gpu, NVML)
        for link in range(model.nvlink_links):
            yield reading("topology_link_state", "active" if active else "inactive", f"{gpu}/link{link}", NVML)
    if model.nvswitch_capable:
        state = "not_supported" if machine.guest or not machine.nvlink else "completed"
        yield reading("topology_fabric_state", state, gpu, NVML)
        if state == "completed":
            yield reading("topology_fabric_status", 0, gpu, NVML)
    for which in ("current", "max"):
        yield reading("topology_pcie_generation", model.pcie_gen, gpu, NVML, port="gpu", which=which)
        yield reading("topology_pcie_width_lanes", model.pcie_lanes, gpu, NVML, port="gpu", which=which)
    yield reading("topology_numa_node", -1 if machine.guest else index * 2 // machine.gpus, gpu, SYSFS)


def _meshed(machine: Machine, model: Model) -> int:
    """NVLinks of a pair in the full picture of the machine."""
    if not machine.nvlink or not model.sxm or machine.gpus < 2:
        return 0
    direct = machine.gpus == 4 and model.form_factor in ("SXM4", "SXM5")
    return model.nvlink_links // 3 if direct else model.nvlink_links


def _pair(machine: Machine, model: Model, a: int, b: int) -> Iterable[Reading]:
    pair = f"gpu{a}-gpu{b}"
    links = _meshed(machine, model)
    same = a * 2 // machine.gpus == b * 2 // machine.gpus
    bus = "PHB" if machine.guest else "NODE" if same else "SYS"
    yield reading("topology_path", f"NV{links}" if links else bus, pair, NVML)
    yield reading("topology_common_ancestor", bus, pair, NVML)
    for from_, to in ((a, b), (b, a)):
        for capability in ("read", "write"):
            status = "ok" if links or not machine.guest else "cns"
            yield reading("topology_p2p_status", status, pair, NVML, capability=capability, from_=f"gpu{from_}")
        rate = 0.88 * model.nvlink_direction * links / model.nvlink_links if links else 0.42 * _COPY[model.pcie_gen]
        rate *= min(machine.scale("peer", from_), machine.scale("peer", to))
        yield reading(
            "peer_copy_bytes_per_second", rate, pair, spread=0.004, n=20, direction="one_way", bytes=268435456,
            from_=f"gpu{from_}",
        )  # fmt: skip
    yield reading("peer_copy_errors_total", 0, pair)


def _work(machine: Machine, model: Model, index: int) -> Iterable[Reading]:
    gpu = f"gpu{index}"
    scale = machine.scale("matmul", index)
    shares = _A100 if model.chip == "GA100" else _SUSTAINED
    capped = model.chip != "GA100"
    for dtype, share in shares.items():
        peak = model.peak(dtype)
        if peak is None or (machine.profile == "quick" and dtype != "bf16"):
            continue
        rate = peak * share * scale
        yield reading(
            "matmul_sustained_flops_per_second", rate, gpu, spread=0.002, n=1, dtype=dtype, n_=8192, load="all",
            idle_seconds=2.0,
        )  # fmt: skip
        boost = rate * 1.2 if capped and dtype != "fp32" else rate * 1.02
        yield reading("matmul_boost_flops_per_second", boost, gpu, spread=0.0017, n=3, dtype=dtype, n_=8192, load="all")
    if model.peak("bf16"):
        formula = model.fp16_flops_per_clk_per_sm or 1024
        per_clock = 0.92 * formula * machine.scale("per_clock", index)
        yield reading("matmul_flops_per_clock_per_sm", per_clock, gpu, spread=0.002, n=20, dtype="bf16", n_=8192)
    yield reading("matmul_watts", (model.tdp_w or 300) * 0.985, gpu, NVML, dtype="bf16", n_=8192)
    yield from _memory(machine, model, index)
    yield from _copies(machine, model, index)
    yield from _thermal(machine, model, index, scale)
    yield reading("time_slicing_gaps_total", 0, gpu)
    yield reading("time_slicing_largest_gap_seconds", 6.4e-8, gpu)
    yield reading("time_slicing_watch_seconds", 0.4, gpu)
    for stat, seconds in (("p50", 8.6e-6), ("p99", 1.4e-5), ("p99.9", 2.1e-5)):
        yield reading("latency_launch_seconds", seconds, gpu, stat=stat)


def _memory(machine: Machine, model: Model, index: int) -> Iterable[Reading]:
    gpu = f"gpu{index}"
    if machine.profile == "quick" or not model.bandwidth:
        return
    shares = _A100_MEMORY if model.chip == "GA100" else _MEMORY
    for op, share in shares.items():
        rate = share * model.bandwidth * machine.scale("memory", index)
        yield reading("memory_bandwidth_bytes_per_second", rate, gpu, spread=0.007, n=25, op=op, bytes=4294967296)
    yield reading("memory_capacity_bytes", int(model.memory_bytes[0] * 0.975), gpu)
    yield reading("memory_capacity_errors_total", 0, gpu)
    yield reading("l2_cache_bytes", int((model.l2_mb or 50) * MIB * 0.75), gpu)


def _copies(machine: Machine, model: Model, index: int) -> Iterable[Reading]:
    gpu = f"gpu{index}"
    for direction in ("h2d", "d2h"):
        rate = _COPY[model.pcie_gen] * model.pcie_lanes / 16 * machine.scale("host_copy", index)
        yield reading(
            "host_copy_bytes_per_second", rate, gpu, spread=0.003, n=8, direction=direction, memory="pinned",
            bytes=268435456, numa="any" if machine.guest else "near", load="alone",
        )  # fmt: skip
    yield reading("host_copy_pcie_generation", model.pcie_gen, gpu, NVML, port="gpu")
    yield reading("host_copy_pcie_width_lanes", model.pcie_lanes, gpu, NVML, port="gpu")


def _thermal(machine: Machine, model: Model, index: int, scale: float) -> Iterable[Reading]:
    gpu = f"gpu{index}"
    hot = 58.0 + index % 4 * 2.5 + (machine.scale("heat", index) - 1.0) * 60.0
    for stat, celsius in (("start", 34.0), ("max", hot), ("steady", hot - 0.5)):
        yield reading("thermal_gpu_celsius", celsius, gpu, NVML, stat=stat)
        yield reading("thermal_memory_celsius", celsius - 6, gpu, NVML, stat=stat)
    for stat, share in (("start", 0.19), ("mean", 0.985), ("max", 1.05)):
        yield reading("thermal_watts", (model.tdp_w or 300) * share, gpu, NVML, stat=stat)
    top = (model.nvml_max_sm_clock_mhz or model.boost_clock_mhz or 1500) * 1e6
    for stat, share in (("mean", 0.74), ("min", 0.72), ("max", 1.0), ("steady", 0.735)):
        yield reading("thermal_sm_clock_hertz", top * share, gpu, NVML, stat=stat)
    for reason, share in (("sw_power_cap", 0.97), ("hw_thermal", 0.0), ("sw_thermal", 0.0), ("hw_power_brake", 0.0),
                          ("hw_slowdown", 0.0), ("idle", 0.0)):  # fmt: skip
        yield reading("thermal_event_reason_ratio", share, gpu, NVML, reason=reason)
    shares = _A100 if model.chip == "GA100" else _SUSTAINED
    rate = (model.peak("bf16") or model.peak("fp16") or 1e14) * shares["bf16"] * scale
    for window, part in (("first", 1.003), ("last", 1.0), ("all", 1.001)):
        yield reading("thermal_flops_per_second", rate * part, gpu, window=window, dtype="bf16", n_=8192)
    yield reading("thermal_flops_per_joule", rate / ((model.tdp_w or 300) * 0.985), gpu, dtype="bf16", n_=8192)
    yield reading("thermal_slowdown_margin_celsius", 90 - hot, gpu, NVML)
    yield reading("thermal_window_seconds", 10.0, gpu)


def _collectives(machine: Machine, model: Model) -> Iterable[Reading]:
    n = machine.gpus
    if _meshed(machine, model):
        bus = _BUSBW.get(model.name, 0.75 * model.nvlink_direction) * (1.0 if n == 8 else 0.8)
    else:
        bus = 9.6e9 if machine.guest else 0.62 * _COPY[model.pcie_gen]
    bus *= min(machine.scale("collectives", index) for index in range(n))
    ramp = (0.45, 0.8, 0.98, 1.0) if _meshed(machine, model) else (0.92, 1.0, 0.98, 1.0)
    for size, share in zip((8388608, 67108864, 268435456, 400_000_000), ramp, strict=True):
        algbw = bus * share / (2 * (n - 1) / n)
        what: dict[str, Condition] = {"op": "all_reduce", "ranks": n, "dtype": "float32", "bytes": size}
        yield reading("collectives_algbw_bytes_per_second", algbw, spread=0.01, n=20, **what)
        yield reading("collectives_busbw_bytes_per_second", bus * share, spread=0.01, n=20, **what)
    yield reading("collectives_errors_total", 0, op="all_reduce", ranks=n, dtype="float32")
    yield reading("collectives_backend", "nccl")
    yield reading("collectives_nccl_version", "2.28.9")
    nvls = machine.nvlink and model.architecture in ("Hopper", "Blackwell", "Blackwell Ultra") and n > 4
    yield reading("collectives_nvls", nvls and model.nvswitch_capable)


def cpu_only(server: str = "local") -> Record:
    """A machine without a GPU: the local demo."""
    readings = [
        reading("server_facts_kernel", "6.8.0-60-generic", source=SYSFS),
        reading("server_facts_hypervisor_flag", False, source=CPUID),
        reading("server_facts_cpuid_vendor", "none", source=CPUID),
        reading("server_facts_gpus_on_bus_total", 0, source=SYSFS),
        reading("matmul_sustained_flops_per_second", 2.1e11, dtype="fp32", n_=1024, load="all"),
    ]
    for metric, rate in (("algbw", 1.4e9), ("busbw", 1.4e9)):
        readings.append(
            reading(
                f"collectives_{metric}_bytes_per_second", rate, op="all_reduce", ranks=2, dtype="float32", bytes=8388608
            )
        )
    rows = [ProbeRow(probe, 1, "server", "measured") for probe in ("server_facts", "matmul", "collectives")]
    return record(
        readings, server=server, profile="quick", device="cpu", subjects=[Subject("server", "server")], probes=rows
    )


def changed(
    given: Record, metric: str, value: Value | Callable[[Value], Value], subject: str | None = None,
    source: str | None = None, **conditions: Condition,
) -> Record:  # fmt: skip
    """The record with every fitting reading's value replaced; fails when none fits."""
    conditions = {name.rstrip("_"): condition for name, condition in conditions.items()}
    out, hits = [], 0
    for row in given.readings:
        if _fits(row, metric, subject, source, conditions):
            hits += 1
            row = dataclasses.replace(row, value=value(row.value) if callable(value) else value)
        out.append(row)
    assert hits, f"no reading {metric} of {subject} with {conditions}"
    return dataclasses.replace(given, readings=tuple(out))


def without(given: Record, metric: str, subject: str | None = None, **conditions: Condition) -> Record:
    """The record without the fitting readings; fails when none fits."""
    conditions = {name.rstrip("_"): condition for name, condition in conditions.items()}
    kept = tuple(row for row in given.readings if not _fits(row, metric, subject, None, conditions))
    assert len(kept) < len(given.readings), f"no reading {metric} of {subject} with {conditions}"
    return dataclasses.replace(given, readings=kept)


def added(given: Record, *readings: Reading) -> Record:
    """The record with more readings."""
    return dataclasses.replace(given, readings=given.readings + readings)


def row(given: Record, probe: str, subject: str, status: str, reason: str | None = None) -> Record:
    """The record with one probe row set to another status."""
    rows = tuple(r for r in given.probes if (r.probe, r.subject) != (probe, subject))
    return dataclasses.replace(given, probes=(*rows, ProbeRow(probe, 1, subject, status, reason)))


def _fits(
    row: Reading, metric: str, subject: str | None, source: str | None, conditions: Mapping[str, Condition]
) -> bool:
    return (
        row.metric == metric
        and (subject is None or row.subject == subject)
        and (source is None or row.source == source)
        and all(row.conditions.get(name) == value for name, value in conditions.items())
    )
