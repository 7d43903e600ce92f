"""`auditor triage`: judge what other tools printed, before there is access to the server."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from auditor import __version__
from auditor import order as orders
from auditor.errors import UserError
from auditor.finding import Judgement
from auditor.judge import ServerInput, judge
from auditor.judge.texts import N_
from auditor.order import Orders
from auditor.readers import bundle, machines, text
from auditor.readers.machines import Machine, Output
from auditor.readers.sections import read, sections
from auditor.records import Record
from auditor.report.formats import json as formats
from auditor.report.terminal import print_judgement
from auditor.report.texts import load
from auditor.runs import SERVER_NAME, Run
from auditor.showing import show

FORGEABLE = N_(
    "This is text: whoever sent it could have written or changed any line of it. Nothing here is accepted or rejected; "
    "measure the server before you pay."
)
CLEAN = N_("nothing wrong in what was sent; it proves nothing about what was not sent")
NOTHING = N_("nothing could be read in it")


@dataclass
class Triage:
    """What came of the files: a judgement, the record of each server, and what could not be read."""

    judgement: Judgement
    records: dict[str, Record]
    unreadable: dict[str, list[dict[str, str | int]]]
    files: dict[str, list[str]] = field(default_factory=dict)
    run: Run | None = None

    def record(self, name: str) -> Record | None:
        """One server's record."""
        return self.records.get(name)


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILES…", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--order", metavar="ORDER.yml|TEXT", help='What was ordered, for example "8x A100 SXM".')
@click.option("--server", metavar="NAME", help="All files are of this one server.")
@click.option("--each", is_flag=True, help="Every file is of a server of its own.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option("--lang", metavar="en|zh", default="en", show_default=True, help="Language of every text.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    order: str | None,
    server: str | None,
    each: bool,
    as_json: bool,
    lang: str,
) -> None:
    """Judge pasted output of nvidia-smi, dmesg, lspci, nccl-tests, dcgmi and kin.

    FILES are texts, folders or zip archives, or - for standard input. Which tool printed what is told by content.
    Exit codes: 1 never (text rejects nothing), 3 for every text judged, 2 for misuse.
    """
    if server and each:
        raise click.UsageError("--server says that all files are of one server, --each that none are: give one of them")
    judged = triage(list(paths), orders.load(order) if order else None, server=server, each=each)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(document(judged, lang)), indent=1).decode())
    else:
        _print(judged, Console(highlight=False), lang)
    ctx.exit(3)


def triage(paths: list[Path], given: Orders | None, *, server: str | None = None, each: bool = False) -> Triage:
    """Read and judge the files.

    Raises:
        UserError: a path does not exist, or there is no file below it.
    """
    with _collector_at_rest():
        return _triage(paths, given, server, each)


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Millions of readings without a cycle among them are not walked again and again while they grow."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _triage(paths: list[Path], given: Orders | None, server: str | None, each: bool) -> Triage:
    refused: list[dict[str, str | int]] = []
    outputs: list[Output] = []
    for file in _files(paths):
        if file.refused:
            refused.append({"file": file.name, "line": 0, "why": file.refused})
            outputs.append(Output(file.name, file.folder, "none", None, machines.NOTHING))
        else:
            outputs += _outputs(file)
    if not outputs:
        raise UserError(
            f"{', '.join(map(str, paths))}: holds no file. Name files, folders or archives of pasted output."
        )
    found = machines.machines(outputs, together=not each, one=server is not None)
    named = dict(_named(found, server))
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    records = {name: machines.record(machine, name, __version__, started) for name, machine in named.items()}
    given = given or Orders()
    judgement = judge(
        lambda: (
            ServerInput(name, given.for_server(name), record=record, text_only=True) for name, record in records.items()
        ),
        run="triage",
        inventory="texts",
        version=__version__,
    )
    unreadable = {name: list(_unreadable(machine, refused)) for name, machine in named.items()}
    files = {name: list(dict.fromkeys(output.file for output in machine.outputs)) for name, machine in named.items()}
    return Triage(judgement, records, unreadable, files)


def _files(paths: list[Path]) -> Iterator[bundle.File]:
    for path in paths:
        if str(path) == "-":
            yield bundle.of_bytes("stdin", "", sys.stdin.buffer.read(bundle.MAX_FILE_BYTES + 1))
        else:
            yield from bundle.files([path])


def _outputs(file: bundle.File) -> Iterator[Output]:
    """The outputs in one file; a file in which nothing is known still stands as one, with its reason."""
    found = sections(text.clean(text.decode(file.data)))
    for section in found:
        kind = section.reader.KIND if section.reader else "none"
        yield Output(file.name, file.folder, kind, section.host, read(section))
    if not found:
        yield Output(file.name, file.folder, "none", None, machines.EMPTY)


def _named(found: list[Machine], server: str | None) -> Iterator[tuple[str, Machine]]:
    """A name for each: its own host name, else its file's; made different where two are the same."""
    taken: set[str] = set()
    for machine in found:
        name = server or machine.host or Path(machine.outputs[0].file.split("!")[-1]).stem
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip("._-")[:50] or "server"
        if not SERVER_NAME.fullmatch(name):
            name = "server"
        number, unique = 2, name
        while unique in taken:
            unique, number = f"{name}-{number}", number + 1
        taken.add(unique)
        yield unique, machine


def _unreadable(machine: Machine, refused: list[dict[str, str | int]]) -> Iterator[dict[str, str | int]]:
    for output in machine.outputs:
        yield from (one for one in refused if one["file"] == output.file)
        for row in output.parsed.unreadable:
            yield {"file": output.file, "line": row.line, "why": row.why}


def document(judged: Triage, lang: str = "en") -> dict[str, Any]:
    """The JSON document of `--json`: docs/schema/report-1.json, with what could not be read and what text can prove."""
    return formats.document(judged, lang, judged.unreadable, judged.files, FORGEABLE)


def _print(judged: Triage, console: Console, lang: str) -> None:
    texts = load(lang)
    print_judgement(judged, console, lang)
    for server in judged.judgement.servers:
        rows = judged.unreadable[server.name]
        if server.verdict == "incomplete" and not any(f.severity == "review" for f in server.findings):
            said = texts._(CLEAN if judged.records[server.name].readings else NOTHING)
            console.print(Text(f"    {show(server.name)}: {said}"), soft_wrap=True)
        for row in rows[:20]:
            place = f"{show(row['file'])}:{row['line']}" if row["line"] else show(row["file"])
            why = texts._(N_("{place}: not read: {why}"), place=place, why=texts._(show(row["why"])))
            console.print(Text(f"    {why}", style="dim"), soft_wrap=True)
        if len(rows) > 20:
            more = N_("… and {count:int} more lines that were not read (--json lists them)")
            console.print(Text(f"    {texts._(more, count=len(rows) - 20)}"))
    console.print(Text(texts._(FORGEABLE), style="yellow"), soft_wrap=True)
