"""Figures of one record that cannot all be true, and products that are far from the reference.

Counts of GPUs by four sources, event time against the host's clock, links counted against links bonded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from auditor.finding import Finding
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.needs import counted
from auditor.judge.rule import rule
from auditor.judge.rules.links import carried, split
from auditor.judge.texts import N_, Text
from auditor.judge.view import is_number
from auditor.records import Reading

_PLACES = ("server_facts_gpus_on_bus_total", "server_facts_gpu_nodes_total")
CLOCKS = (0.9, 1.1)  # H200: 0.9999 to 1.0001 in every type and size (measured for this project)
# Largest relative errors that rounding in the type explains; an H200 shows 1.7e-3 (bf16), 2.1e-4 (fp16), 2.9e-4
# (tf32), 1.6e-6 (fp32), 2.6e-3 (fp8), 3e-15 (fp64), 0 (int8), measured for this project.
ERRORS = {"bf16": 5e-2, "fp16": 5e-2, "tf32": 1e-2, "fp32": 1e-2, "fp8": 0.2, "fp64": 1e-6, "int8": 0.0}


@rule
def counts_disagree(case: Case) -> Iterator[Finding]:
    """Driver, CUDA and the record itself count the GPUs given differently, or more than bus or device nodes hold.

    A bus that shows more than was given is a slice of a node, and one that shows none a sandbox: other rules.
    """
    if case.text_only or case.without_gpu or split(case) or not case.gpus:
        return
    given = counted(case)
    numbers = {*given.values(), float(case.count)}
    most = max(numbers)
    places = [r for metric in _PLACES if (r := case.view.one(metric)) is not None and 0 < figure(r) < most]
    if len(numbers) == 1 and not places:
        return
    rows = [r for metric in given if (r := case.view.one(metric)) is not None]
    yield case.finding(
        "gpu-counts-disagree",
        "unproven",
        "review",
        "server",
        "contradiction",
        "NVML, CUDA, the PCI bus and the device nodes count the same GPUs (docs/method.md, server_facts)",
        {
            "values": ", ".join(f"{_called(r)} {figure(r):g}" for r in (*rows, *places)),
            "shown": case.count,
        },
        (*rows, *places),
    )


def _called(reading: Reading) -> str:
    return reading.metric.removeprefix("server_facts_").removesuffix("_total").replace("_", " ")


@rule
def time_mismatch(case: Case) -> Iterator[Finding]:
    """The GPU's events and the host's clock measure one window: where they differ, one of the clocks is false."""
    low, high = CLOCKS
    for gpu in case.gpus:
        apart = [
            r
            for r in case.view.all("matmul_host_clock_ratio", gpu)
            if is_number(r.value) and not low <= figure(r) <= high
        ]
        if apart:
            worst = max(apart, key=lambda r: abs(math.log(figure(r))) if figure(r) > 0 else math.inf)
            yield case.finding(
                "time-mismatch",
                "unproven",
                "review",
                gpu,
                "contradiction",
                "one window by two clocks: 0.9999 to 1.0001 on H200 (measured for this project); 10 % is no jitter",
                {"measured": figure(worst), "dtype": worst.conditions.get("dtype")},
                apart,
            )


@rule
def wrong_products(case: Case) -> Iterator[Finding]:
    """A product farther from the reference than rounding in its type explains."""
    for gpu in case.gpus:
        wrong = [r for r in case.view.all("matmul_error_ratio", gpu) if _off(r)]
        if wrong:
            worst = max(wrong, key=figure)
            dtype = str(worst.conditions.get("dtype"))
            yield case.finding(
                "product-wrong",
                "degraded",
                "review",
                gpu,
                "evidence",
                "the reference product (docs/method.md, matmul); a healthy H200 stays below a tenth of the line",
                {
                    "measured": figure(worst),
                    "error": f"{figure(worst):.2g}",
                    "limit": f"{ERRORS[dtype]:g}",
                    "dtype": dtype,
                },
                wrong,
            )


def _off(reading: Reading) -> bool:
    limit = ERRORS.get(str(reading.conditions.get("dtype")))
    return limit is not None and is_number(reading.value) and not figure(reading) <= limit


@rule
def links_disagree(case: Case) -> Iterator[Finding]:
    """Through NVSwitch every pair has all links of its GPUs: a matrix that bonds fewer contradicts the count.

    One that bonds none contradicts it where copies run faster than PCIe; where they do not, the fabric is at fault.
    """
    mesh = case.mesh
    model = case.model
    if model is None or not model.nvswitch_capable:
        return
    switched = case.order is not None and case.order.interconnect == "nvswitch"
    apart = []
    for pair, links in mesh.bonded.items():
        active = [mesh.active[gpu] for gpu in case.view.members(pair) or () if gpu in mesh.active]
        counted_otherwise = switched if links else carried(case, model, pair)
        if counted_otherwise and len(active) == 2 and links < min(map(figure, active)):
            apart.append((pair, links, active))
    if apart and len(apart) == len(mesh.bonded):
        _, links, active = apart[0]
        yield case.finding(
            "nvlink-counts-disagree",
            "unproven",
            "review",
            "server",
            "contradiction",
            "the matrix against the active links of each GPU (docs/method.md, topology)",
            {"measured": links, "expected": min(map(figure, active)), "pairs": len(apart)},
            (*(mesh.cells[pair] for pair, _, _ in apart[:4]), *active),
        )


CAUSES = {
    "gpu-counts-disagree": ("gpu-lost", "api-remoting", "gpu-count-short"),
    "time-mismatch": ("shared-gpu",),
    "product-wrong": ("wrong-results", "memory-errors"),
    "nvlink-counts-disagree": ("nvlink-half-partition", "nvlink-partial", "nvlink-no-mesh"),
}

TEXTS = {
    "gpu-counts-disagree": Text(
        N_("Sources count the GPUs differently"),
        N_("{values}; GPUs in the record: {shown:int}"),
        N_("one count from all sources"),
        N_("A GPU that one source counts and another does not is lost, hidden or made up."),
        N_("The number of GPUs differs by source ({values}). Please explain."),
    ),
    "time-mismatch": Text(
        N_("The GPU's clock and the host's disagree"),
        N_("host time over event time: {measured:%} ({dtype})"),
        N_("90 % to 110 %"),
        N_("Every rate rests on time. Where two clocks differ for one window, the rates of this GPU prove nothing."),
        N_("{gpu} measures another time than its host for the same work. Please explain."),
    ),
    "product-wrong": Text(
        N_("Products are far from the reference"),
        N_("relative error {error} ({dtype})"),
        N_("at most {limit}"),
        N_("The GPU or its libraries calculate wrongly: training on it cannot be trusted."),
        N_("{gpu} gives products far from the reference ({dtype}). Please test or replace it."),
    ),
    "nvlink-counts-disagree": Text(
        N_("NVLinks are counted in two ways"),
        N_("NVLinks per pair: {measured:int} (pairs: {pairs:int})"),
        N_("NVLinks active per GPU: {expected:int}"),
        N_("Through NVSwitch each pair has all links of its GPUs. One of the two pictures is false."),
        N_("The matrix shows {measured:int} NVLinks per pair, the GPUs {expected:int} active. Please explain."),
    ),
}
