"""Judging one record in a test, and reading what came of it."""

from __future__ import annotations

from typing import Any

from auditor import order
from auditor.finding import Finding, ServerResult
from auditor.judge import ServerInput, judge
from auditor.records import Record

METAL_A100 = "8x A100-SXM4-80GB nvswitch bare-metal"
METAL_H200 = "8x H200 nvswitch bare-metal"
GUEST_H200 = {"gpu": "H200", "gpus": 1, "bare_metal": False}


def one(record: Record | None, ordered: Any = None, **how: Any) -> ServerResult:
    """The result of a run of this one server; it is named as its record says."""
    name = how.pop("name", record.server if record else "gpu-01")
    paid = order.parse(ordered, "test") if ordered is not None else None
    return judge(lambda: [ServerInput(name, paid, record=record, **how)]).servers[0]


def many(*given: tuple[Record, Any]) -> dict[str, ServerResult]:
    """The results of a run of several servers, by name."""
    inputs = [ServerInput(r.server, order.parse(o, "test") if o else None, record=r) for r, o in given]
    return {server.name: server for server in judge(lambda: inputs).servers}


def found(result: ServerResult, id: str, subject: str | None = None) -> Finding:
    """The one finding of this id (and subject)."""
    fitting = [f for f in result.findings if f.id == id and subject in (None, f.subject)]
    assert len(fitting) == 1, f"{id} of {subject}: {[f.key for f in result.findings]}"
    return fitting[0]


def roots(result: ServerResult) -> list[str]:
    """The ids of root findings at review or above."""
    return [f.id for f in result.roots if f.severity in ("reject", "review")]


def ids(result: ServerResult) -> set[str]:
    """Every finding id."""
    return {f.id for f in result.findings}
