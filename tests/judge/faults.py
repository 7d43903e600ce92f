"""One fault at a time put into a healthy record, and the root finding it must give.

Used on synthetic records and on the golden ones; sizes are the smallest that matter (docs/thresholds.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from auditor.records import Condition, Record, Value
from tests.builders import CUDA, NVML, SYSFS, added, changed, reading, row, without

Edit = Callable[[Record], Record]


@dataclass(frozen=True)
class Fault:
    """`id` and `severity` of the root it gives; `several` = needs two GPUs or more, `nvlink` = needs NVLink."""

    name: str
    id: str
    severity: str
    edit: Edit
    several: bool = False
    nvlink: bool = False
    metal: bool = False
    needs: tuple[str, ...] = ()


def times(factor: float) -> Callable[[Value], Value]:
    """A change by a factor."""
    return lambda value: value * factor if isinstance(value, (int, float)) else value


def chain(*edits: Edit) -> Edit:
    """Several edits that are one fault."""

    def all_of(record: Record) -> Record:
        for edit in edits:
            record = edit(record)
        return record

    return all_of


def on(metric: str, value: Value | Callable[[Value], Value], subject: str | None = None, **conditions: object) -> Edit:
    """An edit of every fitting reading."""
    source = conditions.pop("source", None)
    return lambda record: changed(record, metric, value, subject, source, **conditions)  # type: ignore[arg-type]


def plus(metric: str, value: Value, source: str, **conditions: Condition) -> Edit:
    """One reading more, about the first GPU."""
    return lambda record: added(record, reading(metric, value, G, source, **conditions))


def logged(line: str, kind: str, when: str) -> Edit:
    """A line of the kernel's log."""
    return lambda record: added(record, reading("kernel_log_event", line, source="kernel/log", kind=kind, when=when))


def slow(factor: float, subject: str | None = None) -> Edit:
    """Compute of one GPU or all of them slower; the thermal window sees it too."""
    return chain(
        on("matmul_sustained_flops_per_second", times(factor), subject),
        on("matmul_boost_flops_per_second", times(factor), subject),
        on("thermal_flops_per_second", times(factor), subject),
    )


def another(pci: str, sms: int, memory: int, name: str) -> Edit:
    """Every GPU is honestly another model."""
    return chain(
        on("gpu_identity_pci_device", pci),
        on("gpu_identity_sms_total", sms),
        on("gpu_identity_memory_bytes", memory),
        on("gpu_identity_name", name),
    )


