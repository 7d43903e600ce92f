"""The words of the command line that `auditor quick` and `auditor probe` share, and what follows from them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from auditor import catalog, records
from auditor import order as orders
from auditor.errors import UserError
from auditor.judge import policy
from auditor.order import Order, Orders
from auditor.quick.expected import Expected
from auditor.quick.live import LiveScreen
from auditor.quick.plain import PlainScreen
from auditor.quick.run import Screen, Wish
from auditor.quick.several import SeveralScreen
from auditor.transport import wishes

_F = TypeVar("_F", bound=Callable[..., Any])
ROOT = Path(__file__).parents[2]
PYZ = ROOT / "build" / "auditor-probe.pyz"
_LIMIT_SECONDS = {"quick": 300.0, "standard": 3600.0, "soak": 3600.0}
_PATH = re.compile(r"/[A-Za-z0-9_./+-]+")

_SHARED = (
    click.option("--order", metavar="TEXT|ORDER.yml", help='Ordered: "8x H200 nvswitch bare-metal", or a file.'),
    click.option("--profile", type=click.Choice(records.PROFILES), default="quick", show_default=True),
    click.option("--only", metavar="P,…", help="Only these probes."),
    click.option("--skip", metavar="P,…", help="Without these probes."),
    click.option("--path", metavar="DIR", help="Folder on the server whose storage is measured."),
    click.option("--budget", type=click.FloatRange(min=1), metavar="SECONDS", help="The most time to measure."),
    click.option("--soak-seconds", type=click.IntRange(min=1), metavar="N", help="Length of the soak."),
    click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), help="What to measure."),
    click.option("--allow-busy", is_flag=True, help="Measure GPUs that are in use, too."),
    click.option("--python", metavar="PATH", help="The Python on the server to measure with; else it is found."),
    click.option("--remote-dir", metavar="DIR", help="Where on the server to work; else a place is found."),
    click.option("--probe-file", type=click.Path(path_type=Path), default=PYZ, hidden=True),
    click.option("--results", type=click.Path(path_type=Path), default=Path("results"), show_default=True,
                 help="Where run folders go."),
    click.option("--xlsx", type=click.Path(path_type=Path), metavar="FILE", help="Write the workbook there."),
    click.option("--json", "as_json", is_flag=True, help="Print the report as JSON; all else goes to stderr."),
    click.option("--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True),
    click.option("--fail-on", type=click.Choice(["reject", "review"]), default="reject", show_default=True,
                 help="Exit 1 from here on."),
    click.option("--plain", is_flag=True, help="Lines instead of a live screen."),
)  # fmt: skip


def shared(command: _F) -> _F:
    """Give a command all shared options."""
    for option in reversed(_SHARED):
        command = option(command)
    return command


def load_order(text: str | None) -> Orders:
    """The order as it was given; without one nothing is misallocated."""
    return orders.load(text) if text is not None else Orders()


def wish(given: dict[str, Any]) -> Wish:
    """What is to be measured, from the command line.

    Raises:
        UserError: a path that cannot be one, or no probe file.
    """
    for name in ("python", "remote_dir", "path"):
        if given[name] and not _PATH.fullmatch(given[name]):
            raise UserError(f"--{name.replace('_', '-')}: {given[name]!r} is no absolute path of plain letters.")
    if given["probe_file"] == PYZ:  # another file may hold other probes
        for name in ("only", "skip"):
            wishes.check_probes([word for word in (given[name] or "").split(",") if word], f"--{name}")
    options: list[str] = []
    for name in ("only", "skip", "path", "budget", "soak_seconds", "device"):
        if given[name] is not None:
            options += [f"--{name.replace('_', '-')}", str(given[name])]
    options += ["--allow-busy"] if given["allow_busy"] else []
    limit = _LIMIT_SECONDS[given["profile"]] + (given["soak_seconds"] or 0) + (given["budget"] or 0)
    return Wish(
        profile=given["profile"],
        probe=_probe(given["probe_file"]),
        results=given["results"],
        limit=limit,
        options=tuple(options),
        python=given["python"],
        directory=given["remote_dir"],
        lang=given["lang"],
    )


def _probe(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise UserError(f"{path}: the probe file is missing. Build it with `make pyz`.") from None


def console(as_json: bool, plain: bool) -> Console:
    """Where the screen goes: stderr when stdout carries the JSON; no escape at all where lines are wanted."""
    made = Console(stderr=as_json, highlight=False)
    if plain or made.is_dumb_terminal or os.environ.get("NO_COLOR"):
        return Console(stderr=as_json, highlight=False, force_terminal=False, no_color=True)
    return made


def screen(console: Console, title: str, orders: dict[str, Order | None]) -> Screen:
    """Live for a person at a terminal; lines for everything else."""
    lines = policy.load()
    expected = {name: Expected(order, catalog.load(), lines) for name, order in orders.items()}
    if not console.is_terminal:
        return PlainScreen(console, expected)
    if len(orders) > 1:
        return SeveralScreen(console)
    return LiveScreen(console, title, next(iter(expected.values())))
