"""A real training step: does it scale, does it fit, does it run evenly, does it learn?

What single figures hide shows here: links, copies, hosts and neighbours together. The lines of the user's own
documents are floors, alone at most review; NVLink and memory-bandwidth use tell where to look and accuse nobody.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from auditor.finding import Finding
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.rule import rule
from auditor.judge.texts import N_, Text
from auditor.records import Reading


@rule
def scaling(case: Case) -> Iterator[Finding]:
    """Speed-up from one GPU to all, against the documents' 6.2 of 8 (bare metal) and 4.5 of 8 (virtualized)."""
    speedup = _most_ranks(case, "training_step_speedup_ratio")
    if speedup is None or case.device != "cuda":
        return
    ranks = _ranks(speedup)
    line = case.lines.training_scaling.value * ranks
    communication = case.view.number("training_step_communication_ratio", ranks=ranks)
    if ranks > 1 and figure(speedup) < line:
        yield case.finding(
            "training-scaling-low",
            "underperforming",
            "review",
            "server",
            "floor",
            case.lines.training_scaling.source,
            {
                "measured": figure(speedup),
                "expected": line,
                "ranks": ranks,
                "guest": case.lines.training_scaling_guest.value * ranks,
                "communication": communication,
                "variant": None if communication is None else "communication",
            },
            (speedup, case.view.one("training_step_communication_ratio", ranks=ranks)),
        )


@rule
def memory(case: Case) -> Iterator[Finding]:
    """Memory at the peak against the estimate: more than the model needs is somebody else's or wasted."""
    measured = _most_ranks(case, "training_step_memory_bytes")
    if measured is None:
        return
    estimate = case.view.one("training_step_memory_estimate_bytes", ranks=_ranks(measured))
    if estimate is None or not figure(estimate) > 0:
        return
    apart = figure(measured) / figure(estimate) - 1.0
    if abs(apart) > case.lines.training_memory.value:
        yield case.finding(
            "training-memory-differs",
            "underperforming",
            "advice",
            "server",
            "floor",
            case.lines.training_memory.source,
            {"measured": figure(measured), "expected": figure(estimate)},
            (measured, estimate),
        )


@rule
def unsteady(case: Case) -> Iterator[Finding]:
    """Steps of one length that take different times: a neighbour, a throttle, a link that repeats its data."""
    variation = _most_ranks(case, "training_step_variation_ratio")
    if variation is not None and case.device == "cuda" and figure(variation) > case.lines.training_steady.value:
        ranks = _ranks(variation)
        yield case.finding(
            "training-unsteady",
            "underperforming",
            "advice",
            "server",
            "evidence",
            case.lines.training_steady.source,
            {
                "measured": figure(variation),
                "expected": case.lines.training_steady.value,
                "p50": case.view.number("training_step_seconds", ranks=ranks, stat="p50"),
                "p99": case.view.number("training_step_seconds", ranks=ranks, stat="p99"),
            },
            (variation, *case.view.all("training_step_seconds", "server", ranks=ranks)),
        )


@rule
def mean_unsteady(case: Case) -> Iterator[Finding]:
    """Mean steps over whole seconds hold the power controller's swing: what still moves them is no step's own luck."""
    variation = _most_ranks(case, "training_step_mean_variation_ratio")
    line = case.lines.training_steady_mean
    if variation is not None and case.device == "cuda" and figure(variation) > line.value:
        yield case.finding(
            "training-mean-unsteady",
            "underperforming",
            "advice",
            "server",
            "evidence",
            line.source,
            {"measured": figure(variation), "expected": line.value},
            (variation, *case.view.all("training_step_seconds", "server", ranks=_ranks(variation))),
        )


@rule
def does_not_learn(case: Case) -> Iterator[Finding]:
    """A loss that does not fall over real steps on data with something to learn: wrong results somewhere."""
    last = _most_ranks(case, "training_step_loss", at="last")
    if last is None:
        return
    first = case.view.one("training_step_loss", ranks=_ranks(last), at="first")
    if first is not None and not figure(last) < figure(first):
        yield case.finding(
            "training-does-not-learn",
            "degraded",
            "review",
            "server",
            "evidence",
            "a loss that falls: docs/method.md, training_step",
            {"first": figure(first), "last": figure(last)},
            (first, last),
        )


