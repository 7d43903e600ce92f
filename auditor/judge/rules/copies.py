"""Host copies and the PCIe link under them, judged under load only: at idle a link rests at gen 1.

In a guest the virtual root port lies about generation and width, so the measured rate decides there.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.catalog.model import Model
from auditor.finding import Finding
from auditor.judge import expectations
from auditor.judge.case import Case
from auditor.judge.expectations import Expectation
from auditor.judge.figures import figure
from auditor.judge.rule import rule
from auditor.judge.statistics import allowance
from auditor.judge.texts import N_, Text
from auditor.records import Reading

_RATE = "host_copy_bytes_per_second"
_LARGE = 64e6
_GUESTS = ("passthrough guest", "unclear", "vGPU", "sandbox")


@rule
def host_copy_low(case: Case) -> Iterator[Finding]:
    """Pinned copies of one GPU at a time, slower than the lowest published over the link its model has."""
    slow: dict[str, tuple[float, Reading, Expectation]] = {}
    for gpu in case.gpus:
        model = case.identities[gpu].model
        worst = _slowest(case, gpu, model) if model else None
        if worst is not None and worst[0] < 1 - case.lines.host_copy_margin.value:
            slow[gpu] = worst
    everywhere = len(slow) == case.count > 1
    for gpu, (ratio, reading, expected) in list(slow.items())[: 1 if everywhere else None]:
        yield case.finding(
            "host-copy-low",
            "underperforming",
            "review",
            "server" if everywhere else gpu,
            expected.basis,
            expected.source,
            {
                "measured": figure(reading),
                "expected": expected.value,
                "ratio": ratio,
                "direction": reading.conditions.get("direction"),
                "gpus": len(slow) if everywhere else 1,
            },
            [r for _, r, _ in slow.values()] if everywhere else (reading,),
        )


def _slowest(case: Case, gpu: str, model: Model) -> tuple[float, Reading, Expectation] | None:
    """The direction that falls shortest of its expectation, near memory first."""
    worst: tuple[float, Reading, Expectation] | None = None
    for direction in ("h2d", "d2h"):
        readings = [r for r in case.view.all(_RATE, gpu, direction=direction, memory="pinned") if _fair(r)]
        expected = expectations.host_copy(case.catalog, model.pcie_gen, model.pcie_lanes, direction)
        if not readings or expected is None:
            continue
        best = max(readings, key=figure)
        ratio = figure(best) * (1 + allowance(best.spread)) / expected.value
        if worst is None or ratio < worst[0]:
            worst = (ratio, best, expected)
    return worst


def _fair(reading: Reading) -> bool:
    """Large enough, and not while other GPUs copy over the same uplink."""
    size = reading.conditions.get("bytes", _LARGE)
    alone = reading.conditions.get("load", "alone") == "alone"
    return alone and isinstance(size, (int, float)) and size >= _LARGE


@rule
def pcie_below_card(case: Case) -> Iterator[Finding]:
    """Under load the link runs at fewer lanes or a lower generation than the card has, and the copies show it."""
    for gpu in case.gpus:
        model = case.identities[gpu].model
        if model is None:
            continue
        for id, metric, full in (
            ("pcie-gen-low", "host_copy_pcie_generation", model.pcie_gen),
            ("pcie-width-low", "host_copy_pcie_width_lanes", model.pcie_lanes),
        ):
            told = [r for r in case.view.all(metric, gpu) if 0 < figure(r) < full]
            told = [r for r in told if r.conditions.get("port", "gpu") == "gpu" or not _guest(case)]
            slowest = _slowest(case, gpu, model)
            shown = slowest is not None and slowest[0] < 1 - case.lines.host_copy_margin.value
            if not told or (slowest is not None and not shown) or (_guest(case) and not shown):
                continue
            yield case.finding(
                id,
                "misallocated",
                "review",
                gpu,
                "spec",
                "; ".join(model.sources[:1]),
                {
                    "measured": min(figure(r) for r in told),
                    "expected": full,
                    "rate": figure(slowest[1]) if slowest else None,
                    "port": str(told[0].conditions.get("port", "gpu")),
                },
                (*told, slowest[1] if slowest else None),
            )


def _guest(case: Case) -> bool:
    return case.machine.level in _GUESTS


CAUSES = {
    "host-copy-low": ("pcie-width-low", "pcie-gen-low", "vgpu-grid", "api-remoting", "shared-gpu", "gpu-wrong-model"),
    "pcie-gen-low": ("gpu-wrong-model",),
    "pcie-width-low": ("gpu-wrong-model",),
}

TEXTS = {
    "host-copy-low": Text(
        N_("Copies between host and GPU are slow"),
        N_("{measured:GB/s} {direction} (GPUs: {gpus:int})"),
        N_("{expected:GB/s} over the card's PCIe link"),
        N_(
            "Loading data and checkpoints takes as much longer; a link at half width or generation gives half the rate."
        ),
        N_("{subject} copies at {measured:GB/s} where {expected:GB/s} is usual. Please check slot, riser and BIOS."),
    ),
    "pcie-gen-low": Text(
        N_("PCIe runs at a lower generation"),
        N_("generation {measured:int} under load at port {port}, {rate:GB/s}"),
        N_("generation {expected:int}"),
        N_("Half the generation is half the rate between host and GPU."),
        N_(
            "{gpu} runs at PCIe gen {measured:int} under load (measured {rate:GB/s}). Please reseat, check riser "
            "and BIOS."
        ),
    ),
    "pcie-width-low": Text(
        N_("PCIe runs with fewer lanes"),
        N_("lanes under load at port {port}: {measured:int}, {rate:GB/s}"),
        N_("lanes: {expected:int}"),
        N_("Half the lanes is half the rate between host and GPU."),
        N_(
            "{gpu} runs with {measured:int} PCIe lanes under load (measured {rate:GB/s}). Please reseat or "
            "change the slot."
        ),
    ),
}
