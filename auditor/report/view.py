"""What sheets, pages and formats look at: one or several judged runs, and the facts a summary draws from them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Protocol

from auditor.finding import SEVERITIES, VERDICTS, Evidence, Finding, Judgement, ServerResult
from auditor.judge.texts import N_
from auditor.records import Reading, Record
from auditor.report.show import show
from auditor.report.texts import Rendered, Texts, render, told
from auditor.runs import LOOSE, Run

HOURS_PER_MONTH = 730  # 365 days × 24 hours ÷ 12, as cloud price lists count
SYNTHETIC = N_("SYNTHETIC DATA: made for tests, no real machine was measured")


class Judged(Protocol):
    """What judging hands over; `auditor.assembly` makes it, redaction wraps it."""

    @property
    def judgement(self) -> Judgement:
        """Everything the run came to."""

    @property
    def run(self) -> Run | None:
        """The run folder it came from; None for a heap of files."""

    def record(self, name: str) -> Record | None:
        """One server's record, read from disk when asked for."""


@dataclass(frozen=True)
class Seen:
    """One server on its way through the report."""

    provider: str
    server: ServerResult
    record: Record | None
    first_reading: int

    def reading_number(self, evidence: Evidence) -> int | None:
        """The number of the row on Readings that this evidence stands in."""
        return self._numbers.get(_identity(evidence))

    @cached_property
    def _numbers(self) -> dict[tuple[str, str, str, str], int]:
        rows = self.record.readings if self.record else ()
        wanted = {evidence.metric for finding in self.server.findings for evidence in finding.evidence}
        numbers: dict[tuple[str, str, str, str], int] = {}
        for index, reading in enumerate(rows):
            if reading.metric in wanted:
                numbers.setdefault(_identity(reading), self.first_reading + index)
        return numbers


def _identity(row: Reading | Evidence) -> tuple[str, str, str, str]:
    return row.metric, row.subject, row.source, conditions_text(row)


def conditions_text(row: Reading | Evidence) -> str:
    """The conditions of a reading as one text, sorted: `dtype=bf16 n=8192`."""
    return " ".join(f"{key}={row.conditions[key]}" for key in sorted(row.conditions))


@dataclass(frozen=True)
class Money:
    """Amounts by currency; never added across currencies."""

    per_month: dict[str, float] = field(default_factory=dict)
    unpriced: int = 0


@dataclass(frozen=True)
class Problem:
    """One kind of root finding over all servers that have it, with its first example."""

    example: Finding
    servers: tuple[str, ...]