G = "gpu0"
FAULTS = (
    Fault("one GPU of eight missing", "gpu-count-short", "reject", lambda r: _lost(r), several=True),
    Fault("shared by a second tenant", "shared-gpu", "reject",
          chain(on("time_slicing_gaps_total", 11880, G), on("gpu_identity_utilization_ratio", 0.4, G))),
    Fault("memory held by nobody visible", "shared-gpu", "review", on("gpu_identity_memory_used_bytes", 3 * 10**9, G)),
    Fault("MIG on", "mig-sliced", "review", on("gpu_identity_mig_enabled", True, G, which="current")),
    Fault("power limit 70 %", "power-capped", "review",
          chain(on("gpu_identity_power_limit_watts", times(0.7), G, which="now"),
                on("gpu_identity_power_limit_watts", times(0.7), G, which="enforced"), slow(0.85, G))),
    Fault("clock locked", "clock-locked", "review",
          chain(on("thermal_sm_clock_hertz", times(0.6), G), on("thermal_watts", times(0.6), G),
                on("thermal_event_reason_ratio", 0.0, G), slow(0.8, G))),
    Fault("power brake", "power-brake", "reject",
          chain(on("thermal_event_reason_ratio", 0.4, G, reason="hw_power_brake"),
                on("thermal_event_reason_ratio", 0.4, G, reason="hw_slowdown"), slow(0.5, G)),
          needs=("thermal_event_reason_ratio",)),
    Fault("thermal slowdown", "hw-thermal", "review",
          chain(on("thermal_event_reason_ratio", 0.3, G, reason="hw_thermal"),
                on("thermal_gpu_celsius", 91.0, G, stat="max"), slow(0.8, G))),
    Fault("software thermal", "sw-thermal", "review", on("thermal_event_reason_ratio", 0.2, G, reason="sw_thermal")),
    Fault("hardware slowdown alone", "hw-slowdown-only", "review",
          on("thermal_event_reason_ratio", 0.2, G, reason="hw_slowdown")),
    Fault("hot and slowing", "temperature-above-floor", "review",
          chain(on("thermal_gpu_celsius", 84.0, G, stat="max"), on("thermal_gpu_celsius", 83.0, G, stat="steady"),
                on("thermal_flops_per_second", times(0.95), G, window="last"))),
    Fault("one GPU 15 % slow", "slower-than-siblings", "review", slow(0.85, G), several=True),
    Fault("one GPU 20 % slow", "slower-than-siblings", "review", slow(0.80, G), several=True),
    Fault("one GPU 13 % slow in memory", "slower-than-siblings", "review",
          on("memory_bandwidth_bytes_per_second", times(0.87), G), several=True,
          needs=("memory_bandwidth_bytes_per_second",)),
    Fault("all GPUs 20 % slow", "matmul-low", "review", slow(0.8)),
    Fault("memory 20 % slow", "memory-bandwidth-low", "review", on("memory_bandwidth_bytes_per_second", times(0.8)),
          needs=("memory_bandwidth_bytes_per_second",)),
    Fault("half PCIe width", "pcie-width-low", "review",
          chain(on("host_copy_pcie_width_lanes", 8, G), on("host_copy_bytes_per_second", times(0.5), G)), metal=True),
    Fault("lower PCIe generation", "pcie-gen-low", "review",
          chain(on("host_copy_pcie_generation", 3, G), on("host_copy_bytes_per_second", times(0.45), G)), metal=True),
    Fault("host copies at half rate", "host-copy-low", "review", on("host_copy_bytes_per_second", times(0.5), G)),
    Fault("ECC off", "ecc-off", "review", on("gpu_identity_ecc_enabled", False, G, which="current")),
    Fault("other silicon per clock", "per-clock-differs", "review",
          on("matmul_flops_per_clock_per_sm", times(0.97), G), several=True),
    Fault("impossible per clock", "figures-contradict-model", "review",
          on("matmul_flops_per_clock_per_sm", times(1.2), dtype="bf16")),
    Fault("patched name", "patched-name", "reject", on("gpu_identity_name", "NVIDIA A30")),
    Fault("GeForce under the name", "geforce-as-datacenter", "reject",
          chain(on("gpu_identity_pci_device", "10de:2684"), on("gpu_identity_sms_total", 128),
                on("gpu_identity_memory_bytes", 25757220864), on("gpu_identity_compute_capability", "8.9"),
                on("gpu_identity_l2_bytes", 75497472), on("gpu_identity_memory_bus_bits", 384))),
    Fault("sysfs says another PCI id", "nvml-vs-cuda-disagree", "reject",
          on("gpu_identity_pci_device", "10de:20b7", G, source=SYSFS)),
    Fault("two UUIDs of one GPU", "nvml-vs-cuda-disagree", "review",
          on("gpu_identity_uuid", "GPU-00000000-0000-0000-0000-000000000001", G, source=CUDA)),
    Fault("VRAM that is not there", "memory-capacity-short", "review", on("memory_capacity_bytes", times(0.6), G),
          needs=("memory_capacity_bytes",)),
    Fault("VRAM errors", "memory-errors", "reject", on("memory_capacity_errors_total", 7, G),
          needs=("memory_capacity_errors_total",)),
    Fault("nvidia-smi is a script", "fake-nvidia-smi", "review", on("server_facts_nvidia_smi", "script")),
    Fault("NVML preloaded", "fake-nvml", "review", on("server_facts_preload", "/opt/libnvml-shim.so")),
    Fault("canned readings", "canned-readings", "review",
          chain(on("thermal_watts", 412.0, G), on("thermal_gpu_celsius", 55.0, G))),
    Fault("slow launches", "launch-slow", "review", on("latency_launch_seconds", 2.0e-4, G, stat="p50"),
          needs=("latency_launch_seconds",)),
    Fault("software slice", "software-slice", "review", on("server_facts_software_slice", "libvgpu.so preloaded")),
    Fault("driver half upgraded", "driver-mismatch", "review",
          lambda r: added(r, reading("server_facts_driver_version", "575.57.08", source=SYSFS))),
    Fault("fabric manager down", "fm-not-running", "reject",
          chain(on("topology_fabric_state", "in_progress"), on("server_facts_fabric_manager", "failed"),
                lambda r: _no_nvlink(r)), several=True, nvlink=True, metal=True),
    Fault("NVLink off", "nvlink-missing", "reject", lambda r: _no_nvlink(r), several=True, nvlink=True, metal=True),
    Fault("two links down", "nvlink-partial", "review",
          chain(on("topology_nvlinks_active_total", lambda n: int(n or 0) - 2, G),
                on("topology_link_state", "inactive", "gpu0/link3"),
                on("topology_link_state", "inactive", "gpu0/link4")), several=True, nvlink=True),
    Fault("half a partition", "nvlink-half-partition", "review", lambda r: _half(r), several=True, nvlink=True),
    Fault("no mesh", "nvlink-no-mesh", "reject", lambda r: _pairs_only(r), several=True, nvlink=True),
    Fault("all-reduce at 75 %", "collective-low", "review",
          chain(on("collectives_busbw_bytes_per_second", times(0.75)),
                on("collectives_algbw_bytes_per_second", times(0.75))), several=True, nvlink=True),
    Fault("peer copies at half", "peer-copy-low", "review", on("peer_copy_bytes_per_second", times(0.5)),
          several=True, nvlink=True),
    Fault("wrong data across GPUs", "data-corrupted", "reject", on("peer_copy_errors_total", 12, "gpu0-gpu1"),
          several=True),
    Fault("uncorrected memory errors", "ecc-uncorrectable", "reject",
          plus("gpu_health_ecc_errors_total", 3, NVML, kind="uncorrected", counter="volatile", when="audit")),
    Fault("row remap pending", "row-remap", "review", plus("gpu_health_remap_pending", True, NVML)),
    Fault("row remap failed", "row-remap", "reject", plus("gpu_health_remap_failure", True, NVML)),
    Fault("GPU wants a reset", "recovery-action", "review", plus("gpu_health_recovery_action", "gpu_reset", NVML)),
    Fault("PCIe replays under load", "pcie-replay", "review", plus("gpu_health_pcie_replays_total", 900, NVML,
          when="audit")),
    Fault("Xid 79 during the audit", "gpu-lost", "reject", plus("kernel_log_xid_total", 1, "kernel/log", xid=79,
          when="audit", action="restart_bm")),
    Fault("Xid 94 during the audit", "xid-recent", "review", plus("kernel_log_xid_total", 1, "kernel/log", xid=94,
          when="audit", action="restart_app")),
    Fault("guest with full NVLink", "virtualized", "reject",
          chain(on("server_facts_hypervisor_flag", True), on("server_facts_cpuid_vendor", "KVMKVMKVM"),
                on("gpu_identity_virtualization_mode", "passthrough")), metal=True),
    Fault("hidden hypervisor", "virtualized", "review",
          on("server_facts_virtual_pci", "1af4:1041,1b36:000d"), metal=True),
    Fault("container on metal", "virtualized", "review", on("server_facts_container", "docker"), metal=True),
    Fault("sandbox", "virtualized", "review", on("server_facts_sandbox", "gvisor"), metal=True),
    Fault("vGPU profile", "vgpu-grid", "review", on("gpu_identity_virtualization_mode", "vgpu")),
    Fault("CUDA without a device", "api-remoting", "reject",
          chain(on("server_facts_gpus_on_bus_total", 0), on("server_facts_gpu_nodes_total", 0))),
    Fault("half the memory reported", "memory-short", "review", on("gpu_identity_memory_bytes", times(0.5), G)),
    Fault("half the memory", "memory-short", "reject",
          chain(on("gpu_identity_memory_bytes", times(0.5), G), on("memory_capacity_bytes", times(0.5), G)),
          needs=("memory_capacity_bytes",)),
    Fault("memory soldered on", "memory-mod", "reject",
          chain(on("gpu_identity_memory_bytes", times(1.5), G), on("memory_capacity_bytes", times(1.5), G)),
          needs=("memory_capacity_bytes",)),
    Fault("mining card under the name", "cmp-as-a100", "reject", on("gpu_identity_pci_device", "10de:20c2", G)),
    Fault("a name nobody knows", "unknown-name", "review",
          chain(on("gpu_identity_name", "NVIDIA L20X"), on("gpu_identity_pci_device", "10de:ffff"))),
    Fault("InfoROM damaged", "inforom-corrupt", "review", on("gpu_identity_inforom_valid", False, G)),
    Fault("one UUID on two GPUs", "duplicate-identity", "review", lambda r: _twice(r), several=True),
    Fault("GPUs counted differently", "gpu-counts-disagree", "review",
          on("server_facts_gpus_cuda_total", lambda n: int(n or 0) - 1), several=True),
    Fault("compute mode prohibited", "compute-mode-restricted", "review",
          on("gpu_identity_compute_mode", "prohibited", G)),
    Fault("power limit enforced from outside", "power-capped", "review",
          chain(on("gpu_identity_power_limit_watts", times(0.7), G, which="enforced"), slow(0.85, G))),
    Fault("one GPU 20 degrees hotter", "hotter-than-siblings", "review",
          chain(on("thermal_gpu_celsius", lambda c: float(c or 0) - 4), on("thermal_gpu_celsius", 79.0, G, stat="max"),
                on("thermal_gpu_celsius", 79.0, G, stat="steady"),
                on("thermal_flops_per_second", times(0.95), G, window="last")), several=True),
    Fault("fabric manager died later", "fm-not-running", "review", on("server_facts_fabric_manager", "failed"),
          several=True, nvlink=True, metal=True),
    Fault("links up, no pair joined", "nvlink-no-mesh", "reject",
          chain(on("topology_path", "SYS"), on("peer_copy_bytes_per_second", 1.6e10),
                on("collectives_busbw_bytes_per_second", 1.5e10), on("collectives_algbw_bytes_per_second", 8.6e9)),
          several=True, nvlink=True),
    Fault("matrix against link count", "nvlink-counts-disagree", "review", on("topology_path", "NV4"),
          several=True, nvlink=True),
    Fault("peer access refused", "p2p-disabled", "review", on("topology_p2p_status", "ns"), several=True, nvlink=True),
    Fault("ACS redirect", "acs-on", "review",
          chain(on("topology_p2p_status", "ns"),
                lambda r: added(r, reading("topology_acs_redirect", "0000:17:00.0", source=SYSFS))),
          several=True, nvlink=True, metal=True),
    Fault("IOMMU translates", "iommu-translated", "review",
          chain(on("topology_p2p_status", "ns"), on("server_facts_iommu", "DMA-FQ")),
          several=True, nvlink=True, metal=True),
    Fault("wrong products", "wrong-results", "reject", plus("matmul_mismatches_total", 3, "measured", dtype="bf16")),
    Fault("products far from the reference", "product-wrong", "review",
          plus("matmul_error_ratio", 0.3, "measured", dtype="bf16")),
    Fault("two clocks", "time-mismatch", "review", plus("matmul_host_clock_ratio", 2.0, "measured", dtype="bf16")),
    Fault("rates beyond the link", "figure-implausible", "review", on("host_copy_bytes_per_second", times(4), G)),
    Fault("rate of zero", "figure-implausible", "review", on("memory_bandwidth_bytes_per_second", 0, G, op="triad"),
          needs=("memory_bandwidth_bytes_per_second",)),
    Fault("retired pages pending", "retired-pages", "review", plus("gpu_health_retired_pending", True, NVML)),
    Fault("channel repair pending", "channel-repair-pending", "reject",
          plus("gpu_health_repair_pending", True, NVML, what="channel")),
    Fault("memory beyond repair", "unrepairable-memory", "reject",
          plus("gpu_health_repair_pending", True, NVML, what="unrepairable")),
    Fault("SRAM errors past the threshold", "ecc-uncorrectable", "reject",
          plus("gpu_health_sram_threshold_exceeded", True, NVML)),
    Fault("GPU wants the server restarted", "recovery-action", "reject",
          plus("gpu_health_recovery_action", "node_reboot", NVML)),
    Fault("NVLink errors that grow", "nvlink-crc", "review",
          plus("gpu_health_nvlink_errors_total", 40, NVML, counter="replay", when="audit")),
    Fault("fatal NVSwitch error", "nvswitch-sxid", "reject",
          lambda r: added(r, reading("kernel_log_sxid_total", 1, source="kernel/log", sxid=20034, fatal=True,
                                     when="audit"))),
    Fault("PCIe errors that grow", "aer", "review",
          plus("gpu_health_aer_errors_total", 4, SYSFS, kind="nonfatal", when="audit")),
    Fault("GPU that stopped answering", "gpu-lost", "reject",
          plus("gpu_health_fault", "gpu_lost", NVML, where="nvmlDeviceGetPowerUsage", when="audit")),
    Fault("GPU blocked by the system", "gpu-blocked", "review",
          plus("gpu_health_fault", "os_blocked", NVML, where="nvmlDeviceGetHandleByIndex")),
    Fault("GPU lost before it was listed", "gpu-lost", "reject",
          lambda r: added(_lost(r), reading("kernel_log_xid_total", 1, source="kernel/log", xid=79, when="history",
                                            pci="0000:ab:00.0")), several=True),
    Fault("heat that the counters tell", "sw-thermal", "review",
          plus("gpu_health_violation_seconds", 20.0, NVML, policy="thermal", when="audit")),
    Fault("fabric without routes", "fabric-unhealthy", "review",
          lambda r: added(r, reading("topology_fabric_health", "route_unhealthy", G, NVML)), several=True, nvlink=True),
    Fault("machine checks during the audit", "machine-check", "review",
          logged("mce: [Hardware Error]: Machine check events logged", "machine_check", "audit")),
    Fault("PCIe errors in the log", "pcie-errors-logged", "review",
          logged("pcieport 0000:17:00.0: AER: Uncorrected (Fatal) error received", "pcie_error", "audit")),
    Fault("a GPU the driver cannot start", "gpu-init-failed", "reject",
          lambda r: logged("NVRM: GPU 0000:ab:00.0: RmInitAdapter failed!", "rm_init_failed", "history")(_lost(r)),
          several=True),
    Fault("CUDA refuses", "cuda-init-errors", "review",
          lambda r: row(r, "l2_cache", G, "failed", "RuntimeError: CUDA unknown error (error 999)"),
          needs=("l2_cache_bytes",)),
)  # fmt: skip

