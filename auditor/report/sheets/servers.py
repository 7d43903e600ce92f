"""Servers: one row for everything that was rented, also for what never answered."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import ServerResult
from auditor.judge.texts import N_
from auditor.report.ordered import order_text
from auditor.report.sheets import Row, Table, of_each_server
from auditor.report.show import show
from auditor.report.view import Report
from auditor.report.words import missing_text, reason_text, word
from auditor.report.workbook import Book, Column

ORDER = 50
TITLE = N_("Servers")
EMPTY = N_("no server was audited")
NOTE = N_("Every server of the inventory has a row. An empty cell was not measured; why stands on Not measured.")
COLUMNS = (
    Column(N_("Server"), "text", (16, 34)),
    Column(N_("Verdict"), "verdict", (13, 18)),
    Column(N_("Why"), "wrap", (40, 40)),
    Column(N_("Ordered"), "wrap", (30, 30)),
    Column(N_("GPU model found"), "text", (14, 28), optional=True),
    Column(N_("GPUs found"), "int", (8, 10), optional=True),
    Column(N_("Machine"), "text", (12, 24), optional=True),
    Column(N_("bf16 a GPU, median"), "TFLOPS", (11, 14), optional=True),
    Column(N_("fp32 a GPU, median"), "TFLOPS", (11, 14), optional=True),
    Column(N_("Memory read a GPU, median"), "GB/s", (12, 15), optional=True),
    Column(N_("Host to GPU, median"), "GB/s", (10, 13), optional=True),
    Column(N_("GPU to host, median"), "GB/s", (10, 13), optional=True),
    Column(N_("All-reduce algorithm bandwidth"), "GB/s", (13, 16), optional=True),
    Column(N_("All-reduce bus bandwidth"), "GB/s", (13, 16), optional=True),
    Column(N_("Training speed-up, all GPUs"), "×", (12, 14), optional=True),
    Column(N_("Hottest GPU"), "°C", (9, 11), optional=True),
    Column(N_("Power of all GPUs"), "W", (10, 12), optional=True),
    Column(N_("bf16 per watt, median"), "TFLOPS/W", (11, 13), optional=True),
    Column(N_("Profile"), "text", (10, 12)),
    Column(N_("Measured on"), "text", (9, 12)),
    Column(N_("Started (UTC)"), "text", (14, 26)),
    Column(N_("Duration"), "s", (9, 12)),
    Column(N_("Inventory name"), "text", (16, 34)),
    Column(N_("Provider"), "text", (12, 24), optional=True),
    Column(N_("SHA-256 of the record"), "text", (20, 68)),
)
_FIGURES = (
    "matmul_bf16_sustained",
    "matmul_fp32_sustained",
    "memory_read",
    "h2d",
    "d2h",
    "allreduce_algbw",
    "allreduce_busbw",
    "training_speedup",
    "celsius_max",
    "watts_mean",
    "flops_per_watt",
)


def start(book: Book, report: Report) -> Table:
    """In the order of the inventory."""
    return of_each_server(book, report, __name__, COLUMNS, rows, note=NOTE, printed=N_("bf16 per watt, median"))


def rows(report: Report, provider: str, server: ServerResult) -> Iterator[Row]:
    """One server, one row."""
    yield (
        report.name(server),
        server.verdict,
        why(report, server),
        order_text(report.texts, server.order),
        show(server.model or ""),
        len(server.gpus) or None,
        word(report.texts, server.level),
        *(server.figures.get(name) for name in _FIGURES),
        server.profile,
        {"cuda": "GPU", "cpu": "CPU"}.get(server.device or "", server.device),
        report.when(server.started) if server.started else None,
        server.seconds,
        show(server.name),
        report.place(provider) if report.several else None,
        server.sha256,
    )


def why(report: Report, server: ServerResult) -> str:
    """The verdict in a sentence: the reason it ended, or its worst root findings."""
    texts = report.texts
    parts = [reason_text(texts, server.reason)] if server.reason else []
    parts += [report.rendered(f).title for f in server.roots if f.severity in ("reject", "review")][:3]
    if not parts and server.missing:
        missing = missing_text(texts, server.missing)
        parts.append(texts._(N_("not measured: {names}"), names=missing))
    if server.order is None:
        parts.append(texts._(N_("no order given")))
    return texts.strung(parts)
