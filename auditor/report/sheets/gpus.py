"""GPUs: one row each, figures with bars against the data sheet; a figure that a finding rests on is marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from auditor.finding import SEVERITIES, Evidence, Gpu, ServerResult, Severity
from auditor.judge.texts import N_
from auditor.records import Value
from auditor.report.sheets import Row, Table, of_each_server
from auditor.report.show import show
from auditor.report.view import Report
from auditor.report.workbook import Book, Column, Put

ORDER = 60
TITLE = N_("GPUs")
EMPTY = N_("no GPU was found on any server")
NOTE = N_(
    "Figures under load, all GPUs at once. Shares are of the data sheet's dense peak. "
    "A marked figure (✖ ! →) is one that a finding rests on."
)
# column, figure, and the readings behind it: the metric's beginning and the conditions that must hold
FIGURES: tuple[tuple[Column, str, str, dict[str, str]], ...] = (
    (Column(N_("bf16 sustained"), "TFLOPS", (11, 14)), "matmul_bf16_sustained", "matmul_sustained", {"dtype": "bf16"}),
    (
        Column(N_("bf16, share of data sheet"), "%", (12, 14), 1.0, False, True),
        "matmul_bf16_sustained/spec",
        "",
        {},
    ),
    (
        Column(N_("fp16 sustained"), "TFLOPS", (11, 14), optional=True),
        "matmul_fp16_sustained",
        "matmul_sustained",
        {"dtype": "fp16"},
    ),
    (
        Column(N_("tf32 sustained"), "TFLOPS", (11, 14), optional=True),
        "matmul_tf32_sustained",
        "matmul_sustained",
        {"dtype": "tf32"},
    ),
    (
        Column(N_("fp32 sustained"), "TFLOPS", (11, 14), optional=True),
        "matmul_fp32_sustained",
        "matmul_sustained",
        {"dtype": "fp32"},
    ),
    (
        Column(N_("fp8 sustained"), "TFLOPS", (11, 14), optional=True),
        "matmul_fp8_sustained",
        "matmul_sustained",
        {"dtype": "fp8"},
    ),
    (
        Column(N_("int8 sustained"), "TOPS", (11, 14), optional=True),
        "matmul_int8_sustained",
        "matmul_sustained",
        {"dtype": "int8"},
    ),
    (
        Column(N_("Memory read"), "GB/s", (10, 13), optional=True),
        "memory_read",
        "memory_bandwidth",
        {"op": "read"},
    ),
    (Column(N_("Memory, share of data sheet"), "%", (12, 14), 1.0, False, True), "memory_read/spec", "", {}),
    (Column(N_("Memory size"), "GiB", (9, 12)), "memory_bytes", "gpu_identity_memory_bytes", {}),
    (
        Column(N_("Memory verified"), "GiB", (10, 12), optional=True),
        "memory_verified",
        "memory_capacity_bytes",
        {},
    ),
    (Column(N_("Host to GPU"), "GB/s", (9, 12)), "h2d", "host_copy_bytes", {"direction": "h2d"}),
    (Column(N_("GPU to host"), "GB/s", (9, 12)), "d2h", "host_copy_bytes", {"direction": "d2h"}),
    (Column(N_("PCIe generation"), "int", (11, 12), optional=True), "pcie_generation", "host_copy_pcie_generation", {}),
    (Column(N_("PCIe lanes"), "int", (8, 10), optional=True), "pcie_lanes", "host_copy_pcie_width", {}),
    (Column(N_("NVLinks up"), "int", (9, 10), optional=True), "nvlinks_active", "topology_nvlinks_active", {}),
    (Column(N_("Hottest"), "°C", (9, 11)), "celsius_max", "thermal_gpu_celsius", {}),
    (Column(N_("Hottest memory"), "°C", (9, 11), optional=True), "celsius_memory_max", "thermal_memory_celsius", {}),
    (Column(N_("Mean power"), "W", (9, 11)), "watts_mean", "thermal_watts", {}),
    (Column(N_("Power limit"), "W", (9, 11), optional=True), "power_limit", "gpu_identity_power_limit", {}),
    (Column(N_("Mean SM clock"), "MHz", (9, 12), optional=True), "sm_clock_mean", "thermal_sm_clock", {}),
    (Column(N_("bf16 per watt"), "TFLOPS/W", (10, 13), optional=True), "flops_per_watt", "thermal_flops_per_joule", {}),
)
COLUMNS = (
    Column(N_("Server"), "text", (16, 34)),
    Column(N_("GPU"), "text", (8, 9)),
    Column(N_("Model"), "text", (14, 28)),
    *(column for column, *_ in FIGURES),
    Column(N_("UUID"), "text", (12, 44)),
    Column(N_("PCI address"), "text", (12, 18)),
    Column(N_("Provider"), "text", (12, 24), optional=True),
)
_LAST_PRINTED = N_("bf16 per watt")


def start(book: Book, report: Report) -> Table:
    """In the order of the inventory, then of the GPU's index."""
    return of_each_server(book, report, __name__, COLUMNS, rows, note=NOTE, frozen=2, printed=_LAST_PRINTED)


def rows(report: Report, provider: str, server: ServerResult) -> Iterator[Row]:
    """The GPUs of one server."""
    name = report.name(server)
    marks = marked(server)
    for gpu in server.gpus:
        figures = (_figure(gpu, figure, marks) for _, figure, _, _ in FIGURES)
        place = report.place(provider) if report.several else None
        model = show(gpu.model or gpu.name or "")
        yield (name, show(gpu.subject), model, *figures, show(gpu.uuid or ""), show(gpu.pci or ""), place)


def marked(server: ServerResult) -> dict[tuple[str, str], Severity]:
    """(GPU, figure) → the severity of the worst finding that rests on it."""
    found: dict[tuple[str, str], Severity] = {}
    for finding in server.findings:
        if finding.severity == "info":
            continue
        for evidence in finding.evidence:
            if evidence.subject != finding.subject:
                continue
            for figure in _resting_on(evidence):
                key = (evidence.subject, figure)
                found[key] = min(found.get(key, "info"), finding.severity, key=SEVERITIES.index)
    return found


def _resting_on(evidence: Evidence) -> Iterator[str]:
    for _, figure, metric, conditions in FIGURES:
        told = all(evidence.conditions.get(key) == value for key, value in conditions.items())
        if metric and told and evidence.metric.startswith(metric):
            yield figure


def _figure(gpu: Gpu, name: str, marks: Mapping[tuple[str, str], Severity]) -> Value | Put:
    if name.endswith("/spec"):
        return share(gpu, name.removesuffix("/spec"))
    value = gpu.figures.get(name)
    severity = marks.get((gpu.subject, name))
    return Put(value, tint=severity) if severity and value is not None else value


def share(gpu: Gpu, name: str) -> float | None:
    """The figure over the data sheet's; None where either is unknown."""
    figure, spec = gpu.figures.get(name), gpu.spec.get(name)
    return figure / spec if figure is not None and spec else None
