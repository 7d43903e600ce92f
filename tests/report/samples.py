"""Synthetic machines for the tests of the report: records as a probe would send them, judged as a run would be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from auditor.finding import Judgement
from auditor.judge import ServerInput, judge
from auditor.order import Order
from auditor.records import ProbeRow, Reading, Record, Seconds, Series, Subject, Tool
from auditor.runs import Run, State

RUN = "20261201T031500Z"
ORDER = Order(
    gpus=8,
    gpu="A100-SXM4-80GB",
    interconnect="nvswitch",
    bare_metal=True,
    price_per_hour=12.0,
    currency="USD",
)
SIZES = tuple(8_000_000 * 2**step for step in range(6)) + (400_000_000,)


@dataclass
class Given:
    """A judged run in memory."""

    judgement: Judgement
    records: dict[str, Record] = field(default_factory=dict)
    run: Run | None = None

    def record(self, name: str) -> Record | None:
        return self.records.get(name)


def reading(metric: str, subject: str, value: Any, source: str = "measured", **conditions: Any) -> Reading:
    """One reading; the probe is the part of the metric that names it."""
    probe = next(p for p in _PROBES if metric.startswith(p))
    figures = {"spread": 0.004, "n": 5, "stable": True} if source == "measured" and isinstance(value, float) else {}
    return Reading(probe, metric, subject, value, source, conditions, **figures)


_PROBES = (
    "server_facts",
    "gpu_identity",
    "topology",
    "matmul",
    "memory_bandwidth",
    "memory_capacity",
    "host_copy",
    "peer_copy",
    "collectives",
    "thermal",
    "training_step",
    "steal_time",
    "latency",
    "storage",
    "unheard_of",
)


def a100(
    name: str = "gpu-01",
    gpus: int = 8,
    guest: bool = False,
    nvlink: bool = True,
    slow: int | None = None,
    **changes: Any,
) -> Record:
    """An 8×A100-SXM4-80GB server; `guest` without NVLink is the reference case; GPU `slow` lags its siblings."""
    ids = [f"gpu{i}" for i in range(gpus)]
    subjects = [Subject("server", "server")]
    subjects += [
        Subject(g, "gpu", i, f"GPU-{_hex(name, i)}", f"0000:{7 + 8 * i:02x}:00.0", "NVIDIA A100-SXM4-80GB")
        for i, g in enumerate(ids)
    ]
    pairs = [f"{a}-{b}" for i, a in enumerate(ids) for b in ids[i + 1 :]]
    subjects += [Subject(p, "pair") for p in pairs]
    rows = list(_server(name, gpus, guest))
    for i, gpu in enumerate(ids):
        rows += _gpu(name, i, gpu, guest, nvlink, 0.82 if slow == i else 1.0)
    for pair in pairs:
        rows.append(reading("topology_path", pair, "NV12" if nvlink else "PHB", "driver/nvml"))
        rate = 2.7e11 if nvlink else 1.1e10
        rows.append(reading("peer_copy_bytes_per_second", pair, rate, direction="one_way", bytes=268435456))
    if gpus > 1:
        rows += _collectives(gpus, nvlink)
        for ranks in (1, 2, 4, 8)[: int(math.log2(gpus)) + 1]:
            gain = ranks ** (0.885 if nvlink else 0.72)
            rows.append(reading("training_step_speedup_ratio", "server", gain, ranks=ranks))
            rows.append(
                reading("training_step_tokens_per_second", "server", 21000.0 * gain, ranks=ranks, parameters=124000000)
            )
    probes = [
        ProbeRow(p, 1, "server", "measured", None, 2.0)
        for p in ("server_facts", "gpu_identity", "topology", "collectives")
    ]
    probes += [
        ProbeRow(p, 1, g, "measured", None, 2.0)
        for p in ("matmul", "memory_bandwidth", "host_copy", "thermal")
        for g in ids
    ]
    probes.append(ProbeRow("dcgm", 1, "server", "not_applicable", "dcgmi is not installed", 0.0))
    probes.append(ProbeRow("matmul", 1, "gpu0", "measured", None, 1.0, ("fp64",)))
    made: dict[str, Any] = {
        "schema": 1,
        "tool": Tool("auditor-probe", "0.1.0"),
        "run": RUN,
        "server": name,
        "profile": "standard",
        "device": "cuda",
        "started": "2026-12-01T03:15:42Z",
        "seconds": Seconds(141.2, 4.1, 120.4),
        "synthetic": True,
        "subjects": tuple(subjects),
        "probes": tuple(probes),
        "readings": tuple(rows),
        "series": tuple(_series(ids)),
    }
    return Record(**{**made, **changes})


def _hex(name: str, index: int) -> str:
    seed = (sum(ord(c) * 7919 ** (k % 5) for k, c in enumerate(name)) * 31 + index * 65537) & 0xFFFFFFFF
    return f"{seed:08x}-0000-4000-8000-{index:012x}"


def _server(name: str, gpus: int, guest: bool) -> list[Reading]:
    kernel, driver = "kernel/sysfs", "driver/nvml"
    return [
        reading("server_facts_hostname", "server", f"host-{name}", kernel),
        reading("server_facts_os", "server", "Ubuntu 22.04.4 LTS", kernel),
        reading("server_facts_kernel", "server", "5.15.0-105-generic", kernel),
        reading("server_facts_cpu_model", "server", "AMD EPYC 7742 64-Core Processor", "kernel/cpuid"),
        reading("server_facts_cpus_total", "server", 256, kernel),
        reading("server_facts_memory_bytes", "server", 1.08e12, kernel),
        reading("server_facts_hypervisor_flag", "server", guest, "kernel/cpuid"),
        reading("server_facts_cpuid_vendor", "server", "KVMKVMKVM" if guest else "none", "kernel/cpuid"),
        reading("server_facts_dmi", "server", "QEMU" if guest else "Supermicro", "kernel/dmi", field="sys_vendor"),
        reading(
            "server_facts_dmi",
            "server",
            "Standard PC (Q35 + ICH9, 2009)" if guest else "AS-4124GO-NART",
            "kernel/dmi",
            field="product_name",
        ),
        reading("server_facts_clocksource", "server", "kvm-clock" if guest else "tsc", kernel, which="current"),
        reading("server_facts_virtual_pci", "server", "1b36:000c,1af4:1041" if guest else "", kernel),
        reading("server_facts_bmc", "server", not guest, kernel),
        reading("server_facts_container", "server", "none", kernel),
        reading("server_facts_sandbox", "server", "none", kernel),
        reading("server_facts_gpus_on_bus_total", "server", gpus, kernel),
        reading("server_facts_gpu_nodes_total", "server", gpus, kernel),
        reading("server_facts_gpus_nvml_total", "server", gpus, driver),
        reading("server_facts_gpus_cuda_total", "server", gpus, "driver/cuda"),
        reading("server_facts_driver_version", "server", "550.54.15", driver),
        reading("server_facts_fabric_manager", "server", "active" if not guest else "absent", kernel),
        reading("steal_time_ratio", "server", 0.004 if guest else 0.0, kernel),
    ]


def _gpu(name: str, i: int, gpu: str, guest: bool, nvlink: bool, pace: float) -> list[Reading]:
    driver, cuda = "driver/nvml", "driver/cuda"
    wave = 1 + 0.006 * math.sin(i * 2.1 + len(name))
    out = [
        reading("gpu_identity_name", gpu, "NVIDIA A100-SXM4-80GB", driver),
        reading("gpu_identity_name", gpu, "NVIDIA A100-SXM4-80GB", cuda),
        reading("gpu_identity_pci_device", gpu, "10de:20b2", driver),
        reading("gpu_identity_pci_device", gpu, "10de:20b2", "kernel/sysfs"),
        reading("gpu_identity_uuid", gpu, f"GPU-{_hex(name, i)}", driver),
        reading("gpu_identity_serial", gpu, f"1324{int(_hex(name, i)[:8], 16) % 10**7:07d}{i:02d}", driver),
        reading("gpu_identity_compute_capability", gpu, "8.0", cuda),
        reading("gpu_identity_sms_total", gpu, 108, cuda),
        reading("gpu_identity_l2_bytes", gpu, 41943040, cuda),
        reading("gpu_identity_memory_bytes", gpu, 85899345920, driver),
        reading("gpu_identity_memory_bus_bits", gpu, 5120, driver),
        reading("gpu_identity_ecc_enabled", gpu, True, driver, which="current"),
        reading("gpu_identity_mig_enabled", gpu, False, driver, which="current"),
        reading("gpu_identity_power_limit_watts", gpu, 400.0, driver, which="now"),
        reading("gpu_identity_power_limit_watts", gpu, 400.0, driver, which="default"),
        reading("gpu_identity_numa_node", gpu, -1 if guest else i // 2, "kernel/sysfs"),
        reading("gpu_identity_virtualization_mode", gpu, "passthrough" if guest else "none", driver),
        reading("topology_nvlinks_active_total", gpu, 12 if nvlink else 0, driver),
        reading("topology_nvlinks_supported_total", gpu, 12, driver),
        reading("memory_capacity_bytes", gpu, 84.1e9),
        reading("host_copy_pcie_generation", gpu, 4, driver, port="gpu"),
        reading("host_copy_pcie_width_lanes", gpu, 16, driver, port="gpu"),
        reading("thermal_gpu_celsius", gpu, 31.0, driver, stat="start"),
        reading("thermal_gpu_celsius", gpu, 62.0 + i, driver, stat="max"),
        reading("thermal_gpu_celsius", gpu, 61.0 + i, driver, stat="steady"),
        reading("thermal_memory_celsius", gpu, 70.0 + i, driver, stat="max"),
        reading("thermal_watts", gpu, 388.0 - i, driver, stat="mean"),
        reading("thermal_sm_clock_hertz", gpu, 1.335e9 * pace, driver, stat="mean"),
        reading("thermal_flops_per_joule", gpu, 2.62e14 * pace / 388, dtype="bf16", n=8192),
        reading("matmul_flops_per_clock_per_sm", gpu, 1985.0, dtype="bf16", n=8192),
    ]
    for dtype, rate in (("bf16", 2.62e14), ("fp16", 2.6e14), ("tf32", 1.33e14), ("fp32", 1.88e13), ("int8", 4.9e14)):
        out.append(
            reading(
                "matmul_sustained_flops_per_second",
                gpu,
                rate * pace * wave,
                dtype=dtype,
                n=8192,
                load="all",
                idle_seconds=2.0,
            )
        )
    for op, rate in (("read", 1.75e12), ("copy", 1.69e12)):
        out.append(reading("memory_bandwidth_bytes_per_second", gpu, rate * wave, op=op, bytes=4294967296))
    for direction, rate in (("h2d", 2.46e10), ("d2h", 2.51e10)):
        out.append(
            reading(
                "host_copy_bytes_per_second",
                gpu,
                rate * wave,
                direction=direction,
                memory="pinned",
                bytes=268435456,
                numa="any",
                load="alone",
            )
        )
    return out


def _collectives(gpus: int, nvlink: bool) -> list[Reading]:
    out = [reading("collectives_backend", "server", "nccl")]
    for op, share, factor in (("all_reduce", 1.0, 2 * (gpus - 1) / gpus), ("all_gather", 0.9, (gpus - 1) / gpus)):
        for size in SIZES:
            peak = (1.28e11 if nvlink else 7.1e9) * share
            algbw = peak * size / (size + 2.2e7)
            where = {"op": op, "ranks": gpus, "dtype": "float32", "bytes": size}
            out.append(reading("collectives_algbw_bytes_per_second", "server", algbw, **where))
            out.append(reading("collectives_busbw_bytes_per_second", "server", algbw * factor, **where))
    return out


def _series(ids: list[str]) -> list[Series]:
    t = tuple(float(s) for s in range(0, 121, 2))
    out = []
    for i, gpu in enumerate(ids):
        heat = tuple(31.0 + (31 + i) * (1 - math.exp(-s / 18)) for s in t)
        out.append(Series("thermal_gpu_celsius", gpu, t, heat))
        out.append(Series("thermal_watts", gpu, t, tuple(388.0 - i if s else 90.0 for s in t)))
        out.append(Series("thermal_sm_clock_hertz", gpu, t, tuple(1.41e9 - 7.5e7 * (1 - math.exp(-s / 10)) for s in t)))
    return out


def given(
    records: dict[str, Record | None],
    orders: dict[str, Order | None] | Order | None = ORDER,
    labels: dict[str, str] | None = None,
    states: dict[str, State] | None = None,
    inventory: str = "provider_a",
    run: str = RUN,
) -> Given:
    """Judge records held in memory as the servers of one run."""
    inputs = []
    for name, record in records.items():
        order = orders.get(name) if isinstance(orders, dict) else orders
        missing = State(phase="reach", reason="unreachable")
        state = (states or {}).get(name) or (missing if record is None else State(phase="done"))
        digest = None if record is None else f"{_hex(name, 9).replace('-', '')}" * 2
        inputs.append(ServerInput(name, order, (labels or {}).get(name), record, state=state, sha256=digest))
    judgement = judge(
        lambda: iter(inputs),
        run=run,
        inventory=inventory,
        version="0.1.0",
        of_inventory=len(inputs),
        started="2026-12-01T03:15:00Z",
        finished="2026-12-01T03:19:10Z",
    )
    return Given(judgement, {name: record for name, record in records.items() if record is not None})


def one_of_many(name: str, kind: int) -> Record | None:
    """The reference case, a slow GPU, an unreachable server, one without a thermal reading, else a healthy one."""
    if kind == 1:
        return a100(name, guest=True, nvlink=False)
    if kind == 3:
        return a100(name, slow=5)
    if kind == 5:
        return None
    if kind == 6:
        return without(a100(name), "thermal", "the GPU was lost during the load")
    return a100(name)


def mixed(servers: int = 8) -> Given:
    """A run with every verdict."""
    names = [f"gpu-{i:02d}" if servers < 100 else f"gpu-{i:03d}" for i in range(1, servers + 1)]
    return given({name: one_of_many(name, place % 8) for place, name in enumerate(names)})


class Fleet:
    """A large run whose records are made when they are asked for, as a run folder reads them from disk."""

    run = None

    def __init__(self, servers: int) -> None:
        self.kinds = {f"gpu-{i:05d}": (i if i % 10 < 4 else 0) % 8 for i in range(servers)}
        self.judgement = judge(
            self._inputs,
            run=RUN,
            inventory="provider_a",
            version="0.1.0",
            of_inventory=servers,
            started="2026-12-01T03:15:00Z",
            finished="2026-12-01T03:19:10Z",
        )

    def _inputs(self) -> Iterator[ServerInput]:
        for name in self.kinds:
            record = self.record(name)
            state = State(phase="done") if record else State(phase="reach", reason="unreachable")
            yield ServerInput(name, ORDER, None, record, state=state, sha256=None if record is None else "0" * 64)

    def record(self, name: str) -> Record | None:
        return one_of_many(name, self.kinds[name])


def without(record: Record, probe: str, reason: str) -> Record:
    """The record as if a probe had failed everywhere."""
    rows = tuple(replace(row, status="failed", reason=reason) if row.probe == probe else row for row in record.probes)
    kept = tuple(r for r in record.readings if r.probe != probe)
    return replace(record, probes=rows, readings=kept, series=())
