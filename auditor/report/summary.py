"""What a summary says, whatever it is printed on: sheet or page."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.judge.texts import N_
from auditor.report.show import show
from auditor.report.view import Problem, Report
from auditor.runs import LOOSE

VERDICT_MEANINGS = {
    "reject": N_("do not pay before it is put right or replaced"),
    "incomplete": N_("a reading that the verdict needs is missing: repeat the audit"),
    "review": N_("usable, but something must be explained or put right before paying in full"),
    "accept": N_("as ordered, as far as it was measured"),
}
_NAMES_SHOWN = 6
_STAKES = (
    (N_("At stake a month"), N_("{money} for rejected servers"), ("reject",)),
    (N_("In question a month"), N_("{money} for servers to review or audit again"), ("incomplete", "review")),
    (N_("Accepted a month"), N_("{money} for accepted servers"), ("accept",)),
)


def what_was_audited(report: Report) -> Iterator[tuple[str, str]]:
    """Per run: the inventory, and what was audited of it when; then by which version."""
    texts = report.texts
    for part in report.parts:
        judgement = part.judgement
        count, gpus = len(judgement.servers), sum(len(server.gpus) for server in judgement.servers)
        if judgement.run == LOOSE:
            servers = texts.n(N_("{count:int} server"), N_("{count:int} servers"), count)
            told = texts._(N_("{count}, {gpus:int} GPUs found"), count=servers, gpus=gpus)
            title = texts._(N_("Record files"))
        else:
            found = N_("{count:int} of {of:int} servers of the inventory, {gpus:int} GPUs found")
            told = texts._(found, count=count, of=judgement.of_inventory or count, gpus=gpus)
            title = show(judgement.inventory, 60)
        period = report.period(judgement)
        if period:
            told += texts._(N_("; {start} to {end} (UTC)"), start=period[0], end=period[1])
        yield title, told
    if not report.servers:
        yield texts._(N_("Servers")), texts._(N_("No server was audited: the inventory is empty."))
    version = report.parts[0].judgement.version if report.parts else ""
    runs = ", ".join(show(part.judgement.run, 40) for part in report.parts if part.judgement.run != LOOSE)
    made = N_("auditor {version}, run {runs}; how stands on the sheet Method")
    loose = N_("auditor {version}; how stands on the sheet Method")
    yield texts._(N_("Made by")), texts._(made if runs else loose, version=version, runs=runs)


def money_lines(report: Report) -> Iterator[tuple[str, str]]:
    """What is at stake, in question and accepted a month, and the cheapest good choice: title, sentence."""
    texts = report.texts
    for title, told, verdicts in _STAKES:
        money = report.money(*verdicts)
        if money.unpriced and not money.per_month:
            one, many = (
                N_("not known: no price for {count:int} server"),
                N_("not known: no price for {count:int} servers"),
            )
            yield texts._(title), texts.n(one, many, money.unpriced)
        else:
            yield texts._(title), texts._(told, money=report.money_text(money))
    best = report.cheapest()
    for currency, (provider, server) in best.items():
        cost = server.cost
        value = texts._(
            N_("{server} of {provider}: {cost} per delivered PFLOP-hour (bf16)"),
            server=report.name(server),
            provider=show(provider),
            cost=texts.money(cost.per_pflop_hour or 0.0, currency) if cost else "",
        )
        yield texts._(N_("Cheapest good choice")), value
    if not best:
        reason = N_("none: no accepted server has both a price and a measured bf16 rate")
        yield texts._(N_("Cheapest good choice")), texts._(reason)
    if len({s.order.currency for s in report.servers if s.order and s.order.currency}) > 1:
        note = N_("Amounts in different currencies stand side by side; they are never added up or converted.")
        yield texts._(N_("Currencies")), texts._(note)


def sentence(report: Report, problem: Problem) -> str:
    """One problem in a sentence: how many servers, what, and the first example."""
    said, texts = report.rendered(problem.example), report.texts
    names = ", ".join(show(name, 40) for name in problem.servers[:_NAMES_SHOWN])
    if len(problem.servers) > _NAMES_SHOWN:
        names += " …"
    return texts._(
        N_("{title} ({count}: {names}). Seen: {observed}. Expected: {expected}."),
        title=said.title,
        count=texts.n(N_("{count:int} server"), N_("{count:int} servers"), len(problem.servers)),
        names=names,
        observed=said.observed.rstrip(".。"),
        expected=said.expected.rstrip(".。"),
    )
