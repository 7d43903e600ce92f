"""`auditor catalog`: which GPU models are known, what stands about one, and whether the catalogue is sound."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from auditor import catalog as catalogue
from auditor.catalog import check as checking
from auditor.catalog.achievable import low
from auditor.catalog.model import DTYPES, Model
from auditor.errors import UserError


@click.group("catalog")
def command() -> None:
    """The GPU models the auditor knows, with their sources."""


@command.command("list")
def list_models() -> None:
    """One line per model."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("model", "PCI id", "SMs", "memory GB", "GB/s", "bf16 TFLOPS", "NVLinks", "W"):
        right = heading not in ("model", "PCI id")
        table.add_column(heading, justify="right" if right else "left", no_wrap=heading != "PCI id")
    for model in catalogue.load().models:
        peak = model.peak_dense.bf16 or model.peak_dense.fp16
        cells = (model.sm_count, model.memory_gb, model.memory_bandwidth_gb_s, peak, model.nvlink_links, model.tdp_w)
        ids = " ".join(device.removeprefix("10de:") for device in model.pci_device_ids)
        table.add_row(model.name, ids, *(f"{cell:g}" if cell is not None else "–" for cell in cells))
    Console(width=120).print(table)


@command.command("show")
@click.argument("model")
def show(model: str) -> None:
    """Everything that stands about MODEL, and what others measured on it."""
    catalog = catalogue.load()
    found = catalog.named(model)
    if not found:
        raise UserError(f"catalog: no model is called {model!r}; `auditor catalog list` shows them all.")
    for one in found:
        _print(one)
        for row in catalog.achievable.matmul:
            if row.gpu == one.name:
                click.echo(
                    f"  measured {row.dtype}: {low(row.tflops):g} TFLOPS ({row.kind}; {row.conditions}) [{row.source}]"
                )
        for rate in catalog.achievable.memory_bandwidth:
            if rate.gpu == one.name and rate.comparable:
                click.echo(f"  measured memory {rate.op}: {low(rate.gb_s):g} GB/s ({rate.conditions}) [{rate.source}]")
        for reduced in catalog.achievable.nccl_all_reduce:
            if one.name in reduced.models and reduced.comparable:
                size = f"{(reduced.bytes or 0) / 2**20:g} MiB"
                busbw = f"{low(reduced.busbw_gb_s):g} GB/s busbw"
                click.echo(
                    f"  measured all-reduce, {reduced.system}, {size}: {busbw} (NVLS {reduced.nvls}) [{reduced.source}]"
                )


def _print(model: Model) -> None:
    click.echo(
        f"{model.name}  ({model.chip}, {model.architecture}, {model.form_factor}; confidence {model.confidence})"
    )
    click.echo(f"  called {', '.join(model.nvml_names) or 'unknown'}; PCI {', '.join(model.pci_device_ids)}")
    memory = f"{model.memory_gb:g} GB {model.memory_type}"
    click.echo(
        f"  {model.sm_count} SMs, {memory}, {model.memory_bandwidth_gb_s} GB/s, L2 {model.l2_mb} MB, {model.tdp_w} W"
    )
    peaks = [f"{dtype} {peak:g}" for dtype in DTYPES if (peak := getattr(model.peak_dense, dtype)) is not None]
    click.echo(f"  dense peaks, TFLOPS: {', '.join(peaks)}")
    click.echo(f"  NVLink: {model.nvlink_links} links, {model.nvlink_gb_s_bidirectional_total:g} GB/s both ways")
    click.echo(f"  PCIe gen {model.pcie_gen} x{model.pcie_lanes}; ECC: {model.ecc}")
    if model.notes:
        click.echo(f"  {model.notes}")
    for source in model.sources:
        click.echo(f"  source: {source}")


@command.command("check")
@click.option("--gpus", type=click.Path(dir_okay=False, path_type=Path), help="Another gpus.yaml to check.")
@click.option("--achievable", type=click.Path(dir_okay=False, path_type=Path), help="Another achievable.yaml to check.")
def check(gpus: Path | None, achievable: Path | None) -> None:
    """Refuses what contradicts the architecture or itself, such as a rate given with sparsity."""
    catalog = catalogue.read(gpus or catalogue.GPUS, achievable or catalogue.ACHIEVABLE)
    found = checking.problems(catalog)
    for problem in found:
        click.echo(problem, err=True)
    if found:
        raise UserError(f"catalog: {len(found)} problem(s); correct the entries above.")
    click.echo(f"{len(catalog.models)} models, every peak within the architecture, every row with a source.")
