"""The live screen of one server: figures as they come with what was expected, and a small chart of the load."""

from __future__ import annotations

import time
from collections import defaultdict, deque

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from auditor.quick import figures
from auditor.quick.events import Closed, Event, Figure, Probed, Sample, Step
from auditor.quick.expected import Expected
from auditor.quick.figures import Key, Row
from auditor.report.units import reading_text

_BARS = "▁▂▃▄▅▆▇█"
_CHART = 48
_FRESH_SECONDS = 0.12
_MOST_ROWS = 400  # an honest probe has some dozens; a stranger's must not fill our memory
_CHARTS = (  # name, a metric of the same unit, the least span that fills the chart's height
    ("temperature", "thermal_gpu_celsius", 8.0),
    ("power", "thermal_watts", 60.0),
    ("SM clock", "clock_hertz", 2e8),
)


class LiveScreen:
    """One server, drawn a few times a second; what matters stays on the terminal afterwards."""

    def __init__(self, console: Console, title: str, expected: Expected, seconds: float | None = None) -> None:
        """`seconds` is shown instead of the clock where a run is drawn in retrospect."""
        self._console, self._title, self._expected, self._seconds_told = console, title, expected, seconds
        self._live: Live | None = None
        self._began = time.monotonic()
        self._drawn = 0.0
        self._step = "connecting"
        self._percent: float | None = None
        self._running: str | None = None
        self._rows: dict[Key, Row] = {}
        self._not_measured: list[str] = []
        self._seconds: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_CHART))
        self._now: dict[str, Sample] = {}
        self._closed: Closed | None = None

    def open(self, names: list[str]) -> None:
        """Begin to draw."""
        self._began = time.monotonic()
        self.resume()

    def resume(self) -> None:
        """Draw again after a question."""
        self._live = Live(self.view(), console=self._console, auto_refresh=False, transient=False)
        self._live.start(refresh=True)

    def pause(self) -> None:
        """Take the picture away for a question."""
        if self._live:
            self._live.transient = True
            self._live.stop()
            self._live = None

    def close(self) -> None:
        """Leave the last picture on the terminal."""
        if self._live:
            self._live.update(self.view(), refresh=True)
            self._live.stop()
            self._live = None

    def take(self, event: Event) -> None:
        """Let the picture follow the event."""
        match event:
            case Step(text=text):
                self._step = text
            case Probed(status="running", probe=probe, percent=percent):
                self._running = probe
                self._percent = percent if percent is not None and 0 <= percent <= 100 else self._percent
            case Probed(probe=probe, subject=subject, status=status, reason=reason):
                said = f"{probe} {subject}: {status.replace('_', ' ')}, {reason or 'no reason'}"
                if event.news and said not in self._not_measured[-_MOST_ROWS:]:
                    self._not_measured.append(said)  # each rank of a collective probe says the same
            case Figure(reading=reading):
                self._expected.learn(reading)
                found = figures.key(reading)
                if found is not None and (found in self._rows or len(self._rows) < _MOST_ROWS):
                    self._rows.setdefault(found, figures.row(reading)).take(reading)
            case Sample():
                self._sample(event)
            case Closed(state=state):
                self._closed, self._running = event, None
                self._percent = 100.0 if state.phase == "done" else self._percent
                self._step = event.why or self._step
        self.tick()

    def tick(self) -> None:
        """Draw, at most eight times a second."""
        if self._live and time.monotonic() - self._drawn > _FRESH_SECONDS:
            self._drawn = time.monotonic()
            self._live.update(self.view(), refresh=True)

    def view(self) -> RenderableType:
        """The whole picture, not taller than the terminal."""
        parts: list[RenderableType] = [self._head()]
        charts = self._charts()
        room = self._console.height - 6 - len(charts) - min(3, len(self._not_measured))
        if self._rows:
            parts.append(self._table(max(4, room)))
        parts += charts
        parts += [
            Text(f"  {line}", style="yellow", overflow="ellipsis", no_wrap=True) for line in self._not_measured[-3:]
        ]
        return Group(*parts)

    def _head(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        seconds = f"{self._seconds_told or time.monotonic() - self._began:.0f} s"
        bar: RenderableType = ProgressBar(total=100, completed=self._percent, width=24) if self._percent else ""
        where = self._running or ("done" if self._closed and self._closed.state.reason is None else "")
        grid.add_row(Text(self._title, style="bold"), bar, Text(where, style="cyan"), Text(seconds, style="dim"))
        return Group(grid, Text(f"  {self._step}", style="dim", overflow="ellipsis", no_wrap=True))

    def _table(self, room: int) -> RenderableType:
        table = Table(box=None, padding=(0, 2), show_edge=False, header_style="dim")
        for name in ("measured", "got", "±", "expected", ""):
            table.add_column(name, justify="right" if name == "±" else "left", no_wrap=True)
        for row in list(self._rows.values())[-room:]:
            level = self._expected.text(row.metric, row.conditions)
            spread = f"{row.spread:.1%}" if row.spread is not None else ""
            dim = "dim"
            table.add_row(Text(row.words), Text(row.value()), Text(spread, dim), Text(level, dim), self._mark(row))
        return table

    def _mark(self, row: Row) -> Text:
        """Whether the figure is good enough, and how far it lies from what was expected."""
        middle = row.middle()
        stands = self._expected.stands(row.metric, row.conditions, middle) if middle is not None else None
        if stands is None:
            return Text("")
        good, distance = stands
        sign = "✔" if good else "▼" if distance < 0 else "▲"
        return Text(f"{sign} {distance:+.0%}", style="green" if good else "bold red")

    def _sample(self, sample: Sample) -> None:
        """A second of one GPU; the chart shows the hottest, the sum of the power, the slowest clock."""
        if sample.subject not in self._now and len(self._now) < _MOST_ROWS:
            self._now[sample.subject] = sample
            return
        seen = list(self._now.values())  # the GPU that speaks a second time begins the next second
        self._now = {sample.subject: sample}
        for name, values, join in (
            ("temperature", [s.celsius for s in seen], max),
            ("power", [s.watts for s in seen], sum),
            ("SM clock", [s.hertz for s in seen], min),
        ):
            known = [value for value in values if value is not None]
            if known:
                self._seconds[name].append(join(known))

    def _charts(self) -> list[RenderableType]:
        out: list[RenderableType] = []
        for name, metric, span in _CHARTS:
            values = list(self._seconds.get(name, ()))
            if values:
                line = Text(f"  {name:<12}", style="dim")
                line.append(f"{reading_text(metric, values[-1]):>10}  ", style="default")
                line.append(sparks(values, span), style="cyan")
                line.append(
                    f"  {reading_text(metric, min(values))} to {reading_text(metric, max(values))}", style="dim"
                )
                out.append(line)
        return out


def sparks(values: list[float], least: float) -> str:
    """The values as a row of bars between their lowest and highest; less than `least` between them stays low."""
    low = min(values)
    span = max(max(values) - low, least)
    return "".join(_BARS[min(7, int((value - low) / span * 8))] for value in values)
