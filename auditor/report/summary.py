"""What a summary says, whatever it is printed on: whom to pay, what it costs, whom to write to, what is not known."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from auditor.finding import SEVERITIES, VERDICTS, ServerResult
from auditor.judge.texts import N_
from auditor.report.costs import cheapest, kinds, per_hour, per_pflop_hour
from auditor.report.letter import disputed
from auditor.report.show import show
from auditor.report.unmeasured import Gap, Gaps
from auditor.report.view import HOURS_PER_MONTH, Money, Report
from auditor.report.words import MARKS, word
from auditor.runs import LOOSE

VERDICT_MEANINGS = {
    "reject": N_("Do not pay before it is put right or replaced."),
    "incomplete": N_("Audit again before you decide: a reading that the verdict needs is missing."),
    "review": N_("Usable, but something must be explained or put right before you pay in full."),
    "accept": N_("Pay: as ordered, as far as it was measured."),
}
_NAMES_SHOWN = 8
_FEW_NAMES = 3
_MOST_COSTS = 8
_MOST_GAPS = 5
_MOST_TITLES = 4


@dataclass(frozen=True)
class Line:
    """One line: what it is about, how many servers, an amount of money, what to know, and which servers."""

    title: str
    text: str
    servers: str = ""
    count: int | None = None
    amount: str = ""
    key: str | None = None  # the verdict or severity that colours it

    def marked(self) -> str:
        """The title, its symbol before it: a colour never stands alone."""
        return f"{MARKS[self.key]} {self.title}" if self.key else self.title


@dataclass(frozen=True)
class Section:
    """Some lines under a title; `amount` says what their amounts are, `more` names the sheet with all of it."""

    title: str
    lines: Sequence[Line]
    more: str
    amount: str = ""


def sections(report: Report, gaps: Gaps) -> list[Section]:
    """The questions a summary answers, in the order in which they are asked."""
    return [
        Section(N_("Whom to pay"), list(_decisions(report)), N_("Servers"), N_("A month")),
        Section(N_("Cost of delivered work"), list(_costs(report)), N_("Providers"), N_("A PFLOP-hour (bf16)")),
        Section(N_("Whom to write to, and what"), list(_letters(report)), N_("Dispute"), N_("A month")),
        Section(N_("The worst problems"), list(_problems(report)), N_("Findings")),
        Section(N_("What was not measured"), list(_not_measured(report, gaps)), N_("Not measured")),
    ]


def what_was_audited(report: Report) -> Iterator[tuple[str, str]]:
    """Per run: the inventory, and what was audited of it when; then by which version."""
    texts = report.texts
    for part in report.parts:
        judgement = part.judgement
        count, gpus = len(judgement.servers), sum(len(server.gpus) for server in judgement.servers)
        found = texts.n(N_("{count:int} GPU found"), N_("{count:int} GPUs found"), gpus)
        servers = texts.n(N_("{count:int} server"), N_("{count:int} servers"), count)
        of = judgement.of_inventory or count
        if judgement.run != LOOSE and of != count:
            servers = texts._(N_("{count:int} of {of:int} servers of the inventory"), count=count, of=of)
        found = texts._(N_("{servers}, {gpus}"), servers=servers, gpus=found)
        told = texts.strung(part for part in (found, report.period(judgement)) if part)
        yield report.place(judgement.inventory), told
    if not report.servers:
        yield texts._(N_("Servers")), texts._(N_("No server was audited: the inventory is empty."))
    version = report.parts[0].judgement.version if report.parts else ""
    runs = ", ".join(show(part.judgement.run, 40) for part in report.parts if part.judgement.run != LOOSE)
    made = N_("auditor {version}, run {runs}; how stands on the sheet Method")
    loose = N_("auditor {version}; how stands on the sheet Method")
    yield texts._(N_("Made by")), texts._(made if runs else loose, version=version, runs=runs)


def money_text(report: Report, money: Money) -> str:
    """The amounts side by side; servers without a price are counted, not guessed."""
    texts = report.texts
    if money.unpriced and not money.per_month:
        one, many = N_("not known: no price for {count:int} server"), N_("not known: no price for {count:int} servers")
        return texts.n(one, many, money.unpriced)
    parts = [texts.money(value, currency) for currency, value in money.per_month.items()]
    if money.unpriced:
        one, many = N_("{count:int} server without a price"), N_("{count:int} servers without a price")
        parts.append(texts.n(one, many, money.unpriced))
    return " + ".join(parts) or "0"


def _decisions(report: Report) -> Iterator[Line]:
    """The good ones first: what to do, what they cost a month, which they are."""
    texts = report.texts
    for verdict in reversed(VERDICTS):
        servers = [server for server in report.servers if server.verdict == verdict]
        unordered = sum(server.order is None for server in servers)
        told = texts._(VERDICT_MEANINGS[verdict])
        if verdict == "accept" and servers and unordered == len(servers):
            told = texts._(N_("Nothing speaks against it, as far as it was measured."))
        if unordered:
            one, many = (
                N_(" Without an order to hold it against: {count:int} server."),
                N_(" Without an order to hold them against: {count:int} servers."),
            )
            told += texts.n(one, many, unordered)
        yield Line(
            word(texts, verdict),
            told,
            _names(report, servers),
            len(servers),
            money_text(report, report.money(servers)) if servers else "",
            verdict,
        )
    rejected = [server for server in report.servers if server.verdict == "reject"]
    open_ = [server for server in report.servers if server.verdict in ("incomplete", "review")]
    in_question = texts._(
        N_("for rejected servers. In question, to review or audit again: {money} a month."),
        money=money_text(report, report.money(open_)),
    )
    at_stake = money_text(report, report.money(rejected))
    yield Line(texts._(N_("At stake a month")), in_question, count=len(rejected), amount=at_stake)
    if len({s.order.currency for s in report.servers if s.order and s.order.currency}) > 1:
        note = N_("Amounts in different currencies stand side by side; they are never added up or converted.")
        yield Line(texts._(N_("Currencies")), texts._(note))


def _costs(report: Report) -> Iterator[Line]:
    """Each provider's, model by model; then the cheapest good choice in each currency."""
    texts = report.texts
    found = list(kinds(report))
    for kind in found[:_MOST_COSTS]:
        cost, good, price = per_pflop_hour(kind.servers), per_pflop_hour(kind.accepted), per_hour(kind.servers)
        parts = [kind.model]
        if price is not None:
            hourly, monthly = texts.money(price, kind.currency), texts.money(price * HOURS_PER_MONTH, kind.currency)
            parts.append(texts._(N_("price {hourly} an hour, {monthly} a month"), hourly=hourly, monthly=monthly))
        if good is not None and len(kind.accepted) < len(kind.servers):
            alone = texts.money(good, kind.currency)
            parts.append(texts._(N_("accepted servers alone: {cost} per PFLOP-hour"), cost=alone))
        shown = texts.money(cost, kind.currency) if cost is not None else ""
        if not shown:
            shown = texts._(N_("no price given") if price is None else N_("not measured"))
        yield Line(report.place(kind.judgement.inventory), texts.strung(parts), "", len(kind.servers), shown)
    if len(found) > _MOST_COSTS:
        left = len(found) - _MOST_COSTS
        yield Line("…", texts._(N_("and {count:int} more, all on the sheet Providers"), count=left))
    best = cheapest(report)
    for currency, offers in best.items():
        provider, server = offers[0]
        offer = server.cost
        if offer is None or offer.per_pflop_hour is None:
            continue
        told = texts._(
            N_("{provider}: {gpus:int} × {model} for {hourly} an hour, {monthly} a month"),
            provider=report.place(provider),
            gpus=len(server.gpus),
            model=show(server.model or ""),
            hourly=texts.money(offer.price_per_hour, currency),
            monthly=texts.money(offer.price_per_hour * HOURS_PER_MONTH, currency),
        )
        names = _names(report, [one for _, one in offers])
        yield Line(
            texts._(N_("Cheapest good choice")), told, names, len(offers), texts.money(offer.per_pflop_hour, currency)
        )
    if not best:
        reason = N_("none: no accepted server has both a price and a measured bf16 rate")
        yield Line(texts._(N_("Cheapest good choice")), texts._(reason))


