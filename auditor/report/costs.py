"""What delivered work costs: servers of one provider, model and currency together, and the cheapest good choice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditor.finding import Judgement, ServerResult
from auditor.judge.texts import N_
from auditor.report.show import show
from auditor.report.view import Report


@dataclass(frozen=True)
class Kind:
    """Servers whose prices and figures may be put together."""

    judgement: Judgement
    model: str
    currency: str
    servers: tuple[ServerResult, ...]

    @property
    def accepted(self) -> list[ServerResult]:
        """The good ones."""
        return [server for server in self.servers if server.verdict == "accept"]


def kinds(report: Report) -> Iterator[Kind]:
    """Per provider and run: its servers by model and currency."""
    delivered = _delivered(report)
    for part in report.parts:
        found: dict[tuple[str, str], list[ServerResult]] = defaultdict(list)
        for server in part.judgement.servers:
            model = show(server.model or _expected(server, delivered) or report.texts._(N_("no GPU")))
            found[model, _currency(server)].append(server)
        for (model, currency), servers in sorted(found.items()):
            yield Kind(part.judgement, model, currency, tuple(servers))


def per_hour(servers: Sequence[ServerResult]) -> float | None:
    """What they cost an hour; None where none has a price."""
    prices = [s.order.price_per_hour for s in servers if s.order and s.order.price_per_hour is not None]
    return sum(prices) if prices else None


def per_pflop_hour(servers: Sequence[ServerResult]) -> float | None:
    """All their prices over all they deliver: what a PFLOP-hour costs from this provider, one currency."""
    both = [(s.cost.price_per_hour, s.figures.get("flops_delivered")) for s in servers if s.cost]
    counted = [(price, flops) for price, flops in both if flops]
    delivered = sum(flops for _, flops in counted)
    return sum(price for price, _ in counted) / (delivered / 1e15) if delivered else None


def cheapest(report: Report) -> dict[str, list[tuple[str, ServerResult]]]:
    """By currency: the accepted servers whose delivered PFLOP costs least as it is shown, with their providers."""
    found: dict[str, list[tuple[float, str, ServerResult]]] = defaultdict(list)
    for provider, server in report:
        cost = server.cost
        if server.verdict == "accept" and cost is not None and cost.per_pflop_hour is not None:
            found[cost.currency].append((cost.per_pflop_hour, provider, server))
    best: dict[str, list[tuple[str, ServerResult]]] = {}
    for currency, offers in sorted(found.items()):
        least = report.texts.money(min(cost for cost, _, _ in offers), currency)
        level = [offer for offer in offers if report.texts.money(offer[0], currency) == least]
        best[currency] = [(provider, server) for _, provider, server in sorted(level, key=lambda offer: offer[0])]
    return best


def _delivered(report: Report) -> dict[str, set[str]]:
    """What came where a GPU was ordered by this name."""
    models: dict[str, set[str]] = defaultdict(set)
    for server in report.servers:
        if server.model and server.order and server.order.gpu:
            models[server.order.gpu].add(server.model)
    return models


def _expected(server: ServerResult, delivered: dict[str, set[str]]) -> str | None:
    """Of a server that showed nothing: what was ordered, by the name under which it came elsewhere."""
    ordered = server.order.gpu if server.order else None
    same = delivered.get(ordered or "", set())
    return next(iter(same)) if len(same) == 1 else ordered


def _currency(server: ServerResult) -> str:
    return show(server.order.currency or "") if server.order else ""
