"""The best reference is the card next to it: GPUs of one server, then servers of one model in the run.

Nothing measured backs a line tighter than 5 % between cards. One figure 10 % below the siblings' median is for
review; 5 % is, when two separate measurements of the audit say it and the siblings agree among themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from auditor.finding import Finding, Severity
from auditor.judge import statistics
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.fleet import Digest, Fleet
from auditor.judge.rule import fleet_rule, rule
from auditor.judge.statistics import Peers
from auditor.judge.texts import N_, Text
from auditor.judge.view import is_number
from auditor.records import Condition, Reading

SIBLINGS = "GPUs of the same server, same figure, same conditions"
FLEET = "servers of the same model and count in this run"


class Kind(msgspec.Struct, frozen=True):
    """A figure that siblings share; `group` = separate measurements count towards "repeated"."""

    metric: str
    word: str
    group: str
    keys: tuple[str, ...]
    wanted: dict[str, Condition] = {}


KINDS = (
    Kind("matmul_sustained_flops_per_second", N_("sustained matmul"), "matmul", ("dtype", "n", "load")),
    Kind("thermal_flops_per_second", N_("matmul in the thermal window"), "thermal", ("dtype", "n"), {"window": "all"}),
    Kind("memory_bandwidth_bytes_per_second", N_("memory bandwidth"), "memory", ("op", "bytes")),
    Kind(
        "host_copy_bytes_per_second",
        N_("host copy"),
        "copy",
        ("direction", "bytes", "numa"),
        {"memory": "pinned", "load": "alone"},
    ),
)


class Lag(msgspec.Struct, frozen=True):
    """One figure of one GPU against its siblings."""

    kind: Kind
    reading: Reading
    others: Peers
    shortfall: float
    outlier: bool


@rule
def slower_than_siblings(case: Case) -> Iterator[Finding]:
    """A GPU that lags behind the others of its server: the lemon."""
    if case.count < 2:
        return
    lags: dict[str, list[Lag]] = defaultdict(list)
    for kind in KINDS:
        for rows in _alike(case, kind):
            for lag in _lags(case, kind, rows):
                lags[lag.reading.subject].append(lag)
    for gpu in case.gpus:
        judged = _judged(case, lags.get(gpu, []))
        if judged is None:
            continue
        severity, chosen = judged
        worst = max(chosen, key=lambda lag: lag.shortfall)
        yield case.finding(
            "slower-than-siblings",
            "underperforming",
            severity,
            gpu,
            "siblings",
            SIBLINGS,
            {
                "what": worst.kind.word,
                "shortfall": worst.shortfall,
                "measured": figure(worst.reading),
                "expected": worst.others.median,
                "peers": worst.others.n,
                "figures": len(chosen),
            },
            [lag.reading for lag in chosen[:8]],
        )


def _alike(case: Case, kind: Kind) -> Iterator[list[Reading]]:
    """Readings of one kind under the same conditions, one per GPU."""
    groups: dict[tuple[Condition | None, ...], dict[str, Reading]] = defaultdict(dict)
    for gpu in case.gpus:
        for reading in case.view.all(kind.metric, gpu, **kind.wanted):
            if is_number(reading.value) and reading.stable is not False:
                key = tuple(reading.conditions.get(name) for name in kind.keys)
                groups[key].setdefault(gpu, reading)
    for rows in groups.values():
        if len(rows) >= 2:
            yield list(rows.values())


def _lags(case: Case, kind: Kind, rows: list[Reading]) -> Iterator[Lag]:
    values = [figure(r) for r in rows]
    floor = case.lines.siblings_repeated.value
    if min(values) > (1 - floor) * max(values):
        return  # all within the tightest line: nobody lags
    for index, reading in enumerate(rows):
        others = statistics.peers(values[:index] + values[index + 1 :])
        short = statistics.shortfall(values[index], reading.spread, reading.n, others)
        if short > floor:
            outlier = statistics.beyond_scatter(
                values[index], others, case.lines.siblings_scatter.value, case.lines.siblings_scatter_least.value
            )
            yield Lag(kind, reading, others, short, outlier)


def _judged(case: Case, lags: list[Lag]) -> tuple[Severity, list[Lag]] | None:
    lines = case.lines
    far = [lag for lag in lags if lag.shortfall > lines.siblings_review.value]
    if far:
        return "review", far
    twice = [lag for lag in lags if lag.outlier]
    if len({lag.kind.group for lag in twice}) >= 2:
        return "review", twice
    notable = [lag for lag in lags if lag.shortfall > lines.siblings_advice.value]
    return ("advice", notable) if notable else None


@rule
def per_clock_differs(case: Case) -> Iterator[Finding]:
    """Work per counted clock that differs between GPUs of one server: other silicon under the same name."""
    kind = Kind("matmul_flops_per_clock_per_sm", "", "per_clock", ("dtype", "n"))
    for rows in _alike(case, kind):
        values = [figure(r) for r in rows]
        for index, reading in enumerate(rows):
            others = statistics.peers(values[:index] + values[index + 1 :])
            apart = abs(values[index] / others.median - 1.0) if others.median > 0 else 0.0
            if apart - statistics.allowance(reading.spread, reading.n) > case.lines.per_clock_siblings.value and (
                len(rows) > 2 or index == 0
            ):
                yield case.finding(
                    "per-clock-differs",
                    "unproven",
                    "review",
                    reading.subject if len(rows) > 2 else "server",
                    "siblings",
                    case.lines.per_clock_siblings.source,
                    {
                        "measured": values[index],
                        "expected": others.median,
                        "apart": apart,
                        "dtype": reading.conditions.get("dtype"),
                    },
                    (reading, *(r for r in rows if r is not reading)),
                )


@fleet_rule
def slower_than_fleet(digest: Digest, fleet: Fleet) -> Iterator[Finding]:
    """A server whose middle GPU, or whose all-reduce, lags behind the other servers of its kind."""
    lines = fleet.policy.lines
    for name, one in digest.figures.items():
        others = fleet.others(digest.group, name, one.value)
        if others is None or fleet.size(digest.group, name) < lines.fleet_smallest.value:
            continue
        short = statistics.shortfall(one.value, one.spread, one.n, others)
        agree = others.scatter is None or statistics.beyond_scatter(one.value, others, lines.fleet_scatter.value)
        if short > lines.fleet_review.value and agree:
            yield Finding(
                id="slower-than-fleet",
                category="underperforming",
                severity="review",
                server=digest.server,
                subject="server",
                basis="fleet",
                source=FLEET,
                parameters={
                    "what": WORDS.get(name.split("@")[0].split(":")[0], name),
                    "shortfall": short,
                    "measured": one.value,
                    "expected": others.median,
                    "peers": others.n,
                },
                evidence=(one.evidence,),
            )


WORDS = {
    "matmul_bf16_sustained": N_("sustained matmul"),
    "matmul_fp32_sustained": N_("sustained matmul"),
    "memory_read": N_("memory bandwidth"),
    "h2d": N_("host copy"),
    "d2h": N_("host copy"),
    "allreduce_busbw": N_("all-reduce"),
}

_SLOW = (
    "gpu-wrong-model",
    "patched-name",
    "geforce-as-datacenter",
    "figures-contradict-model",
    "mig-sliced",
    "shared-gpu",
    "power-brake",
    "hw-thermal",
    "hw-slowdown-only",
    "power-capped",
    "clock-locked",
    "sw-thermal",
    "pcie-width-low",
    "pcie-gen-low",
    "host-copy-low",
)
CAUSES = {
    "slower-than-siblings": _SLOW,
    "slower-than-fleet": (
        *_SLOW,
        "nvlink-missing",
        "nvlink-partial",
        "nvlink-no-mesh",
        "nvlink-half-partition",
        "fm-not-running",
        "p2p-disabled",
        "virtualized",
        "allreduce-below-floor",
        "collective-low",
        "matmul-low",
        "memory-bandwidth-low",
        "slower-than-siblings",
    ),
    "per-clock-differs": ("patched-name", "geforce-as-datacenter", "figures-contradict-model", "mig-sliced"),
}

TEXTS = {
    "slower-than-siblings": Text(
        N_("Slower than its siblings"),
        N_("{what}: {shortfall:%} below the median of the others (other GPUs: {peers:int}; readings: {figures:int})"),
        N_("within 5 to 10 % of the others"),
        N_("The slowest GPU sets the pace of every step that all GPUs take together."),
        N_("{gpu} is {shortfall:%} slower than the other GPUs of {server} ({what}). Please check or replace it."),
    ),
    "per-clock-differs": Text(
        N_("Other silicon than its siblings"),
        N_("{measured:FLOP/clk/SM} ({dtype}), {apart:%} apart"),
        N_("{expected:FLOP/clk/SM}, the siblings' median"),
        N_("Work per counted clock is the same for every chip of one design, whatever power and heat."),
        N_("{subject} does not do the same work per clock as its siblings. Please say which chip this is."),
    ),
    "slower-than-fleet": Text(
        N_("Slower than the other servers"),
        N_("{what}: {shortfall:%} below the median of the others (other servers: {peers:int})"),
        N_("within 10 % of servers of the same model"),
        N_("The same money buys less here than on the neighbours."),
        N_(
            "{server} is {shortfall:%} slower than your other servers of this model ({what}). Please check or "
            "replace it."
        ),
    ),
}
