"""The uniform-fault line: all GPUs of a server slow together, held against what was published for their model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from auditor.finding import Finding
from auditor.judge.case import Case, median
from auditor.judge.expectations import Expectation
from auditor.judge.figures import figure
from auditor.judge.statistics import allowance
from auditor.records import Reading

Kind = tuple[str, list[Reading], Expectation | None]


def below_published(case: Case, id: str, word: str, kinds: Iterable[Kind]) -> Iterator[Finding]:
    """The kind whose middle GPU lies furthest below the lowest published figure, its own spread included.

    `kinds` are (name, one reading a GPU, expectation); the finding's parameter `word` holds the kind's name.
    """
    worst: tuple[float, str, list[Reading], Expectation] | None = None
    for name, readings, expected in kinds:
        if not readings or expected is None:
            continue
        ratio = median(figure(r) * (1 + allowance(r.spread)) for r in readings) / expected.value
        if ratio < 1 - case.lines.achievable_margin.value and (worst is None or ratio < worst[0]):
            worst = (ratio, name, readings, expected)
    if worst is None or case.model is None:
        return
    _, name, readings, expected = worst
    measured = median(figure(r) for r in readings)
    yield case.finding(
        id,
        "underperforming",
        "review",
        "server",
        expected.basis,
        expected.source,
        {
            "measured": measured,
            "expected": expected.value,
            "ratio": measured / expected.value,
            word: name,
            "gpus": len(readings),
            "model": case.model.name,
        },
        readings,
    )
