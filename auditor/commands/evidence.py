"""`auditor evidence`: the file that proves a server's verdict, and the check that it is unchanged."""

from __future__ import annotations

from pathlib import Path

import click

from auditor import assembly
from auditor.errors import UserError
from auditor.report import evidence

USAGE = "auditor evidence RUN --server NAME [--out FILE], or auditor evidence verify FILE [--sha256 SUM]"


@click.command("evidence")
@click.argument("what", nargs=-1, required=True, metavar="RUN | verify FILE")
@click.option("--server", metavar="NAME", help="Whose evidence.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Default: RUN/report/evidence-NAME.zip.")
@click.option("--lang", default="en", metavar="en|zh", help="Language of the findings.")
@click.option("--sha256", metavar="SUM", help="With verify: the sum that was told when the file was made.")
@click.pass_context
def command(
    ctx: click.Context, what: tuple[str, ...], server: str | None, out: Path | None, lang: str, sha256: str | None
) -> None:
    """Write everything one server's verdict rests on into one file, or check such a file.

    Exit codes of verify: 0 unchanged, 1 changed, 2 no evidence file.
    """
    if what[0] == "verify" and len(what) == 2:
        ctx.exit(_verify(Path(what[1]), sha256))
    if len(what) != 1 or not server:
        raise UserError(f"evidence: {USAGE}.")
    judged = assembly.judge_run(Path(what[0]))
    path = out or Path(what[0]) / "report" / f"evidence-{server}.zip"
    digest = evidence.build(judged, server, path, lang)
    click.echo(str(path))
    click.echo(f"SHA-256 {digest} (send it apart from the file: it proves that the file is the same)")


def _verify(path: Path, expected: str | None) -> int:
    check = evidence.verify(path)
    for line in check.lines:
        click.echo(line)
    click.echo(f"SHA-256 {check.sha256}")
    same = expected is None or expected.strip().lower() == check.sha256
    if expected is not None:
        click.echo("the sum is the one you were told" if same else "the sum is NOT the one you were told")
    click.echo("unchanged" if check.intact and same else "CHANGED: do not rely on this file")
    return 0 if check.intact and same else 1
