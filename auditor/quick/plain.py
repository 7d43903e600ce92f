"""The run as plain lines: for pipes, logs, NO_COLOR and dumb terminals. Also the several-servers view's lines."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from auditor.quick import figures
from auditor.quick.events import Closed, Event, Figure, Probed, Sample, Step
from auditor.quick.expected import Expected
from auditor.records import Reading
from auditor.report.units import reading_text

_SAMPLE_SECONDS = 10.0
_MOST_ROWS = 2000  # unfinished rows; a stranger's must not fill our memory


class PlainScreen:
    """One line for each step, figure and ending."""

    def __init__(self, console: Console, expected: dict[str, Expected]) -> None:
        self._console, self._expected = console, expected
        self._several = len(expected) > 1
        self._began = time.monotonic()
        self._sampled: dict[str, float] = {}
        self._told: set[tuple[str, str, str, str]] = set()
        self._rows: dict[tuple[str, figures.Key], figures.Row] = {}

    def open(self, names: list[str]) -> None:
        """Nothing to draw."""

    def take(self, event: Event) -> None:
        """Print the event as a line, if it is worth one."""
        say: Callable[[str], None] = lambda text: self._line(event.server, text)  # noqa: E731
        match event:
            case Step(text=text):
                say(text)
            case Probed(status="running"):
                pass
            case Probed(probe=probe, subject=subject, status=status, reason=reason):
                self._rest(event.server, probe)
                news = (event.server, probe, subject, status)
                if event.news and news not in self._told:
                    self._told.add(news)  # each rank of a collective probe says the same
                    say(f"{probe} {subject}: {status.replace('_', ' ')}{f' ({reason})' if reason else ''}")
            case Figure(server=server, reading=reading):
                self._expected[server].learn(reading)
                self._figure(server, reading)
            case Sample(server=server, subject=subject):
                now = time.monotonic()
                if now - self._sampled.get(server + subject, 0.0) > _SAMPLE_SECONDS:
                    self._sampled[server + subject] = now
                    say(f"{subject} {sample_text(event)}")
            case Closed(why=why):
                for probe in {row.probe for (whose, _), row in self._rows.items() if whose == event.server}:
                    self._rest(event.server, probe)
                say(why or "done")

    def _figure(self, server: str, reading: Reading) -> None:
        """A row is one line as soon as every GPU has its figure."""
        found = figures.key(reading)
        if found is None or len(self._rows) > _MOST_ROWS:
            return
        row = self._rows.setdefault((server, found), figures.row(reading))
        row.take(reading)
        if reading.metric == "gpu_identity_name":
            return  # how many there are shows when all have told their names
        seen = len(row.values) + len(row.texts)
        if reading.subject == "server" or seen >= self._expected[server].gpus:
            self._print(server, self._rows.pop((server, found)))

    def _rest(self, server: str, probe: str) -> None:
        """A probe that ended on one GPU: rows that others of its GPUs never filled must not be lost."""
        for whose, found in [key for key, row in self._rows.items() if key[0] == server and row.probe == probe]:
            self._print(server, self._rows.pop((whose, found)))

    def _print(self, server: str, row: figures.Row) -> None:
        known, middle = self._expected[server], row.middle()
        if not row.value():
            return
        spread = f" ±{row.spread:.1%}" if row.spread is not None else ""
        level = known.text(row.metric, row.conditions)
        stands = known.stands(row.metric, row.conditions, middle) if middle is not None else None
        below = " (not good enough)" if stands and not stands[0] else ""
        self._line(server, f"{row.words}: {row.value()}{spread}{f', expected {level}{below}' if level else ''}")

    def tick(self) -> None:
        """Nothing moves."""

    def close(self) -> None:
        """Nothing to take away."""

    def pause(self) -> None:
        """Leave the terminal to a question."""
        self.close()

    def resume(self) -> None:
        """Nothing to draw again."""

    def _line(self, server: str, text: str) -> None:
        who = f"{server}  " if self._several else ""
        self._console.print(Text(f"{time.monotonic() - self._began:5.1f} s  {who}{text}"), soft_wrap=True)


def sample_text(sample: Sample) -> str:
    """Temperature, power and clock of one moment."""
    parts = (("thermal_gpu_celsius", sample.celsius), ("thermal_watts", sample.watts), ("clock_hertz", sample.hertz))
    return "  ".join(reading_text(metric, value) for metric, value in parts if value is not None)
