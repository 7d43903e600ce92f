"""A Prometheus textfile for node_exporter: the last audit's verdicts, findings and figures as gauges."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from auditor.finding import SEVERITIES, VERDICTS
from auditor.report.formats import Sink, Whole
from auditor.report.show import show
from auditor.report.view import Report, Seen

NAME = "prometheus"
FILE = "report.prom"

_FAMILIES = {
    "gpu_audit_verdict": "1 for the verdict of the server's last audit, 0 for the others",
    "gpu_audit_findings": "Findings of the server's last audit by severity",
    "gpu_audit_started_timestamp_seconds": "When the server's last audit started",
    "gpu_audit_gpus": "GPUs found on the server",
    "gpu_audit_synthetic": "1 when the record is made for tests and no real machine was measured",
    "gpu_audit_gpu_flops_per_second": "Sustained matrix rate of a GPU, all GPUs at work",
    "gpu_audit_gpu_memory_bytes_per_second": "Read bandwidth of a GPU's memory",
    "gpu_audit_gpu_celsius": "Hottest a GPU became under load",
    "gpu_audit_allreduce_bus_bytes_per_second": "All-reduce bus bandwidth next to 400 MB over all GPUs",
    "gpu_audit_price_per_pflop_hour": "Price of a delivered PFLOP-hour in the order's currency",
}


class _Gauges:
    """Samples of one family must stand together, so each family gathers its lines."""

    def __init__(self, report: Report, path: Path) -> None:
        self.report, self.path = report, path
        self.lines: dict[str, list[str]] = {family: [] for family in _FAMILIES}

    def take(self, seen: Seen) -> None:
        """The gauges of one server."""
        server = seen.server
        labels = {"inventory": seen.provider, "server": server.name}
        for verdict in VERDICTS:
            self._add("gpu_audit_verdict", {**labels, "verdict": verdict}, float(server.verdict == verdict))
        for severity in SEVERITIES:
            count = sum(finding.severity == severity for finding in server.findings)
            self._add("gpu_audit_findings", {**labels, "severity": severity}, count)
        self._add("gpu_audit_started_timestamp_seconds", labels, _timestamp(server.started))
        self._add("gpu_audit_gpus", labels, len(server.gpus))
        self._add("gpu_audit_synthetic", labels, float(server.synthetic))
        for gpu in server.gpus:
            one = {**labels, "gpu": gpu.subject, "uuid": gpu.uuid or ""}
            for dtype in ("bf16", "fp32"):
                rate = gpu.figures.get(f"matmul_{dtype}_sustained")
                self._add("gpu_audit_gpu_flops_per_second", {**one, "dtype": dtype}, rate)
            self._add("gpu_audit_gpu_memory_bytes_per_second", one, gpu.figures.get("memory_read"))
            self._add("gpu_audit_gpu_celsius", one, gpu.figures.get("celsius_max"))
        self._add("gpu_audit_allreduce_bus_bytes_per_second", labels, server.figures.get("allreduce_busbw"))
        if server.cost:
            priced = {**labels, "currency": server.cost.currency}
            self._add("gpu_audit_price_per_pflop_hour", priced, server.cost.per_pflop_hour)

    def end(self) -> list[Path]:
        """Write family by family."""
        whole = Whole(self.path)
        for family, told in _FAMILIES.items():
            if self.lines[family]:
                whole.file.write(f"# HELP {family} {told}\n# TYPE {family} gauge\n")
                whole.file.writelines(self.lines[family])
        return whole.done()

    def _add(self, family: str, labels: dict[str, str], value: float | None) -> None:
        if value is not None:
            shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            self.lines[family].append(f"{family}{{{shown}}} {value!r}\n")


def start(report: Report, path: Path) -> Sink:
    """Begin to gather."""
    return _Gauges(report, path)


def _timestamp(started: str | None) -> float | None:
    try:
        return datetime.fromisoformat(started).timestamp() if started else None
    except ValueError:
        return None


def _escaped(text: str) -> str:
    return show(text).replace("\\", "\\\\").replace('"', '\\"')
