"""`auditor inventory import`: an inventory from the list that procurement already has."""

from __future__ import annotations

import os
from pathlib import Path

import click

from auditor.errors import UserError
from auditor.imports import hosts


@click.group("inventory")
def command() -> None:
    """Makes inventories from lists of servers."""


@command.command("import")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Where to write; default: print it.")
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
def import_(source: Path, out: Path | None, force: bool) -> None:
    """Write hosts.yml from a CSV, an XLSX or an ssh_config.

    Columns are recognised by their headers in English and Chinese; what was not understood is listed. A person
    reads the result before it is used.
    """
    found = hosts.read(source)
    if not found.hosts:
        raise UserError(f"{source}: no server was found in it.")
    made = hosts.text(found, str(source))
    if out is None:
        click.echo(made, nl=False)
    else:
        _write(out, made, force)
        ordered = sum("audit_order" in host for host in found.hosts.values())
        click.echo(f"{out}: {len(found.hosts)} servers, {ordered} with an order. Read it before you use it.")
    for line in found.left_out:
        click.echo(f"not understood: {click.unstyle(line)}", err=True)
    for line in found.notes:
        click.echo(f"note: {click.unstyle(line)}", err=True)


def _write(path: Path, made: str, force: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
    try:
        handle = os.open(path, flags, 0o644)
    except FileExistsError:
        raise UserError(f"{path}: is there already; --force overwrites it.") from None
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(made)
