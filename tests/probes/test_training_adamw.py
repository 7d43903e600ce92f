"""The optimizer of training_step: torch's AdamW, without torch's compiler."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from auditor.probes.training import adamw


def trained(make: Any, steps: int = 5) -> list[torch.Tensor]:
    """Two small weights after some steps of seeded gradients."""
    torch.manual_seed(3)
    weights = [torch.nn.Parameter(torch.randn(7, 5)), torch.nn.Parameter(torch.randn(5))]
    step = make(weights)
    for _ in range(steps):
        for weight in weights:
            weight.grad = torch.randn_like(weight)
        step()
    return [weight.detach() for weight in weights]


def reference(weights: list[Any]) -> Any:
    """torch.optim.AdamW itself."""
    return torch.optim.AdamW(weights, lr=0.01).step


@pytest.mark.parametrize("kind", ["_Fused", "_Optim"])
def test_both_ways_are_torch_s_adamw(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fused operation and the older way give what torch.optim.AdamW gives."""
    monkeypatch.setattr(adamw, "_has_fused", lambda torch, cuda: kind == "_Fused")
    ours = trained(lambda weights: adamw.MasterAdamW(torch, weights, 0.01).step)
    for mine, theirs in zip(ours, trained(reference), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6)


def test_the_compiler_is_not_imported() -> None:
    """A step costs no import of torch._dynamo."""
    code = (
        "import sys, torch\n"
        "from auditor.probes.training.adamw import MasterAdamW\n"
        "p = torch.nn.Parameter(torch.ones(3)); p.grad = torch.ones(3)\n"
        "MasterAdamW(torch, [p], 0.01).step()\n"
        "print('torch._dynamo' in sys.modules, p[0].item() < 1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
