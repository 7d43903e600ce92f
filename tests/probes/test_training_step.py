"""Probe `training_step`: the model's counts, the optimizer, steadiness, and whole runs on this machine's CPU."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from auditor.probes import training_step
from auditor.probes.engine.context import Sample
from auditor.probes.training import gpt
from auditor.probes.training.adamw import MasterAdamW

from .desk import desk

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore:Failed to initialize NumPy")


@pytest.fixture(scope="module")
def torch() -> Any:
    """torch, imported once."""
    return pytest.importorskip("torch")


SMALL = gpt.Shape(layers=3, width=64, heads=4, vocabulary=97, length=16, batch=2)


def test_parameters_are_counted_as_the_model_has_them(torch: Any) -> None:
    """The estimate rests on this number."""
    model = gpt.build(torch, SMALL, torch.device("cpu"), torch.float32)
    assert sum(parameter.numel() for parameter in model.parameters()) == SMALL.parameters


def test_the_models_are_as_large_as_the_issue_asks() -> None:
    """0.3 to 1 billion parameters where memory allows; 16 bytes each and the activations."""
    assert 0.3e9 < gpt.LARGE.parameters < 1e9
    assert gpt.LARGE.memory_bytes() == 16 * gpt.LARGE.parameters + gpt.LARGE.activation_bytes
    assert gpt.shape_for(140 << 30) is gpt.LARGE
    assert gpt.shape_for(16 << 30) is gpt.MEDIUM
    assert gpt.MEDIUM.memory_bytes() < 12 << 30


def test_every_matrix_that_meets_a_token_is_counted(torch: Any) -> None:
    """The FLOP of the products rest on these weights; the tied embedding counts once, for the logits."""
    model = gpt.build(torch, SMALL, torch.device("cpu"), torch.float32)
    matrices = {name: p.numel() for name, p in model.named_parameters() if p.dim() == 2 and name != "position"}
    assert sum(matrices.values()) == SMALL.matrix_weights
    attention = 6 * SMALL.layers * SMALL.length * SMALL.width * SMALL.tokens
    assert SMALL.flops == 6 * SMALL.matrix_weights * SMALL.tokens + attention


def test_masters_step_as_torchs_own_adamw(torch: Any) -> None:
    """In float32 the master copy changes nothing: the same weights after three steps."""
    torch.manual_seed(1)
    ours, theirs = (torch.nn.Linear(40, 30) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    for parameter in ours.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer = MasterAdamW(torch, list(ours.parameters()), 1e-2)
    reference = torch.optim.AdamW(theirs.parameters(), lr=1e-2)
    for _ in range(3):
        data = torch.randn(8, 40)
        for model in (ours, theirs):
            model.zero_grad(set_to_none=False)
            model(data).square().mean().backward()
        optimizer.step()
        reference.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine, other, atol=1e-7)


def test_bf16_weights_do_not_lose_small_steps(torch: Any) -> None:
    """A hundred steps too small for bf16 add up in the master copy."""
    weight = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    optimizer = MasterAdamW(torch, [weight], 1e-4)
    for _ in range(100):
        weight.grad = torch.ones_like(weight)
        optimizer.step()
    assert float(weight.detach().float().mean()) == pytest.approx(0.99, abs=0.004)


def test_large_models_are_stepped_in_parts(torch: Any) -> None:
    """The float32 copy of the gradients never exists as a whole."""
    weights = [torch.nn.Parameter(torch.zeros(20 << 20)) for _ in range(3)]
    assert len(MasterAdamW(torch, weights, 1e-3)._parts) == 3


def test_batches_have_something_to_learn_and_differ_by_rank(torch: Any) -> None:
    """A word is followed by the same word nine times of ten; another seed gives another text."""
    data = gpt.batches(torch, SMALL, torch.device("cpu"), 5, 4)
    pairs: dict[int, list[int]] = {}
    for row in data.flatten(0, 1).tolist():
        for first, second in zip(row, row[1:], strict=False):
            pairs.setdefault(first, []).append(second)
    common = sum(max(follow.count(word) for word in set(follow)) for follow in pairs.values())
    assert common / sum(map(len, pairs.values())) > 0.7
    assert not torch.equal(data, gpt.batches(torch, SMALL, torch.device("cpu"), 6, 4))


def test_ranks_that_train() -> None:
    """Powers of two and all; in quick one and all."""
    assert training_step.counts(8, "standard") == [1, 2, 4, 8]
    assert training_step.counts(8, "quick") == [1, 8]
    assert training_step.counts(3, "soak") == [1, 2, 3]
    assert training_step.counts(1, "quick") == [1]
    assert training_step.counts(16, "standard") == [1, 2, 4, 8, 16]


def test_means_are_over_whole_control_periods() -> None:
    """Steps that swing within a second and repeat every second have one mean; what is left over has none."""
    assert training_step.period_means([0.04, 0.06] * 50) == pytest.approx([0.05] * 5)
    assert training_step.period_means([0.05] * 20 + [0.1] * 10) == pytest.approx([0.05, 0.1])
    assert training_step.period_means([0.05] * 21) == pytest.approx([0.05])


@pytest.mark.parametrize(("steps", "expected"), [([0.04, 0.06] * 50, 0.0), ([0.05] * 20 + [0.1] * 10, 1 / 3)])
def test_steadiness_is_told_twice_by_name(tmp_path: Path, steps: list[float], expected: float) -> None:
    """Single steps swing at the power limit; the mean over a period of its controller is what should hold."""
    outcome = training_step.Outcome(steps, [9.0, 8.0], None, [], 100)
    with desk("training_step", tmp_path) as at:
        bench = SimpleNamespace(shape=SMALL, cuda=False)
        readings = {row.metric: row for row in training_step._of_server(at.context, bench, outcome, 1, None)}
    single, mean = (readings[f"training_step_{name}"] for name in ("variation_ratio", "mean_variation_ratio"))
    assert single.value == pytest.approx(statistics.pstdev(steps) / statistics.fmean(steps)) and single.n == len(steps)
    assert mean.value == pytest.approx(expected, abs=1e-9)
    assert mean.value == readings["training_step_tokens_per_second"].spread


def test_one_control_period_tells_no_steadiness(tmp_path: Path) -> None:
    """quick has a window of one period: there is nothing to compare its mean with."""
    outcome = training_step.Outcome([0.05] * 21, [9.0, 8.0], None, [], 100)
    with desk("training_step", tmp_path) as at:
        bench = SimpleNamespace(shape=SMALL, cuda=False)
        metrics = {row.metric for row in training_step._of_server(at.context, bench, outcome, 1, None)}
    assert "training_step_variation_ratio" in metrics and "training_step_mean_variation_ratio" not in metrics


@pytest.mark.parametrize(
    ("left", "trial", "steps"), [(6.0, 0.05, 8), (6.0, 1e-3, 400), (6.0, 0.5, 3), (0.0, 0.01, 3), (60.0, 1.0, 8)]
)
def test_a_busy_host_makes_fewer_steps(torch: Any, tmp_path: Path, left: float, trial: float, steps: int) -> None:
    """Eight at least, and three where eight would take half of the time that is left."""
    with desk("training_step", tmp_path, seconds=left) as at:
        bench = training_step.Bench(torch, at.context)
        assert bench.agreed(training_step.WINDOW["quick"], trial, 1) == pytest.approx(steps, rel=0.01)


def _known(metric: str, subject: str, value: float, **conditions: Any) -> dict[str, Any]:
    return {"metric": metric, "subject": subject, "with": conditions, "value": value}


def test_link_use_is_both_ways_over_all_active_links(tmp_path: Path) -> None:
    """18 links of 26.562 GB/s carry 956 GB/s both ways; the counter's rise over the loaded samples is the use."""
    known = [
        _known("topology_nvlinks_active_total", "gpu0", 18),
        _known("topology_link_bytes_per_second", "gpu0/link0", 26.562e9),
    ]
    with desk("training_step", tmp_path, known=known) as at:
        assert training_step.link_capacity(at.context, "gpu0") == pytest.approx(956.232e9)
        assert training_step.link_capacity(at.context, "gpu1") is None
    rows = [Sample(t=10.0 + n, gpu_use_ratio=0.99, nvlink_bytes=5e9 * n) for n in range(5)]
    idle = Sample(t=9.0, gpu_use_ratio=0.0, nvlink_bytes=0.0)
    assert training_step._link_rate(training_step._loaded([idle, *rows])) == pytest.approx(5e9)
    assert training_step._link_rate([Sample(t=1.0), Sample(t=2.0)]) is None


