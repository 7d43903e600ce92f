"""What is written to a provider: the Dispute sheet and the page of one server say the same."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import Finding, Judgement, ServerResult
from auditor.judge.texts import N_
from auditor.report.ordered import order_text
from auditor.report.show import show
from auditor.report.view import Report, worst_first
from auditor.report.words import span
from auditor.runs import LOOSE

_TO_DISPUTE = ("reject", "review")
_MOST_SERVERS = 500
_MOST_FOLLOWING = 10


def letters(report: Report, only: str | None = None) -> list[tuple[str, list[str]]]:
    """Per run with something to dispute: its subject line and its paragraphs. `only` is one server's name."""
    made = []
    for part in report.parts:
        servers = [s for s in worst_first(part.judgement.servers) if disputed(s) and only in (None, s.name)]
        if servers:
            made.append((_subject(report, part.judgement), list(_paragraphs(report, part.judgement, servers))))
    return made


def disputed(server: ServerResult) -> list[Finding]:
    """The root findings that are put before the provider."""
    return [finding for finding in server.roots if finding.severity in _TO_DISPUTE]


def _subject(report: Report, judgement: Judgement) -> str:
    if judgement.run == LOOSE:
        return report.texts._(N_("Acceptance audit of rented GPU servers"))
    return report.texts._(
        N_("Acceptance audit of rented GPU servers: {inventory}, run {run}"),
        inventory=show(judgement.inventory),
        run=show(judgement.run),
    )


def _paragraphs(report: Report, judgement: Judgement, servers: list[ServerResult]) -> Iterator[str]:
    texts = report.texts
    yield texts._(N_("Dear Sir or Madam,"))
    period = report.period(judgement)
    opening = N_(
        "we audited {count} rented from you ({period}) with auditor {version}. "
        "On {bad} what was delivered differs from what was ordered, or is slower than such servers are elsewhere. "
        "The facts, server by server:"
    )
    undated = N_(
        "we audited {count} rented from you with auditor {version}. "
        "On {bad} what was delivered differs from what was ordered, or is slower than such servers are elsewhere. "
        "The facts, server by server:"
    )
    yield texts._(
        opening if period else undated,
        count=_count(report, len(judgement.servers)),
        bad=_count(report, len(servers)),
        period=period,
        version=judgement.version,
    )
    for number, server in enumerate(servers[:_MOST_SERVERS], 1):
        yield from _server(report, number, server)
    if len(servers) > _MOST_SERVERS:
        yield texts._(
            N_("… and {count:int} more servers, listed on the sheet Findings."), count=len(servers) - _MOST_SERVERS
        )
    yield texts._(
        N_(
            "Please also send the log of the last 30 days for the GPUs named above, tell us whether these servers "
            "were returned by another customer before, and who resets the GPUs between customers."
        )
    )
    yield texts._(
        N_(
            "Please answer with a date for the repair, the replacement or a corrected price. The complete records are "
            "kept; their SHA-256 sums stand above, so that both sides can show that they speak of the same data. "
            "How every figure was measured is published with the auditor (docs/method.md)."
        )
    )


def _server(report: Report, number: int, server: ServerResult) -> Iterator[str]:
    texts = report.texts
    lines = [
        texts._(
            N_("{number:int}. Server {server}, ordered: {order}"),
            number=number,
            server=report.name(server),
            order=order_text(texts, server.order),
        )
    ]
    if server.started:
        lines.append(texts._(N_("Measured at {time} (UTC)."), time=report.when(server.started)))
    if server.sha256:
        lines.append(texts._(N_("SHA-256 of the record: {sum}"), sum=server.sha256))
    yield "\n".join(lines)
    for group in _alike(disputed(server)):
        roots = {finding.key for finding in group}
        follow = [f for f in server.findings if f.root in roots and f.severity in _TO_DISPUTE]
        yield _fact(report, group, follow)


def _fact(report: Report, group: list[Finding], follow: list[Finding]) -> str:
    texts, said = report.texts, report.rendered(group[0])
    subjects = [finding.subject for finding in group if finding.subject != "server"]
    where = f" ({show(span(subjects), 400)})" if subjects else ""
    lines = [f"• {said.title}{where}"]
    for finding in group:
        one = report.rendered(finding)
        before = f"{show(finding.subject)}: " if len(group) > 1 else ""
        lines.append("   " + texts._(N_("{where}Measured: {observed}"), where=before, observed=one.observed))
    lines.append("   " + texts._(N_("Expected: {expected}"), expected=said.expected))
    for finding in follow[:_MOST_FOLLOWING]:
        one = report.rendered(finding)
        where = "" if finding.subject == "server" else f" ({show(finding.subject)})"
        result = texts._(N_("{observed}; expected {expected}"), observed=one.observed, expected=one.expected)
        lines.append(f"   ↳ {one.title}{where}: {result}")
    if len(follow) > _MOST_FOLLOWING:
        lines.append("   ↳ " + texts._(N_("and {count:int} more"), count=len(follow) - _MOST_FOLLOWING))
    uuids = ", ".join(dict.fromkeys(show(finding.uuid) for finding in group if finding.uuid))
    if uuids:
        lines.append("   " + texts._(N_("GPU UUID: {uuids}"), uuids=uuids))
    if said.ask:
        lines.append("   " + texts._(N_("We ask: {ask}"), ask=said.ask))
    return "\n".join(lines)


def _alike(findings: list[Finding]) -> Iterator[list[Finding]]:
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.id, []).append(finding)
    yield from groups.values()


def _count(report: Report, count: int) -> str:
    return report.texts.n(N_("{count:int} server"), N_("{count:int} servers"), count)
