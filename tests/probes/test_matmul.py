"""matmul: three figures, in the order of their worth, with the state they were taken in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auditor.probes import matmul
from auditor.probes.measuring import rates
from tests.probes.desk import desk


def test_a_short_budget_names_what_it_left_out(tmp_path: Path) -> None:
    """With a second left nothing heavy starts, and every part stands among what was cut."""
    with desk("matmul", tmp_path, seconds=1.0) as at:
        assert list(matmul.run(at.context)) == []
    assert [message["what"] for message in at.heard("cut")] == [
        part.name for part in matmul.plan("quick", "bf16", 1, "cpu")
    ]


def test_quick_keeps_the_three_figures_and_standard_adds_every_dtype() -> None:
    """quick: bf16 all three, fp8 and fp32 per clock; standard: each dtype at both sizes, the sweep, the best."""
    quick = {(part.kind, part.dtype) for part in matmul.plan("quick", "bf16", 1, "cuda")}
    assert quick == {(k, "bf16") for k in ("boost", "sustained", "clock")} | {("clock", "fp8"), ("clock", "fp32")}
    standard = matmul.plan("standard", "bf16", 1, "cuda")
    for dtype in matmul.products.DTYPES:
        assert {part.n for part in standard if (part.kind, part.dtype) == ("sustained", dtype)} == {8192, 16384}
    assert [part.n for part in standard if part.kind == "sweep"] == [1024, 2048, 4096, 8192, 16384]
    assert sum(part.kind == "best" for part in standard) == 1


def test_boost_alone_only_among_several_gpus() -> None:
    """One GPU is always alone: the same figure is not told twice."""
    assert not any(part.alone for part in matmul.plan("standard", "bf16", 1, "cuda"))
    assert any(part.alone for part in matmul.plan("quick", "bf16", 8, "cuda"))


def test_all_workers_meet_equally_often_whatever_each_may_do() -> None:
    """The plan depends on nothing that differs between workers: mixed models would wait for each other for ever."""
    plans = [matmul.plan("standard", "bf16", 8, "cuda") for _ in range(2)]
    assert plans[0] == plans[1]


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same method on a clock thirty times as fast."""
    monkeypatch.setattr(matmul, "SUSTAINED_IDLE", 0.01)
    monkeypatch.setattr(matmul, "BOOST_IDLE", 0.01)
    monkeypatch.setattr(matmul, "_LONGEST_CALL", 0.002)
    monkeypatch.setattr(rates, "SKIP", 0.01)
    monkeypatch.setattr(rates, "WINDOW", 0.04)


def test_on_a_cpu_bf16_and_fp32_are_measured_and_right(tmp_path: Path, brief: Any) -> None:
    """Boost and sustained of both dtypes, with their state; results right and the same again; nothing per clock."""
    with desk("matmul", tmp_path, seconds=60) as at:
        readings = list(matmul.run(at.context))
    assert not at.heard("cut")
    assert {(r.metric, r.conditions["dtype"]) for r in readings} == {
        (f"matmul_{quantity}", dtype)
        for quantity in (
            "boost_flops_per_second",
            "sustained_flops_per_second",
            "host_clock_ratio",
            "mismatches_total",
            "error_ratio",
        )
        for dtype in ("bf16", "fp32")
    }
    for reading in readings:
        assert isinstance(reading.value, (int, float))
        if reading.metric == "matmul_sustained_flops_per_second":
            assert reading.conditions["idle_seconds"] == 0.01 and reading.conditions["load"] == "all"
            assert reading.value > 1e8
        if reading.metric == "matmul_mismatches_total":
            assert reading.value == 0
        if reading.metric == "matmul_error_ratio":
            assert reading.value < 1e-2
