"""Device memory: how fast, and whether what was written comes back."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import Finding
from auditor.judge import expectations
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.rule import rule
from auditor.judge.texts import N_, Text
from auditor.judge.uniform import Kind, below_published
from auditor.records import Reading

_RATE = "memory_bandwidth_bytes_per_second"
_LARGE = 1e9


@rule
def bandwidth_low(case: Case) -> Iterator[Finding]:
    """The middle GPU's memory bandwidth lies below the lowest published for its model."""
    if case.model is None:
        return
    kinds: list[Kind] = []
    for op in ("read", "write", "copy", "triad"):
        readings = [reading for reading in case.per_gpu(_RATE, op=op).values() if _large(reading)]
        kinds.append((op, readings, expectations.memory(case.catalog, case.model, op)))
    yield from below_published(case, "memory-bandwidth-low", "op", kinds)


def _large(reading: Reading) -> bool:
    """Below 1 GiB the rate says more about launch and cache than about the memory."""
    size = reading.conditions.get("bytes", _LARGE)
    return isinstance(size, (int, float)) and size >= _LARGE


@rule
def memory_errors(case: Case) -> Iterator[Finding]:
    """Words that came back otherwise than they were written."""
    for gpu in case.gpus:
        bad = [r for r in case.view.all("memory_capacity_errors_total", gpu) if figure(r) > 0]
        if bad:
            yield case.finding(
                "memory-errors",
                "degraded",
                "reject",
                gpu,
                "evidence",
                "what is written must come back (docs/method.md, memory_capacity)",
                {"count": sum(figure(r) for r in bad)},
                bad,
            )


CAUSES = {
    "memory-bandwidth-low": (
        "gpu-wrong-model",
        "patched-name",
        "geforce-as-datacenter",
        "figures-contradict-model",
        "mig-sliced",
        "vgpu-grid",
        "software-slice",
        "shared-gpu",
        "power-brake",
        "clock-locked",
        "hw-slowdown-only",
    ),
    "memory-errors": (),
}

TEXTS = {
    "memory-bandwidth-low": Text(
        N_("GPU memory is slow"),
        N_("{measured:GB/s} {op}, median (GPUs: {gpus:int})"),
        N_("{expected:GB/s} at least on {model}"),
        N_("Inference and every memory-bound step lose as much. A slow memory clock, a slice, or another card."),
        N_(
            "GPU memory reaches {measured:GB/s} of the {expected:GB/s} the slowest published {model} holds. "
            "Please remove the memory clock limit or replace the GPUs."
        ),
    ),
    "memory-errors": Text(
        N_("GPU memory returns wrong data"),
        N_("words that came back wrong: {count:int}"),
        N_("none"),
        N_("Results and weights in this memory cannot be trusted."),
        N_("{gpu} returns wrong data from its memory ({count:int} words). Please replace it."),
    ),
}
