"""The live display of an audit: one row a server, plain lines where there is no terminal.

Everything a server said has been made fit to show before it comes here, and is made so once more.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from auditor.report.units import reading_text
from auditor.showing import show

Phase = Literal["waiting", "started", "measuring", "done", "trouble"]
_STYLE = {"waiting": "dim", "started": "cyan", "measuring": "cyan", "done": "green", "trouble": "bold red"}
_MARK = {"waiting": "·", "started": "▸", "measuring": "▸", "done": "✔", "trouble": "✖"}
_RANK = ("measuring", "started", "trouble", "waiting", "done")  # what a person wants to see where not all rows fit
_FRESH_SECONDS = 0.2
_PLAIN_SECONDS = 15.0


@dataclasses.dataclass
class Row:
    """One server as shown now."""

    name: str
    phase: Phase = "waiting"
    step: str = ""
    percent: float | None = None
    figures: dict[str, float] = dataclasses.field(default_factory=dict)
    said: float = 0.0


class Board:
    """All rows of one audit, drawn to a console while the audit runs."""

    def __init__(self, console: Console, *, plain: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self.console, self.plain, self._clock = console, plain, clock
        self.rows: dict[str, Row] = {}
        self._live: Live | None = None
        self._begin = self._drawn = clock()

    def open(self, names: list[str]) -> None:
        """Show these servers as waiting."""
        self.rows = {name: Row(name) for name in names}
        self._begin = self._clock()
        if not self.plain:
            self._live = Live(console=self.console, auto_refresh=False, transient=True)
            self._live.start()

    def close(self) -> None:
        """Take the table away; lines that were said stay."""
        if self._live:
            self._live.stop()
            self._live = None

    def update(
        self,
        name: str,
        phase: Phase,
        step: object = "",
        percent: object = None,
        figures: Mapping[str, object] | None = None,
    ) -> None:
        """A server's news; endings and (without a terminal) every new step are said as a line."""
        row = self.rows.setdefault(name, Row(name))
        before = (row.phase, row.step)
        row.phase, row.step = phase, show(step, 400)
        row.percent = float(percent) if isinstance(percent, int | float) and 0 <= percent <= 100 else None
        for metric, value in (figures or {}).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                row.figures[show(metric, 60)] = float(value)
        ended = phase in ("done", "trouble")
        now = self._clock()
        changed = before != (row.phase, row.step)
        if (ended and changed) or (self.plain and (changed or now - row.said > _PLAIN_SECONDS)):
            row.said = now
            self.say(self._line(row, wide=ended or self.plain))
        self.draw(force=ended)

    def say(self, line: Text | str) -> None:
        """One lasting line above the table."""
        self.console.print(line, soft_wrap=True)

    def draw(self, *, force: bool = False) -> None:
        """Draw the table, at most five times a second."""
        if self._live and (force or self._clock() - self._drawn > _FRESH_SECONDS):
            self._drawn = self._clock()
            self._live.update(self.table(), refresh=True)

    def table(self) -> RenderableType:
        """As many rows as fit, the busy ones first, and a count of all."""
        room = max(3, self.console.height - 4)
        rows = sorted(self.rows.values(), key=lambda r: (_RANK.index(r.phase), r.name))[:room]
        table = Table.grid(padding=(0, 2))
        for row in sorted(rows, key=lambda r: r.name):
            bar: RenderableType = ""
            if row.percent is not None and row.phase != "trouble":
                bar = ProgressBar(total=100, completed=row.percent, width=16)
            share = f"{row.percent:3.0f}%" if row.percent is not None else ""
            mark = Text(f"{_MARK[row.phase]} {row.name}", style=_STYLE[row.phase])
            table.add_row(mark, bar, share, _one_line(row.step), _one_line(_figures(row)))
        return Group(table, Text(self.summary(), style="dim"))

    def summary(self) -> str:
        """How far all of them are, in one line."""
        count = {phase: sum(row.phase == phase for row in self.rows.values()) for phase in _MARK}
        parts = [f"{count['done']} of {len(self.rows)} measured"]
        parts += [f"{count['trouble']} not measured"] if count["trouble"] else []
        running = count["started"] + count["measuring"]
        parts += [f"{running} running"] if running else []
        return " · ".join([*parts, f"{self._clock() - self._begin:.0f} s"])

    def _line(self, row: Row, *, wide: bool) -> Text:
        line = Text(f"{_MARK[row.phase]} {row.name}", style=_STYLE[row.phase])
        share = f" {row.percent:.0f}%" if row.percent is not None and row.phase == "measuring" else ""
        line.append(f"  {row.step or row.phase}{share}", style="default")
        if wide and (figures := _figures(row)):
            line.append(f"  {figures}", style="default")
        return line


def _one_line(text: str) -> Text:
    return Text(text, overflow="ellipsis", no_wrap=True)


def _figures(row: Row) -> str:
    """The latest three figures with their units, under names short enough for a line."""
    latest = list(row.figures.items())[-3:]
    return "  ".join(f"{_short(metric)} {reading_text(metric, value)}" for metric, value in latest)


def _short(metric: str) -> str:
    for ending in ("_flops_per_second", "_bytes_per_second", "_celsius", "_watts", "_hertz", "_ratio", "_seconds"):
        metric = metric.removesuffix(ending)
    return metric.replace("_", " ")
