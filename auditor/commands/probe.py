"""`auditor probe`: this machine itself, with the same screen and the same report as `auditor quick`."""

from __future__ import annotations

import re
import socket
from typing import Any

import click

from auditor.quick import options
from auditor.quick.ending import Ending, finish
from auditor.quick.link import LocalLink
from auditor.quick.run import Server, audit


@click.command()
@options.shared
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Measure and judge the machine this runs on.

    The probe runs under the interpreter that has torch, found as on any server; the auditor's own needs none.
    """
    ordered = options.load_order(given["order"])
    wish = options.wish(given)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname()).strip("._-")[:63] or "this-machine"
    server = Server(name=name, label=None, order=ordered.for_server(name), link=lambda ask: LocalLink())
    console = options.console(given["as_json"], given["plain"])
    screen = options.screen(console, f"auditor {wish.profile}  {name}", {name: server.order})
    folder = audit([server], wish, screen)
    ending = Ending(fail_on=given["fail_on"], lang=given["lang"], json=given["as_json"], xlsx=given["xlsx"])
    ctx.exit(finish(folder, {name: None}, ending, console))
