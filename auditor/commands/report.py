"""`auditor report`: make the report of run folders again, or of a heap of records that came another way."""

from __future__ import annotations

import difflib
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from auditor import order as orders
from auditor import report
from auditor.assembly import Judged, judge_heap, judge_run
from auditor.errors import UserError
from auditor.finding import Judgement
from auditor.report.redact import redacted
from auditor.report.terminal import print_judgement

FAIL_ON = ("reject", "review", "incomplete")
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="RUN… | FILES…", type=click.Path(path_type=Path))
@click.option("--order", metavar="ORDER.yml|TEXT", help="What was ordered, for FILES; a run has its own orders.")
@click.option("--lang", metavar="en|zh", help="Language of every text; the run's own by default.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder; default RUN/report or ./report.")
@click.option("--xlsx", type=_FILE, help="The workbook, to this file.")
@click.option("--html", is_flag=True, help="The page, into the folder.")
@click.option("--server", metavar="NAME", help="With --html: the page of this server alone, to send to its provider.")
@click.option("--json", "as_json", is_flag=True, help="The JSON document on stdout, instead of the lines for people.")
@click.option("--junit", type=_FILE, help="JUnit XML, to this file.")
@click.option("--prometheus", type=_FILE, help="Textfile for node_exporter, to this file.")
@click.option("--csv", type=_FILE, help="All readings as CSV, to this file.")
@click.option("--redact", is_flag=True, help="Replace addresses, host names, serials and UUIDs.")
@click.option("--fail-on", type=click.Choice(FAIL_ON), default="reject", show_default=True, help="Exit 1 from here on.")
@click.pass_context
def command(
    ctx: click.Context,
    sources: tuple[Path, ...],
    order: str | None,
    lang: str | None,
    out: Path | None,
    xlsx: Path | None,
    html: bool,
    server: str | None,
    as_json: bool,
    junit: Path | None,
    prometheus: Path | None,
    csv: Path | None,
    redact: bool,
    fail_on: str,
) -> None:
    """Make the report of run folders, side by side, or of record files.

    Without a format: workbook and page, into RUN/report. Exit codes: 1 a server reaches --fail-on, else 3 a server is
    incomplete, else 0; 2 misuse or unreadable input.
    """
    if server is not None and not html:
        raise UserError("--server makes a page of one server: give --html with it.")
    judged = judge_sources(sources, order)
    language = lang or next((j.run.info.lang for j in judged if j.run and j.run.info.lang), None) or "en"
    folder = out or (judged[0].run.folder / "report" if judged[0].run else Path("report"))
    asked = {"xlsx": xlsx, "junit": junit, "prometheus": prometheus, "csv": csv}
    targets = {name: path for name, path in asked.items() if path is not None}
    if html:
        targets["html"] = folder / _name(f"server-{server}.html" if server else "report.html", redact)
    if not targets and not as_json:
        targets = {"xlsx": folder / _name("report.xlsx", redact), "html": folder / _name("report.html", redact)}
    written = _write(judged, targets, language, redact, server)
    if as_json:
        _to_stdout(judged, language, redact)
    else:
        console = Console(highlight=False)
        for one in redacted(judged) if redact else judged:
            print_judgement(one, console, language)
    for one in judged:
        for name in one.unanswered:
            click.echo(_unanswered(name, one, redact), err=True)
    for path in written:
        click.echo(str(path), err=as_json)
    ctx.exit(exit_code([one.judgement for one in judged], fail_on))


def judge_sources(sources: Sequence[Path], order: str | None) -> list[Judged]:
    """Run folders are judged one by one, record files together.

    Raises:
        UserError: a source is neither, or an order was given for a run that has its own.
    """
    folders = [path for path in sources if path.is_dir()]
    files = [path for path in sources if not path.is_dir()]
    if folders and order is not None:
        raise UserError("--order: a run folder has its own orders.json; give --order only with record files.")
    missing = next((path for path in files if not path.exists()), None)
    if missing is not None:
        raise UserError(f"{missing}: no such file. Name a run folder (results/INVENTORY/TIME) or record files.")
    judged = [judge_run(path) for path in folders]
    if files:
        judged.append(judge_heap(files, orders.load(order) if order is not None else None))
    return judged


def exit_code(judgements: Sequence[Judgement], fail_on: str) -> int:
    """1 when a server reaches `fail_on`, else 3 when one is incomplete, else 0."""
    verdicts = {server.verdict for judgement in judgements for server in judgement.servers}
    failing = {"reject", "review"} if fail_on == "review" else {"reject"}
    if verdicts & failing:
        return 1
    return 3 if "incomplete" in verdicts else 0


def _unanswered(name: str, judged: Judged, redact: bool) -> str:
    """The warning about a server that the orders name and no record is of."""
    if redact:
        return "warning: a server was ordered, but no record is of it: its row says so."
    near = difflib.get_close_matches(name, [server for server in judged.paths if server != name], 1)
    meant = f" Was {near[0]} meant?" if near else " Give its record too, or take it out of the orders."
    return f"warning: {name} was ordered, but no record is of it: its row says so.{meant}"


def _name(name: str, redact: bool) -> str:
    """A redacted file never takes the place of the full one."""
    return name.replace(".", "-redacted.", 1) if redact else name


def _write(
    judged: Sequence[Judged], targets: dict[str, Path], lang: str, redact: bool, server: str | None
) -> list[Path]:
    try:
        return report.produce(judged, targets, lang, redact, server)
    except OSError as error:
        where = error.filename or next(iter(targets.values()))
        raise UserError(f"{where}: the report cannot be written there ({error.strerror}).") from None


def _to_stdout(judged: Sequence[Judged], lang: str, redact: bool) -> None:
    """By way of a file: a thousand servers' readings do not have to be in memory together."""
    with tempfile.TemporaryDirectory() as folder:
        (path,) = report.produce(judged, {"json": Path(folder) / "report.json"}, lang, redact)
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
