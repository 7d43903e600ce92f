"""The run as plain lines: for pipes, logs, NO_COLOR and dumb terminals. Also the several-servers view's lines."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from auditor.quick import figures
from auditor.quick.events import Closed, Event, Figure, Probed, Sample, Step
from auditor.quick.expected import Expected
from auditor.report.units import reading_text

_SAMPLE_SECONDS = 10.0


class PlainScreen:
    """One line for each step, figure and ending."""

    def __init__(self, console: Console, expected: dict[str, Expected]) -> None:
        self._console, self._expected = console, expected
        self._several = len(expected) > 1
        self._began = time.monotonic()
        self._sampled: dict[str, float] = {}

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
                if status != "measured":
                    say(f"{probe} {subject}: {status.replace('_', ' ')}{f' ({reason})' if reason else ''}")
            case Figure(server=server, reading=reading):
                known = self._expected[server]
                known.learn(reading)
                if figures.key(reading) is not None:
                    row = figures.row(reading)
                    row.take(reading)
                    if row.value():
                        spread = f" ±{reading.spread:.1%}" if reading.spread is not None else ""
                        level = known.text(reading.metric, reading.conditions)
                        middle = row.middle()
                        stands = (
                            known.stands(reading.metric, reading.conditions, middle) if middle is not None else None
                        )
                        below = " (not good enough)" if stands and not stands[0] else ""
                        against = f", expected {level}{below}" if level else ""
                        where = "" if reading.subject == "server" else f"{reading.subject} "
                        say(f"{where}{row.words}: {row.value()}{spread}{against}")
            case Sample(server=server, subject=subject):
                now = time.monotonic()
                if now - self._sampled.get(server + subject, 0.0) > _SAMPLE_SECONDS:
                    self._sampled[server + subject] = now
                    say(f"{subject} {sample_text(event)}")
            case Closed(state=state):
                say("done" if state.reason is None else f"{state.reason.replace('_', ' ')}: {state.detail or ''}")

    def tick(self) -> None:
        """Nothing moves."""

    def close(self) -> None:
        """Nothing to take away."""

    def resume(self) -> None:
        """Nothing to draw again."""

    def _line(self, server: str, text: str) -> None:
        who = f"{server}  " if self._several else ""
        self._console.print(Text(f"{time.monotonic() - self._began:5.1f} s  {who}{text}"), soft_wrap=True)


def sample_text(sample: Sample) -> str:
    """Temperature, power and clock of one moment."""
    parts = (("thermal_gpu_celsius", sample.celsius), ("thermal_watts", sample.watts), ("clock_hertz", sample.hertz))
    return "  ".join(reading_text(metric, value) for metric, value in parts if value is not None)
