"""Which curves a server's page shows: collectives by size, heat, power and clock over time, scaling."""

from __future__ import annotations

from markupsafe import Markup

from auditor.judge.texts import N_
from auditor.records import Record
from auditor.report.html.svg import Curve, curves
from auditor.report.published import band
from auditor.report.show import show
from auditor.report.units import UNITS
from auditor.report.view import Report, Seen

_COURSES = (
    ("thermal_gpu_celsius", N_("Temperature of the GPUs"), "°C"),
    ("thermal_watts", N_("Power of the GPUs"), "W"),
    ("thermal_sm_clock_hertz", N_("SM clock of the GPUs"), "MHz"),
)
_MOST_POINTS = 60


def charts(report: Report, seen: Seen) -> list[Markup]:
    """The charts that have something to show."""
    if seen.record is None:
        return []
    made = [_allreduce(report, seen, seen.record), _scaling(report, seen.record)]
    made += [_course(report, seen.record, *course) for course in _COURSES]
    return [chart for chart in made if chart]


def _allreduce(report: Report, seen: Seen, record: Record) -> Markup:
    found: dict[tuple[float, str], list[tuple[float, float | None]]] = {}
    for one in record.readings:
        size, ranks = one.conditions.get("bytes"), one.conditions.get("ranks")
        if one.metric != "collectives_busbw_bytes_per_second" or one.conditions.get("op") != "all_reduce":
            continue
        if isinstance(size, int | float) and isinstance(ranks, int | float) and isinstance(one.value, int | float):
            key = (float(ranks), str(one.conditions.get("dtype", "")))
            found.setdefault(key, []).append((size / 1e6, one.value / 1e9))
    if not found:
        return Markup("")
    best = max(found, key=lambda key: (key[0], key[1] == "float32"))
    drawn = [Curve(report.name(seen.server), sorted(found[best], key=lambda point: point[0]))]
    model, gpus = seen.server.model, len(seen.server.gpus)
    for name, published in band(model or "", gpus):
        points = [(size / 1e6, rate / 1e9) for size, rate in published]
        drawn.append(Curve(report.texts._(name, model=model, gpus=gpus), points, reference=True))
    _ = report.texts._
    title, across = _(N_("All-reduce: bus bandwidth by message size")), _(N_("Message size (MB)"))
    return curves(title, across, "GB/s", drawn, doubling=True)


def _scaling(report: Report, record: Record) -> Markup:
    points: list[tuple[float, float | None]] = []
    for one in record.readings:
        ranks = one.conditions.get("ranks")
        if one.metric == "training_step_speedup_ratio" and isinstance(ranks, int | float):
            points.append((float(ranks), float(one.value) if isinstance(one.value, int | float) else None))
    points.sort(key=lambda point: point[0])
    _ = report.texts._
    ideal = Curve(_(N_("Ideal")), [(x, x) for x, _y in points], reference=True)
    drawn = [Curve(_(N_("Measured")), points), ideal] if len(points) > 1 else []
    return curves(_(N_("Training speed-up by GPUs used")), _(N_("GPUs used")), "×", drawn)


def _course(report: Report, record: Record, metric: str, title: str, unit: str) -> Markup:
    factor = UNITS[unit].factor
    drawn = []
    for series in record.series:
        if series.metric == metric:
            step = max(1, -(-len(series.t) // _MOST_POINTS))
            pairs = zip(series.t[::step], series.v[::step], strict=True)
            drawn.append(Curve(show(series.subject), [(t, None if v is None else v / factor) for t, v in pairs]))
    _ = report.texts._
    return curves(_(title), _(N_("Time under load (s)")), unit, drawn[:8])
