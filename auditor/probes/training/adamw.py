"""AdamW with a float32 master copy: 12 bytes a parameter beside 2 of weight and 2 of gradient.

torch's own AdamW on the masters, a few tensors at a time, so that the float32 copy of the gradients never
exists as a whole.
"""

from typing import Any, List

_AT_ONCE = 32 << 20  # parameters


class MasterAdamW:
    """Holds the masters and their moments; `step` turns the model's gradients into new weights."""

    def __init__(self, torch: Any, parameters: List[Any], rate: float) -> None:
        self._torch = torch
        self._parts: List[Any] = []
        for group in _groups(parameters):
            masters = [torch.nn.Parameter(p.detach().float()) for p in group]
            fused = bool(masters[0].is_cuda)
            self._parts.append((group, masters, torch.optim.AdamW(masters, lr=rate, fused=fused)))

    def step(self) -> None:
        """One update of all weights; gradients are left as they are."""
        with self._torch.no_grad():
            for weights, masters, optimizer in self._parts:
                for weight, master in zip(weights, masters):
                    master.grad = weight.grad.float()
                optimizer.step()
                for weight, master in zip(weights, masters):
                    weight.copy_(master)
                    master.grad = None


def _groups(parameters: List[Any]) -> List[List[Any]]:
    groups: List[List[Any]] = [[]]
    size = 0
    for parameter in parameters:
        if groups[-1] and size + parameter.numel() > _AT_ONCE:
            groups.append([])
            size = 0
        groups[-1].append(parameter)
        size += parameter.numel()
    return groups
