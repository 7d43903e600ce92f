"""Runs of one server, of two models, of none that was measured: what the fleet may say, and about whom."""

from __future__ import annotations

import dataclasses

import pytest

from auditor import order
from auditor.finding import ServerResult
from auditor.judge import ServerInput, judge
from auditor.records import Record
from auditor.runs import State
from tests import builders
from tests.judge.faults import slow
from tests.judge.judged import METAL_A100, METAL_H200, found, ids, many

FLEET = "slower-than-fleet"


def servers(model: str, *names: str) -> list[Record]:
    """Healthy servers of a model, each with GPUs of its own."""
    return [builders.healthy(model, 8, server=name, serial=name) for name in names]


def ranks(result: ServerResult) -> set[int | None]:
    """The server's places."""
    return {score.rank for score in result.scores}


def test_a_fleet_of_one_has_nobody_to_be_slower_than() -> None:
    """Even when it is slow: the published figures say so, the fleet says nothing, and it is ranked alone."""
    (record,) = servers("H200 SXM5 141GB", "only")
    assert many((record, METAL_H200))["only"].verdict == "accept"
    result = many((slow(0.7)(record), METAL_H200))["only"]
    assert result.verdict == "review"
    assert FLEET not in ids(result)
    assert found(result, "matmul-low").basis == "achievable"
    assert ranks(result) <= {1, None}


@pytest.mark.parametrize(("siblings", "told"), [(1, False), (2, True), (4, True)])
def test_the_smallest_fleet_that_may_speak(siblings: int, told: bool) -> None:
    """Two servers cannot say which is the slow one; three can, and name it."""
    fleet = servers("H200 SXM5 141GB", "slow", *(f"s{n}" for n in range(siblings)))
    results = many((slow(0.86)(fleet[0]), METAL_H200), *((record, METAL_H200) for record in fleet[1:]))
    assert (FLEET in ids(results["slow"])) is told
    assert all(FLEET not in ids(results[f"s{n}"]) for n in range(siblings))
    if told:
        finding = found(results["slow"], FLEET)
        assert (finding.subject, finding.severity, finding.basis) == ("server", "review", "fleet")
        assert finding.parameters["peers"] == siblings
        assert results["slow"].verdict == "review"


def test_a_fleet_of_two_models_compares_each_with_its_own() -> None:
    """A100 servers beside H200 servers are three times slower and nobody is accused; one slow A100 is, by A100s."""
    old = servers("A100 SXM4 80GB", "a0", "a1", "a2", "a3")
    new = servers("H200 SXM5 141GB", "h0", "h1", "h2", "h3")
    orders = [(record, METAL_A100) for record in old] + [(record, METAL_H200) for record in new]
    assert {result.verdict for result in many(*orders).values()} == {"accept"}
    orders[0] = (slow(0.86)(old[0]), METAL_A100)
    results = many(*orders)
    assert {name: result.verdict for name, result in results.items() if result.verdict != "accept"} == {"a0": "review"}
    finding = found(results["a0"], FLEET)
    assert finding.parameters["peers"] == 3
    assert finding.parameters["what"] == "sustained matmul"


def test_a_fleet_of_which_nothing_was_measured() -> None:
    """Unreachable, refused, half-measured: each row has its own reason, nobody is ranked or compared."""
    half = dataclasses.replace(builders.healthy(server="half"), readings=())
    paid = order.parse(METAL_H200, "test")
    judged = judge(
        lambda: [
            ServerInput("gone", paid, state=State("reach", "unreachable", "no route")),
            ServerInput("odd", paid, refused="malformed: readings[3]"),
            ServerInput("half", paid, record=half),
        ]
    )
    results = {server.name: server for server in judged.servers}
    assert {server.verdict for server in judged.servers} == {"incomplete"}
    assert results["gone"].reason == "unreachable: no route"
    assert results["odd"].reason == "record refused: malformed: readings[3]"
    assert results["gone"].missing == results["odd"].missing == ("record",)
    assert {"model of gpu0", "matmul of gpu7", "topology", "all_reduce", "count"} <= set(results["half"].missing)
    assert found(results["half"], "not-measured", "gpu0").severity == "advice"
    assert all(ranks(server) <= {None} for server in judged.servers)
    assert all(FLEET not in ids(server) for server in judged.servers)


def test_an_incomplete_server_is_no_measure_for_the_others() -> None:
    """Three good servers and two without figures: the comparison is among the three."""
    fleet = servers("H200 SXM5 141GB", "s0", "s1", "s2")
    blank = [dataclasses.replace(builders.healthy(server=name), readings=()) for name in ("b0", "b1")]
    results = many((slow(0.86)(fleet[0]), METAL_H200), *((r, METAL_H200) for r in (*fleet[1:], *blank)))
    assert found(results["s0"], FLEET).parameters["peers"] == 2
    assert results["b0"].verdict == "incomplete"