def _letters(report: Report) -> Iterator[Line]:
    """Per provider: about which servers, for what, and how much money hangs on it."""
    texts = report.texts
    written = False
    for part in report.parts:
        servers = [server for server in part.judgement.servers if disputed(server)]
        if servers:
            written = True
            ask = texts._(
                N_(
                    "{problems}. Ask for a date for the repair, the replacement or a corrected price: "
                    "the letter on the sheet Dispute is ready to send."
                ),
                problems=_titles(report, servers),
            )
            amount = money_text(report, report.money(servers))
            yield Line(report.place(part.judgement.inventory), ask, _names(report, servers), len(servers), amount)
        silent = [s for s in part.judgement.servers if any(f.id == "server-unreachable" for f in s.findings)]
        if silent:
            written = True
            told = texts._(N_("Ask whether these servers are up and let us in: they could not be reached."))
            amount = money_text(report, report.money(silent))
            yield Line(report.place(part.judgement.inventory), told, _names(report, silent), len(silent), amount)
    if not written:
        yield Line(texts._(N_("Nobody")), texts._(N_("No server has a finding to put before its provider.")))


def _titles(report: Report, servers: Iterable[ServerResult]) -> str:
    """What is disputed, worst first, each with its count of servers."""
    found: Counter[tuple[int, str]] = Counter()
    for server in servers:
        found.update({(SEVERITIES.index(f.severity), report.rendered(f).title) for f in disputed(server)})
    order = sorted(found.items(), key=lambda one: (one[0][0], -one[1], one[0][1]))
    shown = [f"{title} ({count:,})" if len(found) > 1 else title for (_, title), count in order[:_MOST_TITLES]]
    return report.texts.strung(shown) + (" …" if len(order) > _MOST_TITLES else "")


