"""Is the catalogue sound? What the loader cannot see: numbers that contradict each other or the architecture.

The one that matters most: marketing gives tensor rates with sparsity, twice what a dense product can reach, and a
sparse number slipped in would let every bad card fail and every fake pass. Peaks are therefore held against
SM count x clock x work per clock of the chip (architectures.yaml).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from auditor.catalog import FOLDER, Catalog, strict
from auditor.catalog.model import Model

ARCHITECTURES = FOLDER / "architectures.yaml"
SLACK = 0.05
_TENSOR = ("fp16", "tf32", "fp8", "int8", "fp4")
_PCI = re.compile(r"10de:[0-9a-f]{4}")


class Chip(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Work per clock and SM of one chip class; several figures = product classes of one chip."""

    fp32: float
    sources: list[str]
    fp16: list[float] = []
    tf32: list[float] = []
    fp8: list[float] = []
    int8: list[float] = []
    fp4: list[float] = []


def architectures(path: Path = ARCHITECTURES) -> dict[str, Chip]:
    """The table of chips."""
    return strict.load(path, dict[str, Chip])


def problems(catalog: Catalog) -> list[str]:
    """Every contradiction found, one sentence each; empty = sound."""
    chips = architectures()
    out = []
    for model in catalog.models:
        out += [f"{model.name}: {what}" for what in _model(model, chips)]
    out += _shared_ids(catalog)
    names = {model.name for model in catalog.models}
    for section in ("matmul", "memory_bandwidth"):
        for row in getattr(catalog.achievable, section):
            if row.gpu not in names:
                out.append(f"achievable, {section}: `{row.gpu}` is no model of the catalogue")
    for reduced in catalog.achievable.nccl_all_reduce:
        out += [f"achievable, nccl_all_reduce: `{m}` is no model" for m in reduced.models if m not in names]
    return out


def _model(model: Model, chips: dict[str, Chip]) -> Iterator[str]:
    yield from _identity(model)
    yield from _peaks(model, chips.get(model.chip))
    yield from _ratios(model)
    links, total = model.nvlink_links, model.nvlink_gb_s_bidirectional_total
    if (links == 0) != (total == 0):
        yield f"{links} NVLinks but {total:g} GB/s over them"
    if model.tdp_w is not None and not 10 <= model.tdp_w <= 2000:
        yield f"a power limit of {model.tdp_w:g} W"
    if model.memory_mib_reported:
        share = model.memory_mib_reported * 1024 * 1024 / (model.memory_gb * 1e9)
        if not 0.94 <= share <= 1.10:
            yield f"{model.memory_mib_reported:g} MiB reported for {model.memory_gb:g} GB"


def _identity(model: Model) -> Iterator[str]:
    for device in model.pci_device_ids:
        if not _PCI.fullmatch(device):
            yield f"`{device}` is no PCI id (10de:xxxx, lower case)"
    if not model.pci_device_ids:
        yield "no PCI id: nothing but its name could identify it"


def _peaks(model: Model, chip: Chip | None) -> Iterator[str]:
    if chip is None:
        yield f"its chip {model.chip} stands not in architectures.yaml"
        return
    claimed = model.fp16_flops_per_clk_per_sm
    if claimed is not None and claimed not in chip.fp16:
        yield f"{claimed:g} FLOP per clock per SM (fp16); {model.chip} has {_spell(chip.fp16)}"
    if model.sm_count is None or model.tensor_spec_clock_mhz is None:
        return
    cycles = model.sm_count * model.tensor_spec_clock_mhz * 1e6
    for dtype in _TENSOR:
        peak, rates = getattr(model.peak_dense, dtype), getattr(chip, dtype)
        if peak is None:
            continue
        ceiling = cycles * max(rates, default=0.0) / 1e12
        if claimed is not None and dtype == "fp16":
            ceiling = min(ceiling, cycles * claimed / 1e12)
        if peak > (1 + SLACK) * ceiling:
            yield (
                f"{dtype} {peak:g} TFLOPS is above what the architecture has ({ceiling:.0f} dense); "
                "with sparsity the figure is twice the dense one: write the dense one"
            )
    fp16 = model.peak_dense.fp16
    if fp16 and claimed is not None and fp16 < (1 - SLACK) * cycles * claimed / 1e12:
        yield f"fp16 {fp16:g} TFLOPS is below SMs x clock x {claimed:g} ({cycles * claimed / 1e12:.0f})"


def _ratios(model: Model) -> Iterator[str]:
    peaks = model.peak_dense
    if peaks.bf16 and peaks.fp16 and abs(peaks.bf16 / peaks.fp16 - 1) > 0.01:
        yield f"bf16 {peaks.bf16:g} and fp16 {peaks.fp16:g} TFLOPS differ; tensor cores run both alike"
    if peaks.fp8 and peaks.fp16 and peaks.fp8 > 2.05 * peaks.fp16:
        yield f"fp8 {peaks.fp8:g} TFLOPS is more than twice fp16 {peaks.fp16:g}: a sparse figure"
    if peaks.tf32 and peaks.fp16 and peaks.tf32 > 0.53 * peaks.fp16:
        yield f"tf32 {peaks.tf32:g} TFLOPS is more than half of fp16 {peaks.fp16:g}: a sparse figure"


def _shared_ids(catalog: Catalog) -> Iterator[str]:
    """Two models of one PCI id must be told apart by the driver's name or by memory."""
    owners: dict[str, list[Model]] = defaultdict(list)
    for model in catalog.models:
        for device in model.pci_device_ids:
            owners[device].append(model)
    for device, models in owners.items():
        marks = {(tuple(model.nvml_names), model.memory_mib_reported) for model in models}
        if len(marks) < len(models):
            yield f"{device} belongs to {', '.join(m.name for m in models)}: nothing tells them apart"


def _spell(rates: list[float]) -> str:
    return " or ".join(f"{rate:g}" for rate in rates) or "none"
