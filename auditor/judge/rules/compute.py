"""How fast the GPUs calculate: against published figures, and against what the silicon can do at all.

Lines against published figures find the server whose GPUs are all capped or counterfeit; one slow GPU among
fast ones is found by its siblings (`rules/peers.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.catalog.model import Model
from auditor.finding import Finding
from auditor.judge import expectations
from auditor.judge.case import Case, Impossible
from auditor.judge.figures import at_8192, figure
from auditor.judge.rule import rule
from auditor.judge.texts import N_, Text
from auditor.judge.uniform import Kind, below_published

_SUSTAINED = "matmul_sustained_flops_per_second"
_BOOST = "matmul_boost_flops_per_second"
_PER_CLOCK = "matmul_flops_per_clock_per_sm"
LINKS = "both directions of the widest link of the model together (auditor/catalog/gpus.yaml; PCIe 6.0 x16: 256 GB/s)"
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
    "thermal_flops_per_second": N_("matmul in the thermal window"),
    "memory_bandwidth_bytes_per_second": N_("memory bandwidth"),
    "host_copy_bytes_per_second": N_("host copy"),
    "collectives_algbw_bytes_per_second": N_("collectives"),
    "collectives_busbw_bytes_per_second": N_("collectives"),
}


@rule
def implausible(case: Case) -> Iterator[Finding]:
    """A rate no card of this model can reach, or none at all: the model, the clock or the figure is not what it seems.

    Of one subject the figure that is farthest off stands for all; the others are its evidence.
    """
    absurd: dict[str, list[Impossible]] = {}
    for one in case.impossible:
        absurd.setdefault(one.reading.subject, []).append(one)
    for subject, found in absurd.items():
        worst = max(found, key=lambda one: figure(one.reading) / (one.limit or 1.0))
        value, beyond = figure(worst.reading), worst.limit is not None and figure(worst.reading) > worst.limit
        line = case.lines.bandwidth_over_spec if "memory" in worst.reading.metric else case.lines.rate_over_spec
        links = worst.reading.metric.startswith(("host_copy", "collectives"))
        yield case.finding(
            "figure-implausible",
            "unproven",
            "review",
            subject,
            "contradiction",
            line.source if beyond and not links else LINKS if beyond else "a rate that was measured is above zero",
            {
                "measured": value / worst.limit if worst.limit else None,
                "value": value,
                "limit": worst.limit,
                "what": _WHAT[worst.reading.metric],
                "model": worst.model,
                "variant": None if beyond and worst.model else "beyond-links" if beyond else "no-rate",
            },
            (*(one.reading for one in found[:4]), case.view.one("gpu_identity_name", subject)),
        )


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
        N_("{what}: {measured:%} of the most a {model} can reach"),
        N_("at most 100 %"),
        N_("The model, the clock or the figure is not what it seems; the figure is left out of ranking and averages."),
        N_("{gpu} shows figures no {model} can reach. Please explain which card this is."),
        {
            "no-rate": Text(
                N_("A figure that is no rate"),
                N_("{what}: zero, below zero or no number"),
                N_("a rate above zero"),
                N_("Nothing was measured, or the record was changed; the figure is left out of ranking and averages."),
            ),
            "beyond-links": Text(
                N_("A figure above what any link can do"),
                N_("{what}: {measured:%} of the most a GPU's links can carry"),
                N_("at most 100 %"),
                N_("The clock or the figure is not what it seems; the figure is left out of ranking and averages."),
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
