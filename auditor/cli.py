"""The `auditor` command: finds its subcommands in `auditor/commands/` and speaks to the person on errors."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import click

from auditor import __version__, commands
from auditor.errors import UserError


class _Found(click.Group):
    """A group whose commands are the files of a folder."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(module.name for module in pkgutil.iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{commands.__name__}.{cmd_name}")
        command: click.Command = module.command
        return command


@click.group(cls=_Found, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="auditor")
def auditor() -> None:
    """Measures rented GPU servers and judges them against what was ordered."""


def main() -> None:
    """Entry point. Exit codes: 0 fine, 1 a server reaches --fail-on, 3 a server is incomplete, 2 misuse."""
    try:
        sys.exit(auditor.main(standalone_mode=False) or 0)
    except UserError as error:
        click.echo(f"auditor: {error}", err=True)
        sys.exit(2)
    except click.exceptions.Abort:
        click.echo("auditor: stopped", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
