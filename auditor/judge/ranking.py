"""Which server is worth most for a use, and what a unit of delivered work costs.

Servers that pass the gates (accept, review) are scored 0..1: the weighted sum of parts, each part being the
server's figure over the best of the run. Scores closer than the tie line share a rank. A server that lacks a
part, or is alone in its kind (CPU beside GPU), is "not comparable", with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from auditor.finding import Cost, Score, ServerResult
from auditor.judge.policy import PARTS, Policy
from auditor.order import Order


def part(name: str, figures: Mapping[str, float | None], gpus: int) -> float | None:
    """One part of a server's score as an absolute figure; larger is better."""
    if name == "compute":
        return figures.get("flops_delivered") if gpus else figures.get("matmul_fp32_sustained")
    if name == "collectives":
        return figures.get("allreduce_busbw")
    if name == "memory":
        return figures.get("memory_read")
    if name == "host_copy":
        both = [rate for rate in (figures.get("h2d"), figures.get("d2h")) if rate is not None]
        return min(both) if both else None
    return 1.0 if gpus <= 1 else figures.get("slowest_ratio")


def ranked(results: Sequence[ServerResult], policy: Policy) -> list[ServerResult]:
    """The results with their scores for every use."""
    scores: dict[str, list[Score]] = {result.name: [] for result in results}
    passing = [result for result in results if result.verdict in ("accept", "review") and not result.text_only]
    for use, weights in policy.weights.items():
        for name, score in _use(use, weights, passing, policy.lines.tie.value).items():
            scores[name].append(score)
    return [msgspec.structs.replace(result, scores=tuple(scores[result.name])) for result in results]


def _use(use: str, weights: Mapping[str, float], passing: Sequence[ServerResult], tie: float) -> dict[str, Score]:
    out: dict[str, Score] = {}
    weighed = [name for name in PARTS if weights.get(name, 0) > 0]
    absolute: dict[str, dict[str, float]] = {}
    device = _main_device(passing)
    for result in passing:
        parts = {name: part(name, result.figures, len(result.gpus)) for name in weighed if _applies(name, result)}
        reason = _not_comparable(use, result, parts, device)
        if reason is not None:
            out[result.name] = Score(use, None, dict(parts), not_comparable=reason)
        else:
            absolute[result.name] = {name: value for name, value in parts.items() if value is not None}
    best = {name: max((row[name] for row in absolute.values() if name in row), default=0.0) for name in weighed}
    values: dict[str, tuple[float, dict[str, float | None]]] = {}
    for server, row in absolute.items():
        relative = {name: value / best[name] if best[name] > 0 else 0.0 for name, value in row.items()}
        total = sum(weights[name] for name in relative)
        values[server] = (sum(weights[name] * value for name, value in relative.items()) / total, {**relative})
    for server, rank, tied in _places({server: value for server, (value, _) in values.items()}, tie):
        value, relative_parts = values[server]
        out[server] = Score(use, value, relative_parts, rank, tied)
    return out


def _applies(name: str, result: ServerResult) -> bool:
    """A machine without a GPU has neither device memory nor copies to one."""
    return bool(result.gpus) or name in ("compute", "collectives")


def _main_device(passing: Sequence[ServerResult]) -> str | None:
    devices = [result.device for result in passing if result.device]
    return "cuda" if "cuda" in devices else devices[0] if devices else None


def _not_comparable(
    use: str, result: ServerResult, parts: Mapping[str, float | None], device: str | None
) -> str | None:
    if result.device != device:
        return "measured without a GPU, the others with one"
    if use == "training_multi_gpu" and len(result.gpus) == 1:
        return "one GPU: there is nothing to train across"
    lacking = [name for name, value in parts.items() if value is None]
    return f"not measured: {', '.join(lacking)}" if lacking else None


_NAMED = 8


def _places(values: Mapping[str, float], tie: float) -> list[tuple[str, int, tuple[str, ...]]]:
    """Server, rank, and who shares it. A tie is measured from the best of the group, so that it cannot chain."""
    order = sorted(values, key=lambda server: (-values[server], server))
    groups: list[list[str]] = []
    for server in order:
        if groups and values[groups[-1][0]] - values[server] <= tie * values[groups[-1][0]]:
            groups[-1].append(server)
        else:
            groups.append([server])
    out, rank = [], 1
    for group in groups:
        for server in group:
            out.append((server, rank, tuple(other for other in group[: _NAMED + 1] if other != server)[:_NAMED]))
        rank += len(group)
    return out


def cost(order: Order | None, figures: Mapping[str, float | None]) -> Cost | None:
    """What the price buys: per delivered PFLOP-hour (bf16 sustained) and per GB/s-hour of all-reduce bus bandwidth."""
    if order is None or order.price_per_hour is None or order.currency is None:
        return None
    flops, busbw = figures.get("flops_delivered"), figures.get("allreduce_busbw")
    return Cost(
        order.price_per_hour,
        order.currency,
        order.price_per_hour / (flops / 1e15) if flops else None,
        order.price_per_hour / (busbw / 1e9) if busbw else None,
    )