REMARKS = (  # worth a word, never a complaint: the verdict stays accept
    Fault("GPUs on the bus that were not given", "gpu-subset-shared-node", "advice",
          on("server_facts_gpus_on_bus_total", lambda n: 2 * int(n or 0))),
    Fault("device numbers with gaps", "gpu-subset-shared-node", "advice", on("gpu_identity_minor", 9, G)),
    Fault("host of virtual GPUs", "vgpu-host-mode", "advice",
          on("gpu_identity_virtualization_mode", "host_vgpu"), metal=True),
    Fault("exclusive compute mode", "compute-mode-restricted", "advice",
          on("gpu_identity_compute_mode", "exclusive_process", G)),
    Fault("MIG at the next reset", "reset-pending", "advice", on("gpu_identity_mig_enabled", True, G, which="pending")),
    Fault("driver of an older CUDA", "driver-too-old", "advice", on("server_facts_cuda_version", "12.8")),
    Fault("64 MiB of shared memory", "shm-small", "advice", on("server_facts_shm_bytes", 67108864)),
    Fault("few processors", "cpu-side", "advice", on("server_facts_cpus_total", 4)),
    Fault("stolen time", "steal-time", "advice",
          lambda r: _with(r, steal_time_ratio=0.04, steal_time_window_seconds=60.0)),
    Fault("throttled by its quota", "cpu-throttled", "advice", lambda r: _with(r, steal_time_throttled_ratio=0.2)),
    Fault("errors of former tenants", "ecc-uncorrectable", "advice",
          plus("gpu_health_ecc_errors_total", 3, NVML, kind="uncorrected", counter="aggregate", when="history")),
    Fault("corrected errors", "ecc-correctable", "advice",
          plus("gpu_health_ecc_errors_total", 5, NVML, kind="corrected", counter="volatile", when="audit")),
    Fault("rows lost before", "row-remap", "advice",
          plus("gpu_health_remapped_rows_total", 1, NVML, kind="uncorrected", when="history")),
    Fault("many corrected rows", "row-remap", "advice",
          plus("gpu_health_remapped_rows_total", 12, NVML, kind="corrected", when="history")),
    Fault("a few retired pages", "retired-pages", "advice",
          plus("gpu_health_retired_pages_total", 3, NVML, cause="double_bit", when="history")),
    Fault("braked before us", "event-counters", "advice",
          plus("gpu_health_event_reason_seconds", 200.0, NVML, reason="hw_power_brake", when="history")),
    Fault("replays since the boot", "pcie-replay", "advice",
          plus("gpu_health_pcie_replays_total", 900, NVML, when="history")),
    Fault("NVLink errors of before", "nvlink-crc", "advice",
          plus("gpu_health_nvlink_errors_total", 40, NVML, counter="replay", when="history")),
    Fault("fan that cannot be read", "fan-err", "advice",
          plus("gpu_health_fault", "err", NVML, where="nvmlDeviceGetFanSpeed")),
    Fault("lost before and back", "gpu-lost", "advice",
          plus("kernel_log_xid_total", 1, "kernel/log", xid=79, when="history")),
    Fault("application errors on one GPU", "xid-recent", "advice",
          plus("kernel_log_xid_total", 5, "kernel/log", xid=31, when="audit"), several=True),
    Fault("harmless switch errors that keep coming", "nvswitch-sxid", "advice",
          lambda r: added(r, reading("kernel_log_sxid_total", 30, source="kernel/log", sxid=12028, fatal=False,
                                     when="audit"))),
    Fault("boards of two batches", "mixed-batch", "advice", on("gpu_identity_board_part_number", "900-X", G),
          several=True),
    Fault("a preloaded allocator", "preload", "advice", on("server_facts_preload", "/usr/lib/libjemalloc.so.2")),
    Fault("no NUMA node told", "numa-hidden", "advice", on("gpu_identity_numa_node", -1), several=True),
    Fault("machine checks of before", "machine-check", "advice",
          logged("mce: [Hardware Error]: Machine check events logged", "machine_check", "history")),
    Fault("corrected errors of the host", "machine-check", "advice",
          logged("[Hardware Error]: Corrected error, no action required.", "machine_check", "audit")),
    Fault("PCIe errors of before", "pcie-errors-logged", "advice",
          logged("pcieport 0000:17:00.0: AER: Uncorrected (Fatal) error received", "pcie_error", "history")),
    Fault("a start that failed once", "gpu-init-failed", "advice",
          logged("NVRM: GPU 0000:1b:00.0: RmInitAdapter failed!", "rm_init_failed", "history")),
    Fault("a process ended for memory", "out-of-memory", "advice",
          logged("Out of memory: Killed process 77 (python3)", "out_of_memory", "audit")),
    Fault("another driver branch", "driver-differs", "advice", on("server_facts_driver_version", "535.1.2")),
)  # fmt: skip


