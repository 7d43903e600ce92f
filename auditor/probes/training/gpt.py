"""A decoder of GPT's shape, its cost in FLOP and in bytes.

Pre-norm blocks, causal attention by torch's own kernels (not cuDNN's, which take seconds to load), a
feed-forward part four times as wide, tied embedding. Counts: 6 FLOP a matrix weight and token, plus 6 L s h
for causal attention (Narayanan et al., arXiv 2104.04473, halved for the mask).
"""

import contextlib
from dataclasses import dataclass
from typing import Any, ContextManager


@dataclass(frozen=True)
class Shape:
    """Sizes of the model and of one rank's micro-batch."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    length: int
    batch: int

    @property
    def tokens(self) -> int:
        """Tokens of one rank's step."""
        return self.length * self.batch

    @property
    def matrix_weights(self) -> int:
        """Weights that are multiplied with every token."""
        return 12 * self.layers * self.width**2 + self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        """All parameters: matrices, positions, norms and biases."""
        block = 12 * self.width**2 + 13 * self.width
        return self.layers * block + (self.vocabulary + self.length + 2) * self.width

    @property
    def flops(self) -> float:
        """Model FLOP of one rank's step, forward and backward."""
        return self.tokens * (6.0 * self.matrix_weights + 6.0 * self.layers * self.length * self.width)

    @property
    def activation_bytes(self) -> float:
        """bf16 tensors kept for the backward pass.

        A block keeps 34 bytes a token and unit of width: norm inputs 2 + 2, norm outputs 2 + 2, q k v 6,
        attention output 2 and its projection's input is the same tensor, residual 2, feed-forward 8 + 8.
        The loss keeps the logits, and their softmax in float32 while its gradient is made.
        """
        return self.tokens * (34.0 * self.layers * self.width + 10.0 * self.vocabulary)

    def memory_bytes(self) -> float:
        """Weights 2, gradients 2, AdamW in float32 12 (master copy and two moments), and the activations."""
        return 16.0 * self.parameters + self.activation_bytes


LARGE = Shape(layers=8, width=2048, heads=16, vocabulary=16384, length=1024, batch=8)
MEDIUM = Shape(layers=12, width=1024, heads=8, vocabulary=16384, length=1024, batch=4)
TINY = Shape(layers=2, width=128, heads=4, vocabulary=512, length=128, batch=4)


def shape_for(free_bytes: int) -> Shape:
    """The largest model that trains in half of the free memory: 0.44 B parameters, else 0.17 B."""
    return LARGE if LARGE.memory_bytes() * 1.5 < free_bytes else MEDIUM


def attention(torch: Any) -> ContextManager[Any]:
    """While this is open, attention runs in torch's own kernels; torch before 2.3 has no choice."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        return contextlib.nullcontext()
    own = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    chosen: ContextManager[Any] = sdpa_kernel(own)
    return chosen


def build(torch: Any, shape: Shape, device: Any, dtype: Any) -> Any:
    """The model on its device, weights from torch's current seed."""
    from torch import nn

    class Block(nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            width = shape.width
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, width = x.shape
            heads = self.qkv(self.norm1(x)).view(batch, length, 3, shape.heads, width // shape.heads)
            q, k, v = heads.permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(shape.vocabulary, shape.width)
            self.position = nn.Parameter(torch.empty(shape.length, shape.width))
            self.blocks = nn.ModuleList(Block() for _ in range(shape.layers))
            self.norm = nn.LayerNorm(shape.width)

        def forward(self, tokens: Any) -> Any:
            x = self.token(tokens[:, :-1]) + self.position
            for block in self.blocks:
                x = block(x)
            logits = nn.functional.linear(self.norm(x), self.token.weight)
            return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    with torch.device(device):
        model = Gpt()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.02)
    return model.to(dtype)


def batches(torch: Any, shape: Shape, device: Any, seed: int, count: int) -> Any:
    """Token sequences with something to learn: a few words that follow each other in a fixed order, with noise."""
    generator = torch.Generator().manual_seed(seed)
    words = min(256, shape.vocabulary)
    follows = torch.randperm(words, generator=generator)
    tokens = torch.empty(count, shape.batch, shape.length + 1, dtype=torch.long)
    tokens[:, :, 0] = torch.randint(words, (count, shape.batch), generator=generator)
    for place in range(1, shape.length + 1):
        tokens[:, :, place] = follows[tokens[:, :, place - 1]]
    noise = torch.rand(tokens.shape, generator=generator) < 0.1
    tokens[noise] = torch.randint(words, (int(noise.sum()),), generator=generator)
    return tokens.to(device)
