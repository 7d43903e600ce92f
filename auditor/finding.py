"""What judging hands to reporting: findings, the verdict of each server, the ranking.

Plain frozen structs in base units; every sentence a reader sees is rendered from `id` and `parameters`
by `auditor.report.texts`.

Figures of a GPU (`Gpu.figures`; `Gpu.spec` has published values under the same names), base units, None = not measured:
    matmul_{bf16,fp16,tf32,fp32,fp8,int8,fp64}_sustained   FLOP/s (int8: OP/s), mean over 1 s of the 8192 cube
    matmul_{…}_boost                                       FLOP/s, first calls after idle
    per_clock_bf16                                         FLOP per counted SM clock and SM
    memory_{read,write,copy,triad}                         bytes/s
    memory_bytes, memory_verified                          bytes reported by the driver; written and read back
    h2d, d2h                                               bytes/s, pinned, the best under its conditions
    pcie_generation, pcie_lanes                            under load
    nvlinks_active                                         count
    celsius_max, celsius_memory_max, slowdown_margin       °C
    watts_mean, power_limit                                watts
    sm_clock_mean                                          hertz under load, as NVML reads it
    flops_per_watt                                         FLOP/J
Figures of a server (`ServerResult.figures`): the same names as medians over its GPUs (`watts_mean`: sum,
`celsius_max`, `celsius_memory_max`: maximum; without a GPU `matmul_{…}_sustained` of the CPU), and
    flops_delivered       FLOP/s, bf16 sustained, all GPUs together (None unless every GPU has it)
    slowest_ratio         slowest GPU over the median GPU, bf16 sustained
    allreduce_algbw, allreduce_busbw, allreduce_bytes, allreduce_ranks
                          bytes/s at the size next to 400 MB over most ranks, that size, those ranks
    allreduce_busbw_best, all_gather_busbw, reduce_scatter_busbw, broadcast_busbw, all_to_all_busbw   bytes/s
    training_speedup, training_tokens_per_second, steal_ratio
A figure above what its model can reach (`figure-implausible`) is None here, so that no average or ranking uses it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from auditor.order import Order
from auditor.records import Condition, Value

Category = Literal["misallocated", "virtualized", "degraded", "underperforming", "unproven", "incomplete"]
Severity = Literal["reject", "review", "advice", "info"]
Verdict = Literal["reject", "incomplete", "review", "accept"]
Basis = Literal["order", "spec", "achievable", "floor", "siblings", "fleet", "baseline", "contradiction", "evidence"]

SEVERITIES: tuple[Severity, ...] = ("reject", "review", "advice", "info")
VERDICTS: tuple[Verdict, ...] = ("reject", "incomplete", "review", "accept")
USES = ("training_multi_gpu", "training_single_gpu", "inference")


class Evidence(msgspec.Struct, frozen=True):
    """One reading a finding rests on, enough to find its row on the Readings sheet."""

    metric: str
    subject: str
    value: Value
    source: str
    conditions: dict[str, Condition] = {}
    spread: float | None = None
    method: int | None = None


class Finding(msgspec.Struct, frozen=True):
    """One judged fact. `parameters` are in base units; the texts' placeholders name their unit.

    `basis` is the kind of expectation that was missed and `source` where its number comes from.
    `root` is the `key` of the finding that explains this one, None for a root.
    """

    id: str
    category: Category
    severity: Severity
    server: str
    subject: str
    basis: Basis
    source: str
    parameters: dict[str, Value] = {}
    evidence: tuple[Evidence, ...] = ()
    uuid: str | None = None
    root: str | None = None

    @property
    def key(self) -> str:
        """Names this finding within a run: `server:id:subject`."""
        return f"{self.server}:{self.id}:{self.subject}"


class Gpu(msgspec.Struct, frozen=True):
    """One GPU as the report shows it; figures by name in base units, None where not measured."""

    subject: str
    index: int | None
    uuid: str | None
    pci: str | None
    name: str | None
    model: str | None
    figures: dict[str, float | None] = {}
    spec: dict[str, float | None] = {}


class Score(msgspec.Struct, frozen=True):
    """A server's standing for one use: `parts` maps each weighted part to its 0..1 value."""

    use: str
    value: float | None
    parts: dict[str, float | None] = {}
    rank: int | None = None
    tied_with: tuple[str, ...] = ()
    not_comparable: str | None = None


class Cost(msgspec.Struct, frozen=True):
    """What the order's price buys here, in the order's currency."""

    price_per_hour: float
    currency: str
    per_pflop_hour: float | None = None
    per_gb_per_second_hour: float | None = None


class ServerResult(msgspec.Struct, frozen=True):
    """One row of the report: every server of the inventory has one, also the one that never answered."""

    name: str
    verdict: Verdict
    label: str | None = None
    order: Order | None = None
    reason: str | None = None
    phase: str | None = None
    findings: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()
    model: str | None = None
    gpus: tuple[Gpu, ...] = ()
    level: str | None = None
    profile: str | None = None
    device: str | None = None
    synthetic: bool = False
    text_only: bool = False
    started: str | None = None
    seconds: float | None = None
    sha256: str | None = None
    figures: dict[str, float | None] = {}
    scores: tuple[Score, ...] = ()
    cost: Cost | None = None

    @property
    def roots(self) -> tuple[Finding, ...]:
        """The findings that no other finding explains, worst first as the judge ordered them."""
        return tuple(f for f in self.findings if f.root is None)


class Judgement(msgspec.Struct, frozen=True):
    """Everything one run came to."""

    run: str
    inventory: str
    version: str
    servers: tuple[ServerResult, ...]
    policy_sha256: str
    catalog_sha256: str
    weights: dict[str, dict[str, float]] = {}
    of_inventory: int | None = None
    started: str | None = None
    finished: str | None = None

    @property
    def synthetic(self) -> bool:
        """True when any server's record is synthetic: then every page says so."""
        return any(s.synthetic for s in self.servers)
