"""The training step's figures to findings: scaling, memory, steadiness, learning, and the documents' lines."""

from __future__ import annotations

import pytest

from auditor.finding import ServerResult
from auditor.records import Reading, Record
from tests import builders
from tests.builders import NVML, added, reading
from tests.judge.judged import METAL_A100, METAL_H200, found, ids, one

HEALTHY = builders.healthy("H200 SXM5 141GB")


def step(
    ranks: int = 8,
    speedup: float = 7.6,
    spread: float = 0.03,
    memory: float = 1.02,
    last: float = 6.1,
    mean_spread: float = 0.0013,
) -> list[Reading]:
    """A healthy training run, or one with a fault."""
    what = {"ranks": ranks, "parameters": 438_575_104}
    rows = [
        reading("training_step_tokens_per_second", 1.2e6, spread=0.002, n=30, **what),
        reading("training_step_variation_ratio", spread, **what),
        reading("training_step_mean_variation_ratio", mean_spread, n=8, **what),
        reading("training_step_seconds", 0.052, stat="p50", **what),
        reading("training_step_seconds", 0.055, stat="p99", **what),
        reading("training_step_memory_bytes", memory * 12.5e9, **what),
        reading("training_step_memory_estimate_bytes", 12.5e9, **what),
        reading("training_step_loss", 9.7, at="first", **what),
        reading("training_step_loss", last, at="last", **what),
        reading("training_step_communication_ratio", 0.06, **what),
    ]
    if ranks > 1:
        rows.append(reading("training_step_speedup_ratio", speedup, **what))
    return rows


def judged(*rows: Reading, record: Record = HEALTHY, order: object = METAL_H200) -> ServerResult:
    """The result for a healthy server with these training figures."""
    return one(added(record, *rows), order)


def test_a_healthy_run_is_accepted() -> None:
    """7.6 times on 8 GPUs, steady, in its memory, learning."""
    result = judged(*step())
    assert result.verdict == "accept"
    assert not [id for id in ids(result) if id.startswith("training")]


@pytest.mark.parametrize(
    ("ranks", "speedup", "low"), [(8, 6.1, True), (8, 6.3, False), (4, 3.0, True), (4, 3.2, False), (2, 1.5, True)]
)
def test_scaling_below_the_documents_line(ranks: int, speedup: float, low: bool) -> None:
    """6.2 of 8, and in proportion for fewer GPUs: alone at most review."""
    result = judged(*step(1), *step(ranks, speedup))
    assert ("training-scaling-low" in ids(result)) is low
    if low:
        finding = found(result, "training-scaling-low")
        assert (finding.severity, finding.basis) == ("review", "floor")
        assert finding.parameters["expected"] == pytest.approx(6.2 * ranks / 8)


def test_in_the_reference_case_poor_scaling_is_a_consequence() -> None:
    """A KVM guest with NVLink off trains at 4.5 of 8: one root, and this hangs under it."""
    result = judged(*step(8, 4.5), record=builders.a100x8_kvm(), order=METAL_A100)
    finding = found(result, "training-scaling-low")
    assert finding.root == found(result, "virtualized").key
    assert result.verdict == "reject"


@pytest.mark.parametrize(("memory", "told"), [(1.09, False), (0.92, False), (1.2, True), (0.8, True)])
def test_memory_against_the_estimate(memory: float, told: bool) -> None:
    """Within 10 % of 2 + 2 + 12 bytes a parameter and the activations."""
    result = judged(*step(memory=memory))
    assert ("training-memory-differs" in ids(result)) is told
    if told:
        assert found(result, "training-memory-differs").severity == "advice"


def test_steps_that_vary_are_advice() -> None:
    """More than 10 % spread of identical steps is a neighbour or a throttle that comes and goes."""
    finding = found(judged(*step(spread=0.14)), "training-unsteady")
    assert (finding.severity, finding.parameters["p50"], finding.parameters["p99"]) == ("advice", 0.052, 0.055)


def test_seconds_that_vary_are_advice_where_single_steps_do_not() -> None:
    """Mean steps over whole seconds move by 0.13 % on a real H200; beyond 1 % something comes and goes."""
    result = judged(*step(mean_spread=0.04))
    finding = found(result, "training-mean-unsteady")
    assert (finding.severity, finding.parameters["measured"], finding.root) == ("advice", 0.04, None)
    assert "training-unsteady" not in ids(result) and result.verdict == "accept"
    assert "training-mean-unsteady" not in ids(judged(*step(mean_spread=0.009)))
    both = judged(*step(spread=0.14, mean_spread=0.04))
    assert found(both, "training-mean-unsteady").root == found(both, "training-unsteady").key


def test_a_loss_that_does_not_fall_is_to_be_looked_at() -> None:
    """Real steps on data with something to learn, and nothing learned."""
    assert found(judged(*step(last=9.7)), "training-does-not-learn").severity == "review"


def test_the_documents_lines_for_use_accuse_nobody() -> None:
    """Memory below 60 %, NVLink below 80 %: where to look, as information, with the lowest GPU."""
    rows = [
        reading("training_step_memory_use_ratio", 0.41, "gpu3", NVML),
        reading("training_step_memory_use_ratio", 0.66, "gpu4", NVML),
        reading("training_step_nvlink_use_ratio", 0.12, "gpu3", NVML),
    ]
    result = judged(*step(), *rows)
    memory = found(result, "training-memory-use-low")
    assert (memory.severity, memory.parameters["gpu"], memory.parameters["measured"]) == ("info", "gpu3", 0.41)
    assert found(result, "training-nvlink-use-low").severity == "info"
    assert result.verdict == "accept"


def test_a_cpu_machine_is_not_judged_by_the_gpus_lines() -> None:
    """Two processes on two cores do not train twice as fast, and nobody promised it."""
    record = builders.cpu_only()
    result = judged(*step(2, 1.0, spread=0.2, mean_spread=0.2), record=record, order={"gpus": 0})
    assert {"training-scaling-low", "training-unsteady", "training-mean-unsteady"} & ids(result) == set()


def test_no_training_is_no_finding() -> None:
    """What was not measured is told elsewhere."""
    assert not [id for id in ids(judged()) if id.startswith("training")]
