"""`auditor report`: make the report of a run folder again, or of a heap of records that came another way."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from auditor import order as orders
from auditor import report
from auditor.assembly import Judged, judge_heap, judge_run
from auditor.errors import UserError
from auditor.finding import Judgement
from auditor.report.terminal import print_judgement

FAIL_ON = ("reject", "review", "incomplete")


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="RUN… | FILES…", type=click.Path(path_type=Path))
@click.option(
    "--order", "order", metavar="ORDER.yml|TEXT", help="What was ordered, for FILES; a run has its own orders."
)
@click.option("--lang", metavar="en|zh", help="Language of every text; the run's own by default.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder to write into (default: RUN/report, else ./report)."
)
@click.option("--fail-on", type=click.Choice(FAIL_ON), default="reject", show_default=True, help="Exit 1 from here on.")
@click.pass_context
def command(
    ctx: click.Context, sources: tuple[Path, ...], order: str | None, lang: str | None, out: Path | None, fail_on: str
) -> None:
    """Make the report of one or several run folders, or of record files."""
    judged = judge_sources(sources, order)
    language = lang or next((j.run.info.lang for j in judged if j.run and j.run.info.lang), None) or "en"
    folder = out or (judged[0].run.folder / "report" if judged[0].run else Path("report"))
    console = Console(highlight=False)
    written = report.write(judged, folder, {"xlsx"}, language)
    for one in judged:
        print_judgement(one, console, language)
    for path in written:
        click.echo(str(path))
    ctx.exit(exit_code([one.judgement for one in judged], fail_on))


def judge_sources(sources: tuple[Path, ...], order: str | None) -> list[Judged]:
    """Run folders are judged one by one, record files together.

    Raises:
        UserError: a source is neither, or an order was given for a run that has its own.
    """
    folders = [path for path in sources if path.is_dir()]
    files = [path for path in sources if not path.is_dir()]
    if folders and order:
        raise UserError("--order: a run folder has its own orders.json; give --order only with record files.")
    missing = next((path for path in files if not path.exists()), None)
    if missing is not None:
        raise UserError(f"{missing}: no such file. Name a run folder (results/INVENTORY/TIME) or record files.")
    judged = [judge_run(path) for path in folders]
    if files:
        judged.append(judge_heap(files, orders.load(order) if order else None))
    return judged


def exit_code(judgements: list[Judgement], fail_on: str) -> int:
    """1 when a server reaches `fail_on`, else 3 when one is incomplete, else 0."""
    verdicts = {server.verdict for judgement in judgements for server in judgement.servers}
    failing = {"reject", "review"} if fail_on == "review" else {"reject"}
    if verdicts & failing:
        return 1
    return 3 if "incomplete" in verdicts else 0