class Report:
    """All that one report is made from."""

    def __init__(self, parts: Iterable[Judged], texts: Texts) -> None:
        self.parts = tuple(parts)
        self.texts = texts
        self._rendered: dict[str, Rendered] = {}

    def __iter__(self) -> Iterator[tuple[str, ServerResult]]:
        """Every server with the inventory it was rented in."""
        for part in self.parts:
            for server in part.judgement.servers:
                yield part.judgement.inventory, server

    def seen(self) -> Iterator[Seen]:
        """Every server with its record; one record in memory at a time."""
        number = 1
        for part in self.parts:
            for server in part.judgement.servers:
                record = part.record(server.name)
                yield Seen(part.judgement.inventory, server, record, number)
                number += len(record.readings) if record else 0

    @cached_property
    def servers(self) -> tuple[ServerResult, ...]:
        """Every server of every run."""
        return tuple(server for _, server in self)

    @cached_property
    def providers(self) -> tuple[str, ...]:
        """The inventories, each once, as given."""
        return tuple(dict.fromkeys(part.judgement.inventory for part in self.parts))

    @property
    def several(self) -> bool:
        """True when more than one provider is shown side by side."""
        return len(self.providers) > 1

    @property
    def synthetic(self) -> bool:
        """True when any record is synthetic: then every page says so."""
        return any(part.judgement.synthetic for part in self.parts)

    @property
    def warning(self) -> str | None:
        """The sentence every page carries when a record is synthetic."""
        return f"! {self.texts._(SYNTHETIC)}" if self.synthetic else None

    @property
    def subtitle(self) -> str:
        """Provider, run and version: what every page is about."""
        runs = ", ".join(self.title(part.judgement) for part in self.parts[:4])
        if len(self.parts) > 4:
            runs += " …"
        return f"{runs} · auditor {self.parts[0].judgement.version}" if self.parts else "auditor"

    def title(self, judgement: Judgement) -> str:
        """What one run is called: inventory and time; records that came without a run are just that."""
        place = self.place(judgement.inventory)
        return place if judgement.run == LOOSE else f"{place} {show(judgement.run, 40)}"

    def place(self, inventory: str) -> str:
        """What an inventory is called; records that came without a run have none."""
        loose = any(part.judgement.run == LOOSE and part.judgement.inventory == inventory for part in self.parts)
        return self.texts._(N_("record files")) if loose else show(inventory, 60)

    def provider_of(self, server: ServerResult) -> str:
        """The name of the inventory a server was rented in."""
        return self.place(self._inventories[id(server)])

    @cached_property
    def _inventories(self) -> dict[int, str]:
        return {id(server): inventory for inventory, server in self}

    def period(self, judgement: Judgement) -> str:
        """From when to when it was measured; without a run's own times the records tell. Empty: nobody says."""
        if judgement.started or judgement.finished:
            times = [self.when(judgement.started), self.when(judgement.finished)]
        else:
            times = sorted(self.when(server.started) for server in judgement.servers if server.started)
        if not times:
            return ""
        told = N_("{start} (UTC)") if times[0] == times[-1] else N_("{start} to {end} (UTC)")
        return self.texts._(told, start=times[0], end=times[-1])

    def when(self, text: str | None) -> str:
        """A time as the record has it, for a reader: `2026-12-01 03:15:42`; all times are UTC."""
        if not text:
            return "?"
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return show(text, 40)
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC)
        return moment.strftime("%Y-%m-%d %H:%M:%S")

    def name(self, server: ServerResult) -> str:
        """How a server is called in front of a reader: its label, else its inventory name."""
        return show(server.label, 80) if server.label else show(server.name, 80)

    def rendered(self, finding: Finding) -> Rendered:
        """A finding in words."""
        return render(finding, self.texts)

    def verdicts(self, provider: str | None = None) -> Counter[str]:
        """How many servers came to each verdict, worst first, zero included."""
        counts: Counter[str] = Counter(dict.fromkeys(VERDICTS, 0))
        counts.update(server.verdict for name, server in self if provider in (None, name))
        return counts

    def problems(self, most: int = 3) -> list[Problem]:
        """The worst kinds of root findings: by severity, then by how many servers have them."""
        groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
        for server in self.servers:
            for finding in server.roots:
                if finding.severity != "info":
                    groups[finding.id, told(finding).title].append(finding)
        order = sorted(groups.values(), key=lambda g: (_worst(g), -len({f.server for f in g}), g[0].id))
        chosen = []
        for group in order[:most]:
            example = min(group, key=lambda f: SEVERITIES.index(f.severity))
            chosen.append(Problem(example, tuple(dict.fromkeys(f.server for f in group))))
        return chosen

    def money(self, servers: Iterable[ServerResult]) -> Money:
        """What these servers cost a month, by currency."""
        amounts: dict[str, float] = defaultdict(float)
        unpriced = 0
        for server in servers:
            price = server.order.price_per_hour if server.order else None
            if price is None or server.order is None or not server.order.currency:
                unpriced += 1
            else:
                amounts[server.order.currency] += price * HOURS_PER_MONTH
        return Money(dict(sorted(amounts.items())), unpriced)

    def shown_in_charts(self, has: Callable[[ServerResult], bool], most: int) -> list[ServerResult]:
        """The few servers a chart can hold: the worst, and beside them a good one to compare with."""
        fitting = [server for server in worst_first(self.servers) if has(server)]
        good = [server for server in fitting if server.verdict == "accept"]
        bad = [server for server in fitting if server.verdict != "accept"]
        chosen = [*bad[: most - min(len(good), max(1, most // 3))], *good]
        return chosen[:most]


def _worst(findings: Iterable[Finding]) -> int:
    return min(SEVERITIES.index(finding.severity) for finding in findings)


def worst_first(servers: Iterable[ServerResult]) -> list[ServerResult]:
    """Servers by verdict (reject, incomplete, review, accept), then by how much was found, then by name."""
    return sorted(servers, key=lambda s: (VERDICTS.index(s.verdict), -len(s.roots), s.name))


def with_consequences(server: ServerResult) -> Iterator[tuple[Finding, bool]]:
    """The server's findings, worst root first, each root followed by what it explains (True)."""
    roots = sorted(server.roots, key=lambda f: SEVERITIES.index(f.severity))
    known = {finding.key for finding in server.findings}
    follow: dict[str, list[Finding]] = defaultdict(list)
    for finding in server.findings:
        if finding.root is not None:
            follow[finding.root].append(finding)
    for root in roots:
        yield root, False
        yield from _below(root, follow, {root.key})
    for finding in server.findings:
        if finding.root is not None and finding.root not in known:
            yield finding, False


def _below(root: Finding, follow: dict[str, list[Finding]], met: set[str]) -> Iterator[tuple[Finding, bool]]:
    for finding in follow.get(root.key, ()):
        if finding.key not in met:
            met.add(finding.key)
            yield finding, True
            yield from _below(finding, follow, met)
