"""How much healthy machines differ, from measurements others published; never from our own lines.

Card to card: one model varies 8 % on average and 22 % at most across a cluster (Sinha et al., SC22, arXiv
2208.11035v3), between the whiskers of a box plot, which stand 5.4 deviations apart: 1.5 % and 4.1 %. Nodes of eight
healthy GPUs spread 5-8 % (stas00/ml-engineering @744d01e; H100 acceptance log 2026-05); the range of eight normal
values is 2.85 deviations, so the middle of that is 2.3 %.
Repeats of one figure on one card: CV 0.2 % sustained, 0.17 % boost, 0.7 % memory, work per clock 0.4 % a product
(two H200, measured for this project). Host copies: 8 links within 0.2 %, two clouds 51-55 GB/s (stas00, Azure).
All-reduce at 400 MB on 8 x A100: four logs, 212-223 GB/s (achievable.yaml). Temperature: 8-12 degrees in one node.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """Relative standard deviations, temperature in degrees."""

    card: float
    server: float = 0.010
    repeat: float = 0.002
    memory: float = 0.007
    per_clock: float = 0.0015
    copy: float = 0.015
    collective: float = 0.015
    heat: float = 3.5


MEAN = Spread(card=0.015)
NODE = Spread(card=0.023)
WORST = Spread(card=0.041)
FAR = 3.09
"""p99.9 of a normal value: every hundredth healthy server has one card this far down."""


class Luck:
    """The lottery of one server: a factor for each GPU and kind of figure, fixed once drawn."""

    def __init__(self, rng: random.Random, spread: Spread, gpus: int) -> None:
        server = rng.gauss(0.0, spread.server)
        cards = [rng.gauss(0.0, spread.card) for _ in range(gpus)]
        if rng.random() < 0.01:
            cards[rng.randrange(gpus)] = -FAR * spread.card
        collective = rng.gauss(0.0, spread.collective)
        copies = rng.gauss(-spread.copy, spread.copy)
        self._factors = {
            "matmul": [1 + server + card for card in cards],
            "memory": [1 + rng.gauss(0.0, spread.memory) for _ in range(gpus)],
            "per_clock": [1 + rng.gauss(0.0, spread.per_clock) for _ in range(gpus)],
            "host_copy": [1 + min(0.0, copies + rng.gauss(0.0, 0.002)) for _ in range(gpus)],
            "collectives": [1 + collective] * gpus,
            "peer": [1 + rng.gauss(0.0, 0.01) for _ in range(gpus)],
            "heat": [1 + rng.gauss(0.0, spread.heat) / 60.0 for _ in range(gpus)],
        }

    def __call__(self, kind: str, gpu: int) -> float:
        return self._factors[kind][gpu]