def _twice(record: Record) -> Record:
    """The second GPU answers with the first one's UUID, whoever is asked."""
    first = next(r.value for r in record.readings if r.metric == "gpu_identity_uuid" and r.subject == G)
    return changed(record, "gpu_identity_uuid", first, "gpu1")


def _with(record: Record, **figures: float) -> Record:
    """The record with these figures of the server in place of what it says of them."""
    kept = tuple(r for r in record.readings if r.metric not in figures)
    record = dataclasses.replace(record, readings=kept)
    return added(record, *(reading(metric, value, source=SYSFS) for metric, value in figures.items()))


def _lost(record: Record) -> Record:
    """The last GPU is gone, and everything that was said of it."""
    last = max(s.index or 0 for s in record.subjects if s.kind == "gpu")
    gone = f"gpu{last}"
    of_it = {s.id for s in record.subjects if gone in s.id.replace("/", "-").split("-")}
    record = dataclasses.replace(
        record,
        subjects=tuple(s for s in record.subjects if s.id not in of_it),
        readings=tuple(r for r in record.readings if gone not in r.subject.replace("/", "-").split("-")),
        probes=tuple(p for p in record.probes if p.subject not in of_it),
    )
    for metric in ("gpus_on_bus", "gpu_nodes", "gpus_nvml", "gpus_cuda"):
        record = changed(record, f"server_facts_{metric}_total", last)
    return record


