"""Scores per use, ties, what does not compare, and what a unit of work costs."""

from __future__ import annotations

import msgspec
import pytest

from auditor import order
from auditor.finding import Gpu, Score, ServerResult
from auditor.judge import policy, ranking

POLICY = policy.load()
FIGURES = {
    "flops_delivered": 5e15, "allreduce_busbw": 4e11, "memory_read": 4e12, "h2d": 5.5e10, "d2h": 5.4e10,
    "slowest_ratio": 0.99,
}  # fmt: skip


def server(
    name: str, verdict: str = "accept", gpus: int = 8, device: str = "cuda", **figures: float | None
) -> ServerResult:
    """A judged server with these figures."""
    rows = tuple(Gpu(f"gpu{n}", n, None, None, None, None) for n in range(gpus))
    return ServerResult(name, verdict, gpus=rows, device=device, figures={**FIGURES, **figures})  # type: ignore[arg-type]


def scores(*servers: ServerResult, use: str = "training_multi_gpu") -> dict[str, Score]:
    """Each server's score for a use."""
    ranked = ranking.ranked(servers, POLICY)
    return {one.name: score for one in ranked for score in one.scores if score.use == use}


def test_the_better_server_comes_first() -> None:
    """Parts are relative to the best of the run, the sum is weighted."""
    found = scores(server("a", flops_delivered=4e15), server("b"))
    assert found["b"].rank == 1
    assert found["b"].value == pytest.approx(1.0)
    assert found["a"].rank == 2
    assert found["a"].parts["compute"] == pytest.approx(0.8)
    assert found["a"].value == pytest.approx(1 - 0.2 * 0.40)


def test_scores_within_the_tie_line_share_a_rank() -> None:
    """Half a per cent apart is the same; the next rank counts those before it."""
    found = scores(server("a", flops_delivered=4.99e15), server("b"), server("c", flops_delivered=3e15))
    assert (found["a"].rank, found["b"].rank, found["c"].rank) == (1, 1, 3)
    assert found["a"].tied_with == ("b",)
    assert found["c"].tied_with == ()


def test_ties_do_not_chain() -> None:
    """A row of small steps is not one tie from best to worst."""
    found = scores(*(server(f"s{n:02d}", flops_delivered=5e15 * (1 - 0.015 * n)) for n in range(10)))
    assert found["s00"].rank == 1
    assert found["s09"].rank is not None
    assert found["s09"].rank > 5


def test_rejected_and_incomplete_are_not_scored() -> None:
    """They are listed below the ranking."""
    found = scores(server("a"), server("b", "reject"), server("c", "incomplete"), server("d", "review"))
    assert set(found) == {"a", "d"}


@pytest.mark.parametrize(
    ("one", "use", "reason"),
    [
        (server("x", allreduce_busbw=None), "training_multi_gpu", "not measured: collectives"),
        (server("x", h2d=None, d2h=None, memory_read=None), "inference", "not measured: memory, host_copy"),
        (server("x", gpus=1), "training_multi_gpu", "one GPU: there is nothing to train across"),
        (server("x", gpus=0, device="cpu"), "inference", "measured without a GPU, the others with one"),
    ],
)
def test_what_does_not_compare_says_why(one: ServerResult, use: str, reason: str) -> None:
    """Beside a server with a GPU; no score, no rank, the reason in words."""
    found = scores(server("a"), one, use=use)["x"]
    assert found.value is None
    assert found.rank is None
    assert found.not_comparable == reason


def test_one_gpu_has_no_slower_sibling() -> None:
    """Steadiness of a single GPU is full."""
    assert scores(server("x", gpus=1, slowest_ratio=None), use="inference")["x"].value == pytest.approx(1.0)


def test_machines_without_a_gpu_among_themselves() -> None:
    """They are ranked by what they have: the CPU's matmul and the collective."""
    slow, fast = (server(n, gpus=0, device="cpu", matmul_fp32_sustained=r) for n, r in (("s", 1e11), ("f", 2e11)))
    found = scores(slow, fast)
    assert found["f"].rank == 1
    assert set(found["s"].parts) == {"compute", "collectives"}
    assert scores(server("z", gpus=0, device="cpu", matmul_fp32_sustained=0.0, allreduce_busbw=0.0))["z"].value == 0.0


def test_text_only_is_not_ranked() -> None:
    """What was pasted is no measurement of this run."""
    assert scores(msgspec.structs.replace(server("a"), text_only=True)) == {}


def test_cost_of_delivered_work() -> None:
    """Price over delivered PFLOP/s and over GB/s of all-reduce; None where not delivered or not priced."""
    paid = order.parse({"gpus": 8, "gpu": "H200", "price_per_hour": 20.0, "currency": "USD"}, "t")
    cost = ranking.cost(paid, FIGURES)
    assert cost is not None
    assert cost.per_pflop_hour == pytest.approx(4.0)
    assert cost.per_gb_per_second_hour == pytest.approx(0.05)
    bare = ranking.cost(paid, {})
    assert bare is not None
    assert bare.per_pflop_hour is None
    assert ranking.cost(None, FIGURES) is None
    assert ranking.cost(order.parse("8x H200", "t"), FIGURES) is None


def test_many_ties_name_a_few() -> None:
    """Of thirty equal servers each names eight others, never itself, in the order of names."""
    for server, rank, tied in ranking._places({f"s{n:02d}": 1.0 for n in range(30)}, 0.01):
        assert (rank, len(tied), server in tied) == (1, 8, False)
        assert list(tied) == sorted(tied)
