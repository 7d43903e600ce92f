"""How fast the GPUs move data among themselves: named floors, published results in the same context, peer copies."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import Finding
from auditor.judge import expectations
from auditor.judge.case import Case
from auditor.judge.expectations import Context, Expectation
from auditor.judge.figures import reference_allreduce
from auditor.judge.rule import rule
from auditor.judge.rules.links import expects_nvlink
from auditor.judge.statistics import allowance
from auditor.judge.texts import N_, Text
from auditor.records import Reading

_ALGBW = "collectives_algbw_bytes_per_second"
_BUSBW = "collectives_busbw_bytes_per_second"
_LARGE = 64e6


@rule
def allreduce_floor(case: Case) -> Iterator[Finding]:
    """The user's named floors: 8 GPUs, 400 MB float32, algbw; 40 GB/s over NVLink, 8 GB/s over PCIe.

    A floor alone is at most review. The readings next to 400 MB stand in for it, between 256 and 640 MB.
    """
    if case.device != "cuda" or (case.count != 8 and not case.text_only):
        return
    reading = _floor_reading(case)
    if reading is None or not isinstance(reading.value, (int, float)):
        return
    nvlink = expects_nvlink(case) is not None or any(case.mesh.bonded.values())
    line = case.lines.allreduce_floor_nvlink if nvlink else case.lines.allreduce_floor_pcie
    if reading.value >= line.value:
        return
    yield case.finding(
        "allreduce-below-floor",
        "underperforming",
        "review",
        "server",
        "floor",
        line.source,
        {
            "measured": reading.value,
            "expected": line.value,
            "ranks": reading.conditions.get("ranks"),
            "bytes": reading.conditions.get("bytes"),
            "dtype": reading.conditions.get("dtype"),
            "link": "NVLink" if nvlink else "PCIe",
        },
        (reading,),
    )


def _floor_reading(case: Case) -> Reading | None:
    for metric in (_ALGBW, "nccl_tests_algbw_bytes_per_second"):
        fitting = [
            reading
            for reading in case.view.all(metric, "server", op="all_reduce", ranks=8)
            if isinstance(size := reading.conditions.get("bytes"), (int, float))
            and 256e6 <= size <= 640e6
            and reading.conditions.get("dtype") in ("float32", "float")
        ]
        if fitting:
            return min(fitting, key=lambda r: abs(float(r.conditions["bytes"]) - 400e6))
    return _pasted(case) if case.text_only else None


def _pasted(case: Case) -> Reading | None:
    """The largest message of a pasted result that names no ranks: large enough to stand for the floor's."""
    fitting = [
        reading
        for reading in case.view.all("nccl_tests_algbw_bytes_per_second", "server", op="all_reduce")
        if isinstance(size := reading.conditions.get("bytes"), (int, float))
        and size >= _LARGE
        and "ranks" not in reading.conditions
    ]
    return max(fitting, key=lambda r: float(r.conditions["bytes"]), default=None)


@rule
def collective_low(case: Case) -> Iterator[Finding]:
    """All-reduce below what others published for this model, count, interconnect, NVLS, type and size."""
    if case.device != "cuda" or case.model is None:
        return
    worst: tuple[float, Reading, Expectation] | None = None
    for reading in case.view.all(_BUSBW, "server", op="all_reduce"):
        expected = _expected(case, reading)
        if expected is None or not isinstance(reading.value, (int, float)):
            continue
        measured = reading.value * (1 + allowance(reading.spread))
        ratio = measured / expected.value
        if ratio < 1 - case.lines.collective_margin.value and (worst is None or ratio < worst[0]):
            worst = (ratio, reading, expected)
    if worst is None:
        return
    ratio, reading, expected = worst
    yield case.finding(
        "collective-low",
        "underperforming",
        "review",
        "server",
        expected.basis,
        expected.source,
        {
            "measured": reading.value,
            "expected": expected.value,
            "ratio": ratio,
            "ranks": reading.conditions.get("ranks"),
            "bytes": reading.conditions.get("bytes"),
            "dtype": reading.conditions.get("dtype"),
        },
        (reading, reference_allreduce(case.view, _BUSBW), case.view.one("collectives_nvls")),
    )


def _expected(case: Case, reading: Reading) -> Expectation | None:
    ranks, size = reading.conditions.get("ranks"), reading.conditions.get("bytes")
    if not isinstance(ranks, int) or not isinstance(size, (int, float)) or case.model is None or size < _LARGE:
        return None  # small messages measure latency, which published figures do not pin down
    model = expects_nvlink(case)
    bonded = any(case.mesh.bonded.values())
    fabric = "pcie"
    if model is not None or bonded:
        fabric = "nvswitch" if (model or case.model).nvswitch_capable else "nvlink_bridge"
    context = Context(
        case.model.name,
        ranks,
        fabric,
        case.view.flag("collectives_nvls"),
        str(reading.conditions.get("dtype")),
        float(size),
    )
    return expectations.all_reduce(case.catalog, context)


