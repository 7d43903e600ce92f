"""Base units in, units a reader knows out: 6.55e14 FLOP/s is shown as 655 TFLOPS."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.records import Value


@dataclass(frozen=True)
class Unit:
    """`factor` base units make one shown unit; `excel` is the number format; `places` None = three digits."""

    label: str
    factor: float = 1.0
    excel: str = "[>=100]#,##0;[>=10]#,##0.0;0.00"  # three digits, as `digits` writes them
    places: int | None = None
    space: str = " "


UNITS: dict[str, Unit] = {
    "TFLOPS": Unit("TFLOPS", 1e12),
    "PFLOPS": Unit("PFLOPS", 1e15),
    "TOPS": Unit("TOPS", 1e12),
    "TFLOPS/W": Unit("TFLOPS/W", 1e12, "0.00", 2),
    "GB/s": Unit("GB/s", 1e9),
    "GiB": Unit("GiB", 2.0**30),
    "MiB": Unit("MiB", 2.0**20),
    "GB": Unit("GB", 1e9),
    "MB": Unit("MB", 1e6),
    "bytes": Unit("B", 1.0, "#,##0", 0),
    "MHz": Unit("MHz", 1e6, "#,##0", 0),
    "Hz": Unit("Hz"),
    "W": Unit("W", 1.0, "#,##0", 0),
    "°C": Unit("°C", 1.0, "0", 0),
    "%": Unit("%", 0.01, "0.0%", 1, ""),
    "h": Unit("h", 3600.0),
    "s": Unit("s"),
    "ms": Unit("ms", 1e-3),
    "µs": Unit("µs", 1e-6),
    "ns": Unit("ns", 1e-9),
    "Gbit/s": Unit("Gbit/s", 1e9, "#,##0", 0),
    "FLOP/clk/SM": Unit("FLOP/clk/SM", 1.0, "#,##0", 0),
    "tokens/s": Unit("tokens/s", 1.0, "#,##0", 0),
    "files/s": Unit("files/s", 1.0, "#,##0", 0),
    "1/s": Unit("1/s", 1.0, "#,##0", 0),
    "×": Unit("×", 1.0, "0.00", 2, ""),
    "ratio": Unit("", 1.0, "0.000", 3, ""),
    "int": Unit("", 1.0, "#,##0", 0, ""),
    "number": Unit("", space=""),
}

# A metric's name ends in its base unit (docs/method.md); the first ending that fits decides.
_ENDINGS: tuple[tuple[str, str], ...] = (
    ("_flops_per_second", "TFLOPS"),
    ("_flops_per_joule", "TFLOPS/W"),
    ("_flops_per_clock_per_sm", "FLOP/clk/SM"),
    ("_tokens_per_second", "tokens/s"),
    ("_files_per_second", "files/s"),
    ("_operations_per_second", "1/s"),
    ("_samples_per_second", "Hz"),
    ("_bits_per_second", "Gbit/s"),
    ("_bytes_per_second", "GB/s"),
    ("_bytes", "GiB"),
    ("_hertz", "MHz"),
    ("_celsius", "°C"),
    ("_watts", "W"),
    ("_ratio", "ratio"),
    ("_total", "int"),
)
_SMALL_SECONDS = ("latency_", "peer_copy_latency", "l2_cache_latency", "storage_latency", "time_slicing_largest")


def unit_of(metric: str) -> str:
    """The unit a metric is shown in, from its ending; "number" where the ending says nothing."""
    if metric.endswith("_seconds"):
        return "µs" if metric.startswith(_SMALL_SECONDS) else "s"
    return next((unit for ending, unit in _ENDINGS if metric.endswith(ending)), "number")


def digits(value: float) -> str:
    """Three significant digits or all before the point, with thousands separated; never an exponent."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    if size < 0.01:
        return f"{value:.6f}".rstrip("0").rstrip(".")
    places = 1 if size >= 10 else 2 if size >= 0.1 else 3
    return f"{value:,.{places}f}"


def amount(value: float, unit: str) -> str:
    """The value in the unit without its label."""
    known = UNITS[unit]
    scaled = value / known.factor
    return digits(scaled) if known.places is None else f"{scaled:,.{known.places}f}"


def with_unit(value: float, unit: str) -> str:
    """The value and its unit, as prose: "655 TFLOPS", "83.3%"."""
    known = UNITS[unit]
    return f"{amount(value, unit)}{known.space if known.label else ''}{known.label}"


def reading_text(metric: str, value: Value) -> str:
    """A reading's value with the unit its metric is shown in; texts are left to `show`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return with_unit(value, unit_of(metric))
