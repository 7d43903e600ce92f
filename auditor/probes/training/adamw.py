"""AdamW with a float32 master copy: 12 bytes a parameter beside 2 of weight and 2 of gradient.

torch's own fused AdamW on the masters, a few tensors at a time, so that the float32 copy of the gradients never
exists as a whole. The fused operation is called by itself where torch has it: `torch.optim` imports torch's
compiler with its first optimizer, which costs three seconds of a quick audit.
"""

from typing import Any, List

_AT_ONCE = 32 << 20  # parameters
_BETAS, _DECAY, _EPSILON = (0.9, 0.999), 0.01, 1e-8  # torch.optim.AdamW's defaults


class MasterAdamW:
    """Holds the masters and their moments; `step` turns the model's gradients into new weights."""

    def __init__(self, torch: Any, parameters: List[Any], rate: float) -> None:
        self._torch = torch
        self._parts = []
        for group in _groups(parameters):
            masters = [p.detach().float().clone() for p in group]
            make = _Fused if _has_fused(torch, masters[0].is_cuda) else _Optim
            self._parts.append((group, masters, make(torch, masters, rate)))

    def step(self) -> None:
        """One update of all weights; gradients are left as they are."""
        with self._torch.no_grad():
            for weights, masters, update in self._parts:
                update([weight.grad.float() for weight in weights])
                for weight, master in zip(weights, masters):
                    weight.copy_(master)


def _has_fused(torch: Any, cuda: bool) -> bool:
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    return hasattr(torch, "_fused_adamw_") and version >= ((2, 1) if cuda else (2, 4))


class _Fused:
    """The operation under torch.optim.AdamW(fused=True)."""

    def __init__(self, torch: Any, masters: List[Any], rate: float) -> None:
        self._torch, self._masters, self._rate = torch, masters, rate
        self._first = [torch.zeros_like(m) for m in masters]
        self._second = [torch.zeros_like(m) for m in masters]
        self._steps = [torch.zeros((), dtype=torch.float32, device=m.device) for m in masters]

    def __call__(self, gradients: List[Any]) -> None:
        self._torch._foreach_add_(self._steps, 1)
        self._torch._fused_adamw_(
            self._masters,
            gradients,
            self._first,
            self._second,
            [],
            self._steps,
            lr=self._rate,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            weight_decay=_DECAY,
            eps=_EPSILON,
            amsgrad=False,
            maximize=False,
        )


class _Optim:
    """The same through torch.optim, for an older torch."""

    def __init__(self, torch: Any, masters: List[Any], rate: float) -> None:
        self._parameters = [torch.nn.Parameter(m) for m in masters]  # share the masters' memory
        self._optimizer = torch.optim.AdamW(
            self._parameters, lr=rate, betas=_BETAS, weight_decay=_DECAY, eps=_EPSILON, fused=bool(masters[0].is_cuda)
        )

    def __call__(self, gradients: List[Any]) -> None:
        for parameter, gradient in zip(self._parameters, gradients):
            parameter.grad = gradient
        self._optimizer.step()
        for parameter in self._parameters:
            parameter.grad = None


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
