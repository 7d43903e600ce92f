"""After the measuring: judge the run folder, tell the person, write what was asked for, choose the exit code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.text import Text

from auditor import catalog, report
from auditor.assembly import Judged, judge_run
from auditor.commands.report import exit_code
from auditor.errors import UserError
from auditor.quick import remedy
from auditor.report.terminal import print_judgement
from auditor.report.texts import render
from auditor.showing import show


class Ending(msgspec.Struct, frozen=True):
    """What the person wants at the end."""

    fail_on: str = "reject"
    lang: str = "en"
    json: bool = False
    xlsx: Path | None = None


def finish(folder: Path, ssh: Mapping[str, str | None], ending: Ending, console: Console) -> int:
    """Judge and print; returns the exit code. `ssh` is how a person gets to each server, None for this machine."""
    judged = judge_run(folder)
    console.print()
    print_judgement(judged, console, ending.lang)
    _ask_the_provider(judged, ending.lang, console)
    _without_torch(judged, ssh, console)
    _write(judged, folder, ending, console)
    console.print(Text(f"run folder: {folder}", style="dim"), soft_wrap=True)
    return exit_code([judged.judgement], ending.fail_on)


def _ask_the_provider(judged: Judged, lang: str, console: Console) -> None:
    """What to send to the provider, once for each kind of finding."""
    asks: dict[str, None] = {}
    for server in judged.judgement.servers:
        for finding in server.roots:
            if finding.severity in ("reject", "review") and (text := render(finding, lang).ask):
                asks[text] = None
    if asks:
        console.print(Text("\nAsk the provider:", style="bold"))
        for text in asks:
            console.print(Text(f"  • {text}"), soft_wrap=True)


def _without_torch(judged: Judged, ssh: Mapping[str, str | None], console: Console) -> None:
    for name, way in ssh.items():
        state = judged.run.states[name] if judged.run else None
        if state is None or state.reason != "no_torch":
            continue
        bringer, python = (str(state.details.get(key)) for key in ("bringer", "interpreter"))
        line = remedy.command(judged.record(name), bringer, python, catalog.load())
        said = f"\n{show(name)}: incomplete: no interpreter with torch. This brings one, then run the same again:"
        console.print(Text(said, style="bold"), soft_wrap=True)
        console.print(Text(f"  {remedy.over_ssh(way, line)}"), soft_wrap=True)


def _write(judged: Judged, folder: Path, ending: Ending, console: Console) -> None:
    targets: dict[str, Path] = {}
    if ending.xlsx:
        targets["xlsx"] = ending.xlsx
    if ending.json:
        targets["json"] = folder / "report" / "report.json"
    try:
        report.produce([judged], targets, ending.lang)
    except OSError as error:
        raise UserError(f"{error.filename or ending.xlsx}: the report cannot be written ({error.strerror}).") from None
    if ending.xlsx:
        console.print(Text(f"workbook: {ending.xlsx}", style="dim"), soft_wrap=True)
    if ending.json:
        click.echo(targets["json"].read_text(encoding="utf-8"), nl=False)
