"""How fast the GPUs calculate: against published figures, and against what the silicon can do at all.

Lines against published figures find the server whose GPUs are all capped or counterfeit; one slow GPU among
fast ones is found by its siblings (`rules/peers.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.catalog.model import Model
from auditor.finding import Finding
from auditor.judge import expectations
from auditor.judge.case import Case
from auditor.judge.figures import at_8192, figure
from auditor.judge.plausible import Impossible
from auditor.judge.rule import rule
from auditor.judge.texts import N_, Text
from auditor.judge.uniform import Kind, below_published

_SUSTAINED = "matmul_sustained_flops_per_second"
_BOOST = "matmul_boost_flops_per_second"
_PER_CLOCK = "matmul_flops_per_clock_per_sm"
_DTYPES = ("bf16", "fp16", "tf32", "fp32", "fp8", "int8", "fp64")


@rule
def matmul_low(case: Case) -> Iterator[Finding]:
    """The middle GPU's sustained rate lies below the lowest published for this model, its own spread included."""
    if case.model is None:
        return
    kinds: list[Kind] = []
    for dtype in _DTYPES:
        found = [at_8192(case.view, _SUSTAINED, gpu, dtype) for gpu in case.gpus]
        readings = [reading for reading in found if reading is not None]
        kinds.append((dtype, readings, expectations.matmul(case.catalog, case.model, dtype)))
    yield from below_published(case, "matmul-low", "dtype", kinds)


_WHAT = {
    _SUSTAINED: N_("matmul"),
    _BOOST: N_("matmul"),
    _PER_CLOCK: N_("work per clock"),
    "matmul_counted_sm_clock_hertz": N_("clock under load"),
    "matmul_watts": N_("power under load"),
    "thermal_flops_per_second": N_("matmul in the thermal window"),
    "thermal_sm_clock_hertz": N_("clock under load"),
    "thermal_watts": N_("power under load"),
    "thermal_gpu_celsius": N_("temperature"),
    "thermal_memory_celsius": N_("temperature"),
    "memory_bandwidth_bytes_per_second": N_("memory bandwidth"),
    "host_copy_bytes_per_second": N_("host copy"),
    "peer_copy_bytes_per_second": N_("copy between GPUs"),
    "collectives_algbw_bytes_per_second": N_("collectives"),
    "collectives_busbw_bytes_per_second": N_("collectives"),
    "gpu_identity_power_limit_watts": N_("power limit"),
    "gpu_identity_sm_clock_hertz": N_("clock as the driver tells it"),
    "gpu_identity_memory_clock_hertz": N_("clock as the driver tells it"),
    "gpu_identity_utilization_ratio": N_("use of the GPU"),
    "training_step_memory_use_ratio": N_("use of the memory"),
    "training_step_nvlink_use_ratio": N_("use of NVLink"),
}
_CEILINGS = {
    "links": N_("what the links of the model carry in the measured directions (gpus.yaml; PCI-SIG), and 15 %"),
    "driver": N_("the board's own highest power limit, as the driver tells it"),
    "unit": N_(
        "a share is at most 1, a GPU above 130 degrees is off (docs/thresholds.md, figures that cannot be true)"
    ),
}
_VARIANTS = {"links": "beyond-its-links", "unit": "beyond-measure", "driver": "beyond-measure", "model": None}


@rule
def implausible(case: Case) -> Iterator[Finding]:
    """A figure no card of this model can reach, or that is none: model, clock or figure is not what it seems.

    Of one subject the figure that is farthest off stands for all; the others are its evidence.
    """
    absurd: dict[str, list[Impossible]] = {}
    for one in case.impossible:
        absurd.setdefault(one.reading.subject, []).append(one)
    for subject, found in absurd.items():
        worst = max(found, key=_beyond)
        metric, value = worst.reading.metric, figure(worst.reading)
        yield case.finding(
            "figure-implausible",
            "unproven",
            "review",
            subject,
            "contradiction",
            _ceiling(case, worst),
            {
                "measured": _beyond(worst) or None,
                "value": value,
                "limit": worst.limit,
                "what": _WHAT.get(metric, metric),
                "model": worst.model,
                "variant": "no-rate" if worst.limit is None else _variant(worst),
            },
            (*(one.reading for one in found[:4]), case.view.one("gpu_identity_name", subject)),
        )


def _beyond(one: Impossible) -> float:
    """How many times the most it could be; 0 for a figure that fails at the lower end."""
    return figure(one.reading) / one.limit if one.limit else 0.0


def _variant(one: Impossible) -> str | None:
    return _VARIANTS[one.why] if one.model or one.why != "links" else "beyond-links"


def _ceiling(case: Case, one: Impossible) -> str:
    """Where the ceiling comes from that the figure is above, or the floor it is below."""
    if one.limit is None:
        return N_("what was measured is above zero, and no count is below it")
    if one.why != "model":
        return _CEILINGS[one.why]
    lines, metric = case.lines, one.reading.metric
    if "_watts" in metric:
        return lines.watts_over_limit.source
    if "_clock_" in metric:
        return lines.clock_over_model.source
    return lines.bandwidth_over_spec.source if "memory" in metric else lines.rate_over_spec.source


