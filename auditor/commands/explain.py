"""`auditor explain`: from a verdict down to readings, expectations and sources; or what one finding id means."""

from __future__ import annotations

from pathlib import Path

import click

from auditor import assembly
from auditor.errors import UserError
from auditor.finding import Evidence, Finding, ServerResult
from auditor.judge import rule
from auditor.report.show import show
from auditor.report.texts import render
from auditor.report.units import reading_text


@click.command("explain")
@click.argument("what")
@click.argument("server", required=False)
@click.option("--lang", default="en", help="Language of the sentences: en or zh.")
def command(what: str, server: str | None, lang: str) -> None:
    """Explain a finding id (WHAT), or how SERVER of the run folder WHAT came to its verdict."""
    if server is None:
        _finding_id(what)
    else:
        _server(Path(what), server, lang)


def _finding_id(id: str) -> None:
    text = rule.texts().get(id)
    if text is None:
        near = [known for known in sorted(rule.texts()) if id.split("-")[0] in known]
        hint = f"near it: {', '.join(near)}" if near else "a run's report lists the ids"
        raise UserError(
            f"explain: no finding is called {id!r}; {hint}. To explain a server: auditor explain RUN SERVER."
        )
    click.echo(f"{id}: {text.title}")
    click.echo(f"  decided by   {' '.join(rule.docstring(id).split())}")
    click.echo(f"  seen         {text.observed}")
    click.echo(f"  expected     {text.expected}")
    click.echo(f"  means        {text.meaning}")
    click.echo(f"  ask          {text.ask or 'nothing: this is for your information'}")
    explained = rule.causes().get(id, ())
    if explained:
        click.echo(f"  explained by {', '.join(dict.fromkeys(explained))}")
    effects = sorted(effect for effect, ids in rule.causes().items() if id in ids)
    if effects:
        click.echo(f"  explains     {', '.join(effects)}")


def _server(run: Path, name: str, lang: str) -> None:
    judgement = assembly.judge_run(run).judgement
    result = next((one for one in judgement.servers if one.name == name), None)
    if result is None:
        known = ", ".join(one.name for one in judgement.servers[:20])
        raise UserError(f"explain: {run} has no server {show(name)!r}; it has {known}.")
    click.echo(f"{name}: {result.verdict}{_why(result)}")
    if result.reason:
        click.echo(f"  {show(result.reason)}")
    for finding in result.roots:
        _print(finding, lang, "  ")
        for effect in result.findings:
            if effect.root == finding.key:
                _print(effect, lang, "      ", as_effect=True)


def _why(result: ServerResult) -> str:
    reasons = {
        "reject": "a finding rejects it",
        "incomplete": f"missing: {', '.join(result.missing) or 'a record'}",
        "review": "a finding asks for a person's eyes",
        "accept": "nothing at review or above, nothing needed is missing",
    }
    return f" ({'from text alone; ' if result.text_only else ''}{reasons[result.verdict]})"


def _print(finding: Finding, lang: str, indent: str, as_effect: bool = False) -> None:
    words = render(finding, lang)
    lead = "therefore " if as_effect else ""
    click.echo(
        f"{indent}{lead}{finding.severity}: {words.title}  [{finding.id}, {finding.category}, {finding.subject}]"
    )
    click.echo(f"{indent}  seen      {words.observed}")
    click.echo(f"{indent}  expected  {words.expected}")
    click.echo(f"{indent}  basis     {finding.basis}: {show(finding.source, 400)}")
    if not as_effect:
        click.echo(f"{indent}  means     {words.meaning}")
        if words.ask:
            click.echo(f"{indent}  ask       {words.ask}")
    for evidence in finding.evidence[:6]:
        click.echo(f"{indent}  reading   {_reading(evidence)}")
    if len(finding.evidence) > 6:
        click.echo(f"{indent}  reading   … and {len(finding.evidence) - 6} more")


def _reading(evidence: Evidence) -> str:
    conditions = ", ".join(f"{key} {value}" for key, value in evidence.conditions.items())
    value = reading_text(evidence.metric, evidence.value) or "no value"
    method = f", method {evidence.method}" if evidence.method else ""
    within = f" ({conditions})" if conditions else ""
    return show(f"{evidence.metric} of {evidence.subject}{within} = {value} [{evidence.source}{method}]", 400)