@rule
def use_of_links(case: Case) -> Iterator[Finding]:
    """The documents' lines for a training that is limited by the GPUs: memory in use, NVLink in use."""
    for id, metric, line in (
        ("training-memory-use-low", "training_step_memory_use_ratio", case.lines.training_memory_use),
        ("training-nvlink-use-low", "training_step_nvlink_use_ratio", case.lines.training_nvlink_use),
    ):
        rows = list(case.per_gpu(metric).values())
        lowest = min(rows, key=figure, default=None)
        if lowest is not None and figure(lowest) < line.value:
            yield case.finding(
                id,
                "underperforming",
                "info",
                "server",
                "floor",
                line.source,
                {"measured": figure(lowest), "expected": line.value, "gpu": lowest.subject},
                rows,
            )


def _ranks(reading: Reading) -> int:
    return int(str(reading.conditions.get("ranks", 1)))


def _most_ranks(case: Case, metric: str, **conditions: str) -> Reading | None:
    """The metric's reading over the most GPUs."""
    return max(case.view.all(metric, "server", **conditions), key=_ranks, default=None)


_UNSTEADY = (
    "shared-gpu",
    "power-brake",
    "hw-thermal",
    "sw-thermal",
    "nvlink-crc",
    "pcie-replay",
    "steal-time",
    "cpu-throttled",
)
CAUSES = {
    "training-scaling-low": (
        "virtualized",
        "nvlink-missing",
        "nvlink-half-partition",
        "nvlink-no-mesh",
        "nvlink-partial",
        "fm-not-running",
        "allreduce-below-floor",
        "collective-low",
        "p2p-disabled",
        "slower-than-siblings",
        "power-brake",
        "hw-thermal",
    ),
    "training-unsteady": _UNSTEADY,
    "training-mean-unsteady": ("training-unsteady", *_UNSTEADY),
    "training-does-not-learn": ("ecc-uncorrectable", "xid-recent", "p2p-disabled"),
    "training-memory-use-low": (),
    "training-nvlink-use-low": ("nvlink-missing", "nvlink-partial"),
}

_COMMUNICATING = N_(
    "{measured:×} the speed of one GPU on {ranks:int} GPUs; communication takes {communication:%} of the step"
)
_SCALING = Text(
    N_("Training does not scale"),
    N_("{measured:×} the speed of one GPU on {ranks:int} GPUs"),
    N_("{expected:×} on bare metal; {guest:×} is what the documents give for virtualized servers"),
    N_("Paid GPUs wait for each other instead of computing."),
    N_(
        "{ranks:int} GPUs train {measured:×} as fast as one, {expected:×} was to be expected. Please check NVLink, "
        "fabric and host."
    ),
)

TEXTS = {
    "training-scaling-low": replace(_SCALING, variants={"communication": replace(_SCALING, observed=_COMMUNICATING)}),
    "training-memory-differs": Text(
        N_("Training memory differs from the estimate"),
        N_("{measured:GiB} at the peak"),
        N_("{expected:GiB} (2 + 2 + 12 bytes a parameter, and the activations)"),
        N_("A model that was sized by the estimate may not fit, or the measurement was disturbed."),
    ),
    "training-unsteady": Text(
        N_("Training steps vary in length"),
        N_("spread {measured:%} (median {p50:ms}, 99th percentile {p99:ms})"),
        N_("within {expected:%}"),
        N_("Something takes its share now and then: a neighbour, a throttle, a bad link."),
        N_("Identical training steps vary by {measured:%}. Please check for other load on the host."),
    ),
    "training-mean-unsteady": Text(
        N_("The speed of training moves from second to second"),
        N_("the mean step of each second varies by {measured:%}"),
        N_("within {expected:%}"),
        N_(
            "Over a whole second a healthy server is steady. "
            "Something slows it for seconds: a neighbour, heat, a bad link."
        ),
        N_("The speed of training varies by {measured:%} between seconds. Please check for other load on the host."),
    ),
    "training-does-not-learn": Text(
        N_("The training loss does not fall"),
        N_("{first:number} at the first step, {last:number} at the last"),
        N_("a lower loss after real steps"),
        N_("Memory, links or arithmetic give wrong results."),
        N_("A model trained on this server does not learn. Please check memory and links of the GPUs."),
    ),
    "training-memory-use-low": Text(
        N_("Memory-bandwidth use below the document's line"),
        N_("{measured:%} on {gpu}"),
        N_("{expected:%} or more"),
        N_(
            "In your own training this points at data loading. Our step loads no data: here it says that the step is "
            "limited by arithmetic or by communication."
        ),
    ),
    "training-nvlink-use-low": Text(
        N_("NVLink use below the document's line"),
        N_("{measured:%} of the links' rate on {gpu}, mean over the step"),
        N_("{expected:%} or more"),
        N_("A small model exchanges little: with a good speed-up this is no fault. The links' rate is measured apart."),
    ),
}
