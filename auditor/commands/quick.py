"""`auditor quick`: servers judged in a minute, over plain SSH."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from auditor.errors import UserError
from auditor.quick import options
from auditor.quick.connect import SshLink, Way, connect, ssh_line
from auditor.quick.ending import Ending, finish
from auditor.quick.login import Ask
from auditor.quick.run import Server, audit
from auditor.quick.target import Target, parse


@click.command()
@click.argument("hosts", nargs=-1, required=True, metavar="[USER@]HOST[:PORT]…")
@click.option("-p", "--port", type=click.IntRange(1, 65535), help="SSH port.")
@click.option("-l", "--login", metavar="USER", help="User to log in as.")
@click.option(
    "-i", "--identity", type=click.Path(path_type=Path), metavar="KEY", help="Private key; only this one is shown."
)
@click.option("-J", "--jump", metavar="[USER@]HOST[:PORT],…", help="Jump hosts.")
@click.option("-F", "--ssh-config", type=click.Path(path_type=Path), metavar="FILE", help="Instead of ~/.ssh/config.")
@click.option("-o", "ssh_options", multiple=True, metavar="OPTION", help="As ssh's -o, for what names way and keys.")
@click.option("--accept-host-key", multiple=True, metavar="SHA256:…", help="Accept exactly this key of a new server.")
@click.option("--connect-timeout", type=click.FloatRange(1, 300), default=15.0, show_default=True, metavar="SECONDS")
@click.option("-L", "-R", "-D", "forwards", multiple=True, hidden=True)
@click.option("-A", "-X", "-Y", "forwarded", is_flag=True, hidden=True)
@options.shared
@click.pass_context
def command(ctx: click.Context, /, hosts: tuple[str, ...], **given: Any) -> None:
    """Judge rented servers in a minute, over plain SSH: no inventory, no root, no installation.

    HOST is what stands in the provider's ssh line; `auditor quick ssh -p 22022 root@192.0.2.10` works as pasted.
    Forwards of agent, X11 and ports are never made.
    """
    hosts = hosts[1:] if hosts[0] == "ssh" else hosts
    if not hosts:
        raise UserError("no server was named: auditor quick [USER@]HOST [-p PORT].")
    key = given["identity"]
    if key and not key.expanduser().is_file():
        raise UserError(f"{key}: no such key file; name the private key whose public half the provider has.")
    config = given["ssh_config"]
    if config and not config.is_file():
        raise UserError(f"{config}: no such ssh configuration.")
    targets = parse(hosts, given["port"], given["login"])
    ordered = options.load_order(given["order"])
    wish = options.wish(given)
    way = Way(
        key=key.expanduser() if key else None,
        jump=given["jump"],
        config=config,
        options=given["ssh_options"],
        accepted=frozenset(given["accept_host_key"]),
        seconds=given["connect_timeout"],
    )
    if given["jump"]:
        for one in given["jump"].split(","):
            parse([one])
    kept: dict[str, str] = {}
    servers = [
        Server(
            name=target.name,
            label=target.text if target.text != target.name else None,
            order=ordered.for_server(target.name),
            link=partial(_link, target, way, kept),
        )
        for target in targets
    ]
    console = options.console(given["as_json"], given["plain"])
    if given["forwards"] or given["forwarded"]:
        console.print("Forwards of the ssh line were left out: none is ever made.", style="dim")
    title = f"auditor {wish.profile}  {targets[0].text}"
    screen = options.screen(console, title, {server.name: server.order for server in servers})
    folder = audit(servers, wish, screen)
    ending = Ending(fail_on=given["fail_on"], lang=given["lang"], json=given["as_json"], xlsx=given["xlsx"])
    code = finish(folder, {target.name: ssh_line(target, way) for target in targets}, ending, console)
    ctx.exit(code)


def _link(target: Target, way: Way, kept: dict[str, str], ask: Ask) -> SshLink:
    return connect(target, way, ask, kept)