def test_mfu_needs_the_rate_of_every_gpu(tmp_path: Path) -> None:
    """On the CPU the float32 product of this audit; without one there is no ratio."""
    known = [_known("matmul_sustained_flops_per_second", "server", 2e11, dtype="fp32", n=1024)]
    with desk("training_step", tmp_path, known=known) as at:
        assert training_step.matmul_rate(at.context, 1, cuda=False) == 2e11
        assert training_step.matmul_rate(at.context, 1, cuda=True) is None


def _start(folder: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-W", "ignore", "-m", "auditor.probes", "--server", "x", "--profile", "quick"]
    argv += ["--device", "cpu", "--only", "training_step", "--out", str(folder / "record.json")]
    return subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def _events(child: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert child.stderr is not None
    for line in child.stderr:
        if line.startswith("{"):
            yield json.loads(line)


def test_two_ranks_train_on_the_cpu_and_learn(tmp_path: Path) -> None:
    """gloo, two processes: tokens, times, a loss that falls, the speed-up and the share of communication."""
    with _start(tmp_path) as child:
        list(_events(child))
    record = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    assert [row["status"] for row in record["probes"]] == ["measured"], record["probes"]
    told = {
        (row["metric"].removeprefix("training_step_"), row["with"].get("ranks"), row["with"].get("at")): row["value"]
        for row in record["readings"]
    }
    for ranks in (1, 2):
        assert told["tokens_per_second", ranks, None] > 100
        assert told["loss", ranks, "last"] < told["loss", ranks, "first"]
    assert told["speedup_ratio", 2, None] > 0.1
    assert 0 <= told["communication_ratio", 2, None] < 1
    assert ("memory_bytes", 1, None) not in told


def test_a_rank_that_is_killed_ends_the_probe_with_a_reason(tmp_path: Path) -> None:
    """The other rank waits in a collective and is ended; the record is written and says what happened."""
    with _start(tmp_path) as child:
        for event in _events(child):
            if event["event"] == "reading" and event["with"].get("ranks") == 1:
                workers = _children(child.pid)
                victim = max(pid for pid, name in workers.items() if name == "cpu1")
                os.kill(victim, signal.SIGKILL)
                break
        for _ in _events(child):
            pass
    assert child.returncode == 0
    record = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    (row,) = record["probes"]
    assert row["status"] in ("failed", "timed_out")  # the dead rank is seen first, or the collective's own limit
    assert "died" in row["reason"] or "did not" in row["reason"] or "time" in row["reason"]
    assert [r for r in record["readings"] if r["metric"] == "training_step_tokens_per_second"]


def _children(parent: int) -> dict[int, str]:
    """The engine's processes by their names, as their environment tells them."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "environ").read_bytes().split(b"\0")
                status = (folder / "status").read_text()
            except OSError:
                continue
            mark = next((word for word in words if word.startswith(b"AUDITOR_WORKER=")), None)
            if mark and f"PPid:\t{parent}\n" in status:
                found[int(folder.name)] = mark.decode().partition("=")[2].rpartition("-")[0]
    return found
