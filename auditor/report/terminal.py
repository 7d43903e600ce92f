"""The report on a terminal: worst first, one line per server, one per finding."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console
from rich.text import Text

from auditor.finding import VERDICTS, ServerResult
from auditor.judge.texts import N_
from auditor.report.ordered import order_text
from auditor.report.show import show, width
from auditor.report.texts import Rendered, load
from auditor.report.view import Judged, Report, with_consequences, worst_first
from auditor.report.words import MARKS, reason_text, span, word

COLOURS = {
    "reject": "bold red",
    "incomplete": "bold magenta",
    "review": "bold yellow",
    "accept": "bold green",
    "advice": "cyan",
    "info": "dim",
}


def print_judgement(judged: Judged, console: Console, lang: str = "en", most_servers: int = 200) -> None:
    """Print verdicts and findings, worst first. Text from servers cannot steer the terminal (threat R12)."""
    report = Report([judged], load(lang))
    if report.warning:
        console.print(Text(report.warning, style="bold yellow"), soft_wrap=True)
    for server in worst_first(report.servers)[:most_servers]:
        _server(report, server, console)
    left = len(report.servers) - most_servers
    if left > 0:
        more = report.texts._(N_("… and {count:int} more servers, all in the report"), count=left)
        console.print(Text(more), soft_wrap=True)
    counts = report.verdicts()
    total = " · ".join(f"{counts[v]:,} {word(report.texts, v)}" for v in VERDICTS if counts[v])
    console.print(Text(total or report.texts._(N_("no server was audited")), style="bold"), soft_wrap=True)


def _server(report: Report, server: ServerResult, console: Console) -> None:
    texts = report.texts
    line = Text()
    verdict = f"{MARKS[server.verdict]} {word(texts, server.verdict)}"
    line.append(verdict + " " * max(1, 14 - width(verdict)), style=COLOURS[server.verdict])
    line.append(report.name(server), style="bold")
    found = f"{len(server.gpus)} × {show(server.model, 60)}" if server.gpus and server.model else ""
    ordered = order_text(texts, server.order)
    facts = [ordered if server.order is None else texts._(N_("ordered {order}"), order=ordered)]
    if found:
        facts.append(texts._(N_("found {found}"), found=found))
    if server.reason:
        facts.append(reason_text(texts, server.reason))
    line.append("  " + " · ".join(facts))
    console.print(line, soft_wrap=True)
    for (severity, follows, said), subjects in _alike(report, server).items():
        row = Text("    " + ("  ↳ " if follows else ""))
        row.append(f"{MARKS[severity]} {word(texts, severity)}: ", style=COLOURS[severity])
        where = span([show(subject) for subject in subjects if subject != "server"])
        row.append(f"{where}: {said.title}" if where else said.title)
        if said.expected and said.observed:
            row.append(" – ")
            row.append(
                texts._(
                    N_("expected {expected}, got {observed}"),
                    expected=said.expected.rstrip(".。"),
                    observed=said.observed.rstrip(".。"),
                )
            )
        console.print(row, soft_wrap=True)
    step = _next_step(server)
    if step:
        console.print(Text(f"    {MARKS['advice']} {texts._(step)}", style=COLOURS["advice"]), soft_wrap=True)


def _next_step(server: ServerResult) -> str | None:
    """What to do about a record that was refused; of a newer schema the reason says it."""
    refused = (server.reason or "").startswith("record refused: ")
    if not refused or "unsupported_version" in (server.reason or ""):
        return None
    return N_("Collect the record again, or ask who sent it for the whole, unaltered file.")


def _alike(report: Report, server: ServerResult) -> dict[tuple[str, bool, Rendered], list[str]]:
    """The findings in their order; what is said of several GPUs in the same words is said once."""
    groups: dict[tuple[str, bool, Rendered], list[str]] = {}
    for finding, follows in with_consequences(server):
        if finding.severity != "info":
            said = replace(report.rendered(finding), meaning="", ask="")
            groups.setdefault((finding.severity, follows, said), []).append(finding.subject)
    return groups
