"""GPUs: one row each, figures with bars against the data sheet."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import Gpu
from auditor.judge.texts import N_
from auditor.report.sheets import Row, Table
from auditor.report.show import show
from auditor.report.view import Report, Seen
from auditor.report.workbook import Book, Column

ORDER = 60
TITLE = N_("GPUs")
EMPTY = N_("no GPU was found on any server")
NOTE = N_(
    "One row per GPU. Shares of the data sheet count dense figures; "
    "65–95 % of the dense peak is what healthy GPUs sustain."
)
COLUMNS = (
    Column(N_("Server"), "text", (16, 34)),
    Column(N_("GPU"), "text", (7, 9)),
    Column(N_("Model"), "text", (14, 28)),
    Column(N_("bf16 sustained"), "TFLOPS", (11, 14)),
    Column(N_("bf16 of data sheet"), "%", (11, 14), 1.0, unit_in_title=False),
    Column(N_("fp32 sustained"), "TFLOPS", (11, 14)),
    Column(N_("fp32 of data sheet"), "%", (11, 14), 1.0, unit_in_title=False),
    Column(N_("tf32 sustained"), "TFLOPS", (11, 14)),
    Column(N_("fp8 sustained"), "TFLOPS", (11, 14)),
    Column(N_("int8 sustained"), "TOPS", (11, 14)),
    Column(N_("Memory read"), "GB/s", (10, 13)),
    Column(N_("Memory of data sheet"), "%", (11, 14), 1.0, unit_in_title=False),
    Column(N_("Memory size"), "GiB", (9, 12)),
    Column(N_("Memory verified"), "GiB", (10, 12)),
    Column(N_("Host to GPU"), "GB/s", (9, 12)),
    Column(N_("GPU to host"), "GB/s", (9, 12)),
    Column(N_("PCIe generation"), "int", (11, 12)),
    Column(N_("PCIe lanes"), "int", (8, 10)),
    Column(N_("NVLinks up"), "int", (9, 10)),
    Column(N_("Hottest"), "°C", (9, 11)),
    Column(N_("Hottest memory"), "°C", (9, 11)),
    Column(N_("Mean power"), "W", (9, 11)),
    Column(N_("Power limit"), "W", (9, 11)),
    Column(N_("Mean SM clock"), "MHz", (9, 12)),
    Column(N_("bf16 per watt"), "TFLOPS/W", (10, 13)),
    Column(N_("UUID"), "text", (12, 44)),
    Column(N_("PCI address"), "text", (12, 18)),
)


def start(book: Book, report: Report) -> Table:
    """In the order of the inventory, then of the GPU's index."""
    return Table(book, __name__, COLUMNS, lambda seen: rows(report, seen), NOTE, frozen=2)


def rows(report: Report, seen: Seen) -> Iterator[Row]:
    """The GPUs of one server."""
    name = report.name(seen.server)
    for gpu in seen.server.gpus:
        yield row(name, gpu)


def row(server: str, gpu: Gpu) -> Row:
    """One GPU's figures."""
    got = gpu.figures.get
    return (
        server,
        show(gpu.subject),
        show(gpu.model or gpu.name or ""),
        got("matmul_bf16_sustained"),
        share(gpu, "matmul_bf16_sustained"),
        got("matmul_fp32_sustained"),
        share(gpu, "matmul_fp32_sustained"),
        got("matmul_tf32_sustained"),
        got("matmul_fp8_sustained"),
        got("matmul_int8_sustained"),
        got("memory_read"),
        share(gpu, "memory_read"),
        got("memory_bytes"),
        got("memory_verified"),
        got("h2d"),
        got("d2h"),
        got("pcie_generation"),
        got("pcie_lanes"),
        got("nvlinks_active"),
        got("celsius_max"),
        got("celsius_memory_max"),
        got("watts_mean"),
        got("power_limit"),
        got("sm_clock_mean"),
        got("flops_per_watt"),
        show(gpu.uuid or ""),
        show(gpu.pci or ""),
    )


def share(gpu: Gpu, name: str) -> float | None:
    """The figure over the data sheet's; None where either is unknown."""
    figure, spec = gpu.figures.get(name), gpu.spec.get(name)
    return figure / spec if figure is not None and spec else None