def _no_nvlink(record: Record) -> Record:
    """NVLink inactive on every GPU, paths over PCIe, collectives at PCIe rate."""
    return chain(
        on("topology_path", "SYS"),
        on("topology_nvlinks_active_total", 0),
        on("topology_link_state", "inactive"),
        on("peer_copy_bytes_per_second", 1.6e10),
        on("collectives_busbw_bytes_per_second", 1.5e10),
        on("collectives_algbw_bytes_per_second", 8.6e9),
        lambda r: without(r, "topology_fabric_status"),
    )(record)


def _half(record: Record) -> Record:
    """Half of the links on every GPU."""
    links = next(int(r.value or 0) for r in record.readings if r.metric == "topology_nvlinks_active_total")
    return chain(
        on("topology_path", f"NV{links // 2}"),
        on("topology_nvlinks_active_total", links // 2),
        on("peer_copy_bytes_per_second", times(0.5)),
        on("collectives_busbw_bytes_per_second", times(0.5)),
        on("collectives_algbw_bytes_per_second", times(0.5)),
    )(record)


def _pairs_only(record: Record) -> Record:
    """NVLink inside neighbours, PCIe words elsewhere."""
    out = []
    for one in record.readings:
        if one.metric == "topology_path":
            a, b = (int(part[3:]) for part in one.subject.split("-"))
            if a // 2 != b // 2:
                one = dataclasses.replace(one, value="SYS")
        out.append(one)
    record = dataclasses.replace(record, readings=tuple(out))
    return on("peer_copy_bytes_per_second", 1.6e10)(record)