def _problems(report: Report) -> Iterator[Line]:
    """The three worst kinds of findings, each with its first example."""
    texts = report.texts
    by_name = {server.name: server for server in report.servers}
    problems = report.problems()
    for problem in problems:
        said = report.rendered(problem.example)
        told = texts._(
            N_("{title}. Seen: {observed}. Expected: {expected}."),
            title=said.title,
            observed=said.observed.rstrip(".。"),
            expected=said.expected.rstrip(".。"),
        )
        severity = problem.example.severity
        names = _names(report, [by_name[name] for name in problem.servers])
        yield Line(word(texts, severity), told, names, len(problem.servers), key=severity)
    if not problems:
        yield Line(texts._(N_("None")), texts._(N_("No server has a finding above information.")))


def _not_measured(report: Report, gaps: Gaps) -> Iterator[Line]:
    """What the verdicts miss first, then what is missing on most servers."""
    texts = report.texts
    found = gaps.sorted()
    for gap in found[:_MOST_GAPS]:
        names = _names(report, gap.servers, _NAMES_SHOWN if gap.needed else _FEW_NAMES)
        key = "incomplete" if gap.needed else None
        yield Line(gap.what(texts), _why(report, gap), names, len(gap.servers), key=key)
    if len(found) > _MOST_GAPS:
        left = len(found) - _MOST_GAPS
        yield Line("…", texts._(N_("and {count:int} more, all on the sheet Not measured"), count=left))
    if not found:
        yield Line(texts._(N_("Nothing")), texts._(N_("everything that applies was measured")))


def _why(report: Report, gap: Gap) -> str:
    needed = N_("needed for the verdict; {why}")
    return report.texts._(needed, why=gap.why(report.texts)) if gap.needed else gap.why(report.texts)


def _names(report: Report, servers: Sequence[ServerResult], most: int = _NAMES_SHOWN) -> str:
    """The first few by name, under their providers where there are several."""
    shown = servers[:most]
    left = len(servers) - len(shown)
    groups: dict[str, list[str]] = defaultdict(list)
    for server in shown:
        groups[report.provider_of(server) if report.several else ""].append(show(report.name(server), 40))
    told = "; ".join(f"{place}: {', '.join(names)}" if place else ", ".join(names) for place, names in groups.items())
    return told + (report.texts._(N_(" and {count:int} more"), count=left) if left else "")