@rule
def peer_copy_low(case: Case) -> Iterator[Finding]:
    """A pair bonded by NVLink that copies slower than its links carry."""
    seen = case.mesh
    slow: list[tuple[str, Reading, float]] = []
    for pair, links in seen.bonded.items():
        if not links or case.model is None or not case.model.nvlink_links:
            continue
        wire = case.model.nvlink_direction / case.model.nvlink_links * min(links, case.model.nvlink_links)
        for reading in case.view.all("peer_copy_bytes_per_second", pair, direction="one_way"):
            line = case.lines.peer_copy_share.value * wire
            if isinstance(reading.value, (int, float)) and reading.value * (1 + allowance(reading.spread)) < line:
                slow.append((pair, reading, line))
                break
    whole = len(slow) > max(1, len(seen.bonded) // 2)
    for pair, reading, line in slow[:1] if whole else slow:
        yield case.finding(
            "peer-copy-low",
            "underperforming",
            "review",
            "server" if whole else pair,
            "spec",
            case.lines.peer_copy_share.source,
            {"measured": reading.value, "expected": line, "pairs": len(slow) if whole else 1},
            (reading, seen.cells[pair]),
        )


@rule
def wrong_data(case: Case) -> Iterator[Finding]:
    """Data that arrives changed: nothing this server computes across GPUs can be trusted."""
    for metric, what in (
        ("collectives_errors_total", N_("a collective")),
        ("peer_copy_errors_total", N_("a peer copy")),
        ("nccl_tests_errors_total", N_("a collective")),
    ):
        bad = [r for r in case.view.all(metric) if isinstance(r.value, (int, float)) and r.value > 0]
        for subject in dict.fromkeys(r.subject for r in bad):
            rows = [r for r in bad if r.subject == subject]
            yield case.finding(
                "data-corrupted",
                "degraded",
                "reject",
                subject,
                "evidence",
                "data that was sent must arrive (docs/method.md, peer_copy and collectives)",
                {"count": sum(float(r.value or 0) for r in rows), "what": what},
                rows[:8],
            )


_SLOW = (
    "nvlink-missing",
    "nvlink-no-mesh",
    "nvlink-half-partition",
    "nvlink-partial",
    "fm-not-running",
    "gpu-wrong-model",
    "p2p-disabled",
    "power-brake",
    "pcie-gen-low",
    "pcie-width-low",
    "peer-copy-low",
    "shared-gpu",
    "virtualized",
)
CAUSES = {
    "allreduce-below-floor": _SLOW,
    "collective-low": (*_SLOW, "allreduce-below-floor", "slower-than-siblings"),
    "peer-copy-low": _SLOW[:-2],
    "data-corrupted": (),
}

TEXTS = {
    "allreduce-below-floor": Text(
        N_("All-reduce below the floor"),
        N_("{measured:GB/s} (algorithm bandwidth, {ranks:int} GPUs, {bytes:MB} {dtype})"),
        N_("at least {expected:GB/s} over {link}"),
        N_("Training across the GPUs does not scale at this rate."),
        N_(
            "All-reduce over {ranks:int} GPUs reaches {measured:GB/s}; {expected:GB/s} is the floor. Please "
            "repair the links."
        ),
    ),
    "collective-low": Text(
        N_("All-reduce slower than elsewhere"),
        N_("{measured:GB/s} bus bandwidth ({ranks:int} GPUs, {bytes:MB} {dtype})"),
        N_("{expected:GB/s} as published for this machine"),
        N_("The server moves {ratio:%} of what others of its kind do; training across GPUs loses accordingly."),
        N_(
            "All-reduce over {ranks:int} GPUs reaches {measured:GB/s} of the {expected:GB/s} published for this "
            "machine. "
            "Please check links, fabric and topology file."
        ),
    ),
    "peer-copy-low": Text(
        N_("Copies between GPUs are slow"),
        N_("{measured:GB/s} one way (pairs of GPUs: {pairs:int})"),
        N_("at least {expected:GB/s} over the links of the pair"),
        N_("The NVLinks are up but do not carry their rate."),
        N_("{subject}: {measured:GB/s} between GPUs that have NVLink. Please check link errors and reset the GPUs."),
    ),
    "data-corrupted": Text(
        N_("Data arrives changed"),
        N_("{count:int} wrong elements after {what}"),
        N_("none"),
        N_("Results of work across these GPUs are wrong, silently."),
        N_(
            "{subject}: data is corrupted in {what}. Please take the machine out of service and replace the "
            "faulty part."
        ),
    ),
}
