"""`auditor explain`: from a verdict down to readings, expectations and sources; or what one finding id means."""

from __future__ import annotations

from pathlib import Path

import click

from auditor import assembly
from auditor.errors import UserError
from auditor.finding import Evidence, Finding, ServerResult
from auditor.judge import policy, rule
from auditor.judge.texts import N_
from auditor.order import shown
from auditor.report.show import show, width
from auditor.report.texts import LANGUAGES, Texts, load, render
from auditor.report.units import reading_text
from auditor.report.words import missing_text, reason_text, word

_LABEL_WIDTH = 13
_SHORT_WIDTH = 10


@click.command("explain")
@click.argument("what")
@click.argument("server", required=False)
@click.option("--lang", type=click.Choice(LANGUAGES), default="en", show_default=True, help="Language of every text.")
def command(what: str, server: str | None, lang: str) -> None:
    """Explain a finding id (WHAT), or how SERVER of the run folder WHAT came to its verdict."""
    texts = load(lang)
    if server is None:
        _finding_id(what, texts)
    else:
        _server(Path(what), server, texts)


def _finding_id(id: str, texts: Texts) -> None:
    text = rule.texts().get(id)
    if text is None:
        near = [known for known in sorted(rule.texts()) if id.split("-")[0] in known]
        hint = f"near it: {', '.join(near)}" if near else "a run's report lists the ids"
        raise UserError(
            f"explain: no finding is called {id!r}; {hint}. To explain a server: auditor explain RUN SERVER."
        )
    click.echo(f"{id}: {texts.named(text.title)}")
    for told in rule.docstrings(id):
        _line("  ", texts._(N_("decided by")), texts.named(" ".join(told.split())))
    _line("  ", texts._(N_("seen")), texts.named(text.observed))
    for other in text.variants.values():
        if other.observed != text.observed:
            _line("  ", texts._(N_("or seen")), texts.named(other.observed))
    _line("  ", texts._(N_("expected")), texts.named(text.expected))
    for name in rule.lines_used(id):
        line = getattr(policy.load().lines, name)
        _line("  ", texts._(N_("line")), f"{name} {line.value:g}: {texts._(line.source)}")
    _line("  ", texts._(N_("means")), texts.named(text.meaning))
    ask = texts.named(text.ask) if text.ask else texts._(N_("nothing: this is for your information"))
    _line("  ", texts._(N_("ask")), ask)
    explained = rule.causes().get(id, ())
    if explained:
        _line("  ", texts._(N_("explained by")), ", ".join(dict.fromkeys(explained)))
    effects = sorted(effect for effect, ids in rule.causes().items() if id in ids)
    if effects:
        _line("  ", texts._(N_("explains")), ", ".join(effects))


def _line(indent: str, label: str, said: str, columns: int = _LABEL_WIDTH) -> None:
    """A label, blanks up to its column, and what is said of it."""
    click.echo(f"{indent}{label}{' ' * max(1, columns - width(label))}{said}")


def _server(run: Path, name: str, texts: Texts) -> None:
    judgement = assembly.judge_run(run).judgement
    result = next((one for one in judgement.servers if one.name == name), None)
    if result is None:
        known = ", ".join(one.name for one in judgement.servers[:20])
        raise UserError(f"explain: {run} has no server {show(name)!r}; it has {known}.")
    click.echo(f"{name}: {word(texts, result.verdict)}{_why(result, texts)}")
    if result.reason:
        click.echo(f"  {reason_text(texts, result.reason)}")
    said = texts._(N_("nothing was ordered: no order was given")) if result.order is None else shown(result.order)
    _line("  ", texts._(N_("ordered")), show(said, 400))
    for finding in result.roots:
        _print(finding, texts, "  ")
        for effect in result.findings:
            if effect.root == finding.key:
                _print(effect, texts, "      ", as_effect=True)


def _why(result: ServerResult, texts: Texts) -> str:
    reasons = {
        "reject": texts._(N_("a finding rejects it")),
        "incomplete": texts._(N_("missing: {what}"), what=missing_text(texts, result.missing or ("record",))),
        "review": texts._(N_("a finding asks for a person's eyes")),
        "accept": texts._(N_("nothing at review or above, nothing needed is missing")),
    }
    alone = texts._(N_("from text alone; ")) if result.text_only else ""
    return f" ({alone}{reasons[result.verdict]})"


def _print(finding: Finding, texts: Texts, indent: str, as_effect: bool = False) -> None:
    words = render(finding, texts)
    lead = texts._(N_("therefore ")) if as_effect else ""
    facts = f"[{finding.id}, {word(texts, finding.category)}, {finding.subject}]"
    click.echo(f"{indent}{lead}{word(texts, finding.severity)}: {words.title}  {facts}")
    inner = indent + "  "
    _line(inner, texts._(N_("seen")), words.observed, _SHORT_WIDTH)
    _line(inner, texts._(N_("expected")), words.expected, _SHORT_WIDTH)
    source = texts._(show(finding.source, 400))
    basis = word(texts, finding.basis)
    basis = f"{basis}: {source}" if source != basis else basis
    _line(inner, texts._(N_("basis")), basis, _SHORT_WIDTH)
    if not as_effect:
        _line(inner, texts._(N_("means")), words.meaning, _SHORT_WIDTH)
        if words.ask:
            _line(inner, texts._(N_("ask")), words.ask, _SHORT_WIDTH)
    label = texts._(N_("reading"))
    for evidence in finding.evidence[:6]:
        _line(inner, label, _reading(evidence, texts), _SHORT_WIDTH)
    if len(finding.evidence) > 6:
        _line(inner, label, "… " + texts._(N_("and {count:int} more"), count=len(finding.evidence) - 6), _SHORT_WIDTH)


def _reading(evidence: Evidence, texts: Texts) -> str:
    conditions = ", ".join(f"{key} {value}" for key, value in evidence.conditions.items())
    value = reading_text(evidence.metric, evidence.value) or texts._(N_("no value"))
    method = ", " + texts._(N_("method {number:int}"), number=evidence.method) if evidence.method else ""
    within = f" ({conditions})" if conditions else ""
    of = texts._(N_("{metric} of {subject}"), metric=evidence.metric, subject=evidence.subject)
    return show(f"{of}{within} = {value} [{evidence.source}{method}]", 400)
