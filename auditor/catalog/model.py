"""One GPU model as the catalogue knows it: what was published and what its driver reports.

Units are those of gpus.yaml (GB/s, TFLOPS dense, MHz, W, MiB); the properties give base units.
"""

from __future__ import annotations

from functools import cached_property

import msgspec

MIB = 1024 * 1024
DTYPES = ("fp64", "fp64_tensor", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")


class Peak(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dense peak rates in TFLOPS (int8: TOPS), FP32 accumulation; None = the part has no such path or it is unknown."""

    fp64: float | None
    fp64_tensor: float | None
    fp32: float | None
    tf32: float | None
    fp16: float | None
    bf16: float | None
    fp8: float | None
    int8: float | None
    fp4: float | None


class Temps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Temperature limits seen on real boards, degrees Celsius."""

    max_operating_c: float | None
    slowdown_c: float | None
    shutdown_c: float | None
    target_c: float | None
    mem_max_operating_c: float | None


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """One entry of gpus.yaml: one device as NVML counts them. `modded`: memory was soldered on later."""

    name: str
    nvml_names: list[str]
    pci_device_ids: list[str]
    architecture: str
    chip: str
    compute_capability: str
    form_factor: str
    sm_count: int | None
    cuda_cores: int | None
    memory_gb: float
    memory_mib_reported: float | None
    memory_mib_alt: list[float] | None
    memory_type: str
    memory_bus_bits: int | None
    memory_bandwidth_gb_s: float | None
    l2_mb: float | None
    tdp_w: float | None
    tdp_w_published: float | None
    power_limit_alt_w: list[float] | None
    boost_clock_mhz: float | None
    tensor_spec_clock_mhz: float | None
    tensor_clock_origin: str | None
    nvml_max_sm_clock_mhz: float | None
    peak_dense: Peak
    peak_dense_alt: dict[str, float] | None
    fp16_flops_per_clk_per_sm: float | None
    nvlink_generation: float | None
    nvlink_links: int
    nvlink_gb_s_bidirectional_total: float
    nvswitch_capable: bool
    pcie_gen: int
    pcie_lanes: int
    mig_capable: bool
    mig_max_instances: int
    ecc: str
    cooling: str
    export_variant_of: str | None
    temps: Temps
    confidence: str
    notes: str | None
    sources: list[str]
    modded: bool = False

    @property
    def sxm(self) -> bool:
        """A board that is always sold with its NVLink fabric (SXM, Grace superchips)."""
        return not self.form_factor.startswith("PCIe")

    @property
    def geforce(self) -> bool:
        """A consumer card."""
        return any("GeForce" in name or "TITAN" in name for name in self.nvml_names)

    @cached_property
    def memory_bytes(self) -> tuple[float, ...]:
        """Every memory size its driver is known to report, in bytes, the usual one first."""
        sizes = [self.memory_mib_reported, *(self.memory_mib_alt or ())]
        return tuple(size * MIB for size in sizes if size)

    def peak(self, dtype: str) -> float | None:
        """Dense peak in FLOP/s for a probe's dtype word; fp64 means the faster of vector and tensor path."""
        peaks = self.peak_dense
        if dtype == "fp64":
            known = [rate for rate in (peaks.fp64, peaks.fp64_tensor) if rate]
            return max(known) * 1e12 if known else None
        rate: float | None = getattr(peaks, dtype, None)
        return rate * 1e12 if rate else None

    @property
    def bandwidth(self) -> float | None:
        """Published memory bandwidth, bytes/s."""
        return self.memory_bandwidth_gb_s * 1e9 if self.memory_bandwidth_gb_s else None

    @property
    def nvlink_direction(self) -> float:
        """All NVLinks together, one direction, bytes/s."""
        return self.nvlink_gb_s_bidirectional_total * 1e9 / 2
