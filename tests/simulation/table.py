"""Runs the simulation and counts: per kind of fault how many were found, how many healthy servers were accused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from auditor.finding import ServerResult
from auditor.judge import ServerInput, judge
from tests.judge.faults import FAULTS, Fault
from tests.simulation.servers import FAULTY, PRODUCTS, SOLD_AS, faulty, healthy
from tests.simulation.spreads import Spread

TUNED, REPORTED = 20260101, 20261209
"""The seed the lines were tuned on, and the one figures are reported from."""


@dataclass
class Count:
    """What came of one kind of server."""

    servers: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    roots: Counter[str] = field(default_factory=Counter)


def healthy_run(seed: int, servers: int, spread: Spread) -> Count:
    """Judge that many healthy servers as one run."""
    rng = random.Random(seed)

    def fleet() -> Iterator[ServerInput]:
        for index in range(servers):
            yield healthy(PRODUCTS[index % len(PRODUCTS)], rng, spread, f"h{index:05d}")

    count = Count()
    for result in judge(fleet).servers:
        _add(count, result)
    return count


def faulty_run(seed: int, each: int, spread: Spread, company: int = 60) -> dict[str, Count]:
    """Judge `each` servers of every kind of fault and product, among healthy ones of the same product."""
    rng = random.Random(seed)
    counts: dict[str, Count] = {}
    for product in FAULTY:
        kinds: dict[str, Fault] = {}

        def fleet(product=product, kinds=kinds) -> Iterator[ServerInput]:  # type: ignore[no-untyped-def]
            for index in range(company):
                yield healthy(product, rng, spread, f"h{index:05d}")
            for number, fault in enumerate(FAULTS):
                for index in range(each):
                    name = f"f{number:03d}-{index:04d}"
                    kinds[name] = fault
                    yield faulty(product, fault, rng, spread, name)

        for result in judge(fleet).servers:
            fault = kinds.get(result.name)
            if fault is not None:
                count = counts.setdefault(fault.name, Count())
                _add(count, result)
                found = any(f.id == fault.id for f in result.findings)
                count.missed += result.verdict == "accept" or not found
    _sold_as(rng, each, spread, counts)
    return counts


def _sold_as(rng: random.Random, each: int, spread: Spread, counts: dict[str, Count]) -> None:
    """Machines that are something else than was ordered, judged as one run."""
    ids: dict[str, tuple[str, str]] = {}

    def fleet() -> Iterator[ServerInput]:
        for number, (kind, id, product) in enumerate(SOLD_AS):
            for index in range(each):
                name = f"w{number:03d}-{index:04d}"
                ids[name] = (kind, id)
                yield healthy(product, rng, spread, name)

    for result in judge(fleet).servers:
        kind, id = ids[result.name]
        count = counts.setdefault(kind, Count())
        _add(count, result)
        count.missed += result.verdict == "accept" or not any(f.id == id for f in result.findings)


def _add(count: Count, result: ServerResult) -> None:
    count.servers += 1
    count.verdicts[result.verdict] += 1
    for finding in result.roots:
        if finding.severity in ("reject", "review"):
            count.roots[finding.id] += 1


def markdown(counts: dict[str, Count]) -> str:
    """The table of docs/thresholds.md."""
    ids = {fault.name: fault.id for fault in FAULTS} | {kind: id for kind, id, _ in SOLD_AS}
    rows = ["| kind of fault | root finding | servers | reject | review | missed |", "|---|---|---|---|---|---|"]
    for name, count in counts.items():
        share = f"{count.missed / count.servers:.1%}" if count.missed else "0"
        verdicts = count.verdicts
        rows.append(
            f"| {name} | `{ids[name]}` | {count.servers} | {verdicts['reject']} | {verdicts['review']} | {share} |"
        )
    return "\n".join(rows)