@rule
def per_clock_impossible(case: Case) -> Iterator[Finding]:
    """More operations per counted clock and SM than the architecture has: the model cannot be what it claims."""
    slack = 1 + case.lines.per_clock_over_formula.value
    for gpu in case.gpus:
        model = case.identities[gpu].model
        if model is None:
            continue
        for reading in case.view.all(_PER_CLOCK, gpu):
            formula = _formula(model, str(reading.conditions.get("dtype")))
            if formula is not None and figure(reading) > formula * slack:
                yield case.finding(
                    "per-clock-impossible",
                    "unproven",
                    "review",
                    gpu,
                    "spec",
                    case.lines.per_clock_over_formula.source,
                    {
                        "measured": figure(reading),
                        "expected": formula,
                        "dtype": reading.conditions.get("dtype"),
                        "model": model.name,
                    },
                    (reading, case.view.one("gpu_identity_name", gpu)),
                )


def _formula(model: Model, dtype: str) -> float | None:
    """FLOP per clock per SM of a dtype: the catalogue's FP16 figure times the ratio of the dense peaks."""
    base, fp16, peak = model.fp16_flops_per_clk_per_sm, model.peak("fp16"), model.peak(dtype)
    if not base or not fp16 or not peak:
        return None
    if dtype in ("fp32", "fp64"):
        return None  # vector units run at another clock than the tensor peaks were published for
    return base * peak / fp16


@rule
def wrong_results(case: Case) -> Iterator[Finding]:
    """A product that comes out differently from run to run, or far from the reference."""
    for gpu in case.gpus:
        wrong = [r for r in case.view.all("matmul_mismatches_total", gpu) if figure(r) > 0]
        if wrong:
            yield case.finding(
                "wrong-results",
                "degraded",
                "reject",
                gpu,
                "evidence",
                "the same product on the same GPU is the same bit for bit (docs/method.md, matmul)",
                {"count": sum(figure(r) for r in wrong), "dtype": wrong[0].conditions.get("dtype")},
                wrong,
            )


_SLOW = (
    "gpu-wrong-model",
    "patched-name",
    "geforce-as-datacenter",
    "cmp-as-a100",
    "figures-contradict-model",
    "mig-sliced",
    "vgpu-grid",
    "software-slice",
    "shared-gpu",
    "power-brake",
    "hw-thermal",
    "hw-slowdown-only",
    "power-capped",
    "clock-locked",
    "sw-thermal",
)
CAUSES = {
    "matmul-low": _SLOW,
    "figure-implausible": ("figures-contradict-model", "patched-name", "gpu-wrong-model"),
    "per-clock-impossible": ("figures-contradict-model", "patched-name", "geforce-as-datacenter", "gpu-wrong-model"),
    "wrong-results": ("memory-errors",),
}

TEXTS = {
    "matmul-low": Text(
        N_("The GPUs calculate too slowly"),
        N_("{measured:TFLOPS} {dtype} sustained, median (GPUs: {gpus:int})"),
        N_("{expected:TFLOPS} at least on {model}"),
        N_("All GPUs are slow together: capped, throttled, sliced, or not the model they claim to be."),
        N_(
            "The GPUs sustain {measured:TFLOPS} of the {expected:TFLOPS} that the slowest published {model} holds "
            "({dtype}). Please remove the cap or replace the GPUs."
        ),
    ),
    "figure-implausible": Text(
        N_("A figure above what the model can do"),
        N_("{what}: {measured:%} of the most that {model} can reach"),
        N_("at most 100 %"),
        N_("The model, the clock or the figure is not what it seems; the figure is left out of ranking and averages."),
        N_("{subject} shows figures no {model} can reach ({what}). Please explain which card this is."),
        {
            "no-rate": Text(
                N_("A figure that is none"),
                N_("{what}: zero, below zero or no number"),
                N_("a figure above zero, a count of zero or more"),
                N_("Nothing was measured, or the record was changed; the figure is left out of ranking and averages."),
            ),
            "beyond-its-links": Text(
                N_("A figure above what the links can do"),
                N_("{what}: {measured:%} of the most that the links of {model} can carry"),
                N_("at most 100 %"),
                N_("The clock or the figure is not what it seems; the figure is left out of ranking and averages."),
                N_("{subject} shows rates that the links of {model} cannot carry ({what}). Please explain them."),
            ),
            "beyond-links": Text(
                N_("A figure above what any link can do"),
                N_("{what}: {measured:%} of the most a GPU's links can carry"),
                N_("at most 100 %"),
                N_("The clock or the figure is not what it seems; the figure is left out of ranking and averages."),
            ),
            "beyond-measure": Text(
                N_("A figure that cannot be true"),
                N_("{what}: {measured:%} of the most it can be"),
                N_("at most 100 %"),
                N_("The sensor, the driver or the record is wrong; the figure is left out of ranking and averages."),
                N_("{subject} reports a figure that cannot be true ({what}). Please check sensor and driver."),
            ),
        },
    ),
    "per-clock-impossible": Text(
        N_("More work per clock than the architecture has"),
        N_("{measured:FLOP/clk/SM} ({dtype})"),
        N_("at most {expected:FLOP/clk/SM} on {model}"),
        N_("Work per counted clock is a property of the design. This is another chip, or the count was tampered with."),
        N_(
            "{gpu} does {measured:FLOP/clk/SM} where {model} has {expected:FLOP/clk/SM}. Please say which chip this is."
        ),
    ),
    "wrong-results": Text(
        N_("The GPU calculates wrongly"),
        N_("elements that differed between repeats: {count:int} ({dtype})"),
        N_("the same result bit for bit"),
        N_("Silent data corruption: training on this GPU cannot be trusted."),
        N_("{gpu} gives different results for the same product. Please replace it."),
    ),
}
