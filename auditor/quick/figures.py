"""Which of the many readings a person wants to see while they come, and under which words."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping

from auditor.records import Condition, Reading
from auditor.report.units import reading_text

# metric → (words, conditions that name the row, conditions a reading must have to be shown)
_SHOWN: dict[str, tuple[str, tuple[str, ...], dict[str, tuple[Condition, ...]]]] = {
    "gpu_identity_name": ("GPU", (), {}),
    "server_facts_driver_version": ("driver", (), {}),
    "topology_nvlinks_active_total": ("NVLinks active", (), {}),
    "time_slicing_gaps_total": ("shared with others: gaps", (), {}),
    "matmul_sustained_flops_per_second": ("matmul", ("dtype", "n", "load"), {}),
    "matmul_boost_flops_per_second": ("matmul, first calls", ("dtype", "load"), {}),
    "matmul_flops_per_clock_per_sm": ("per clock and SM", ("dtype",), {}),
    "memory_bandwidth_bytes_per_second": ("memory", ("op",), {}),
    "memory_capacity_bytes": ("memory written and read back", (), {}),
    "host_copy_bytes_per_second": ("host copy", ("direction", "memory", "load"), {"memory": ("pinned",)}),
    "peer_copy_bytes_per_second": ("GPU to GPU", ("direction",), {}),
    "collectives_busbw_bytes_per_second": ("all-reduce, bus", ("bytes", "ranks"), {"op": ("all_reduce",)}),
    "collectives_algbw_bytes_per_second": ("all-reduce, algorithm", ("bytes", "ranks"), {"op": ("all_reduce",)}),
    "thermal_gpu_celsius": ("temperature under load", (), {"stat": ("max",)}),
    "thermal_watts": ("power under load", (), {"stat": ("mean",)}),
    "thermal_sm_clock_hertz": ("SM clock under load", (), {"stat": ("mean",)}),
    "thermal_flops_per_second": ("matmul under heat", ("dtype",), {"window": ("last",)}),
    "training_step_speedup_ratio": ("training step, speed-up", ("ranks",), {}),
    "training_step_tokens_per_second": ("training step", ("ranks",), {}),
}
_WORDS = {"h2d": "to GPU", "d2h": "from GPU", "all": "all at once", "alone": "alone"}
Key = tuple[str, tuple[tuple[str, Condition], ...]]


@dataclasses.dataclass
class Row:
    """One line of the table: one figure over all subjects that have it."""

    probe: str
    metric: str
    words: str
    conditions: Mapping[str, Condition]
    values: dict[str, float] = dataclasses.field(default_factory=dict)
    texts: dict[str, str] = dataclasses.field(default_factory=dict)
    spread: float | None = None

    def take(self, reading: Reading) -> None:
        """One subject's reading."""
        if isinstance(reading.value, bool) or reading.value is None:
            return
        if isinstance(reading.value, str):
            self.texts[reading.subject] = reading.value
            return
        self.values[reading.subject] = float(reading.value)
        if reading.spread is not None:
            self.spread = max(self.spread or 0.0, reading.spread)

    def value(self) -> str:
        """The figure; over several GPUs the middle one, with the lowest and highest."""
        if self.texts:
            counted = {text: list(self.texts.values()).count(text) for text in self.texts.values()}
            return ", ".join(f"{n} × {text}" if len(self.texts) > 1 else text for text, n in counted.items())
        if not self.values:
            return ""
        low, high = min(self.values.values()), max(self.values.values())
        middle = reading_text(self.metric, statistics.median(self.values.values()))
        if len(self.values) == 1 or low == high:
            return middle
        shown_low, shown_high = reading_text(self.metric, low), reading_text(self.metric, high)
        return f"{middle}  ({shown_low.split(' ')[0]} to {shown_high.split(' ')[0]})"

    def middle(self) -> float | None:
        """The figure that has to meet the expectation: the middle one, as the judge takes it."""
        return statistics.median(self.values.values()) if self.values else None


def key(reading: Reading) -> Key | None:
    """The row a reading belongs to; None for what is not shown live."""
    known = _SHOWN.get(reading.metric)
    if known is None or reading.value is None:
        return None
    _, names, needed = known
    if any(reading.conditions.get(name) not in values for name, values in needed.items()):
        return None
    size = reading.conditions.get("bytes")
    if "algbw" in reading.metric and not (isinstance(size, int | float) and 256e6 <= size <= 640e6):
        return None  # only where the user's own floor is named; the bus figure says the rest
    return reading.metric, tuple((name, reading.conditions[name]) for name in names if name in reading.conditions)


def row(reading: Reading) -> Row:
    """An empty row for a reading's figure, with its words."""
    words, names, _ = _SHOWN[reading.metric]
    parts = [_condition(name, reading.conditions[name]) for name in names if name in reading.conditions]
    return Row(reading.probe, reading.metric, " ".join([words, *filter(None, parts)]), dict(reading.conditions))


def _condition(name: str, value: Condition) -> str:
    if name == "bytes" and isinstance(value, int | float):
        return f"{value / 1e6:.0f} MB"
    if name == "ranks":
        return f"of {value}"
    if name == "n":
        return f"{value}³"
    return "" if value == "pinned" else _WORDS.get(str(value), str(value))
