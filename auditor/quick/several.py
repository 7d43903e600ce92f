"""Several servers at once: one line each, drawn by the board that the audit uses too."""

from __future__ import annotations

from rich.console import Console

from auditor.quick import figures
from auditor.quick.events import Closed, Event, Figure, Probed, Step
from auditor.records import Reading
from auditor.transport.board import Board, Phase


class SeveralScreen:
    """One row a server: step, percent, the latest figures."""

    def __init__(self, console: Console) -> None:
        self._board = Board(console, plain=False)
        self._steps: dict[str, tuple[Phase, str, float | None]] = {}
        self._names: list[str] = []

    def open(self, names: list[str]) -> None:
        """Show the servers as waiting."""
        self._names = names
        self._board.open(names)

    def pause(self) -> None:
        """Leave the terminal to a question."""
        self.close()

    def resume(self) -> None:
        """Draw again after a question, with what is known."""
        rows = self._board.rows
        self._board.open(self._names)
        self._board.rows = rows

    def close(self) -> None:
        """Take the table away."""
        self._board.close()

    def tick(self) -> None:
        """Draw, if it is time."""
        self._board.draw()

    def take(self, event: Event) -> None:
        """Let the server's row follow."""
        name = event.server
        phase, step, percent = self._steps.get(name, ("started", "", None))
        shown: dict[str, object] = {}
        match event:
            case Step(text=text):
                phase, step = "started", text
            case Probed(status="running", probe=probe, percent=now):
                phase, step, percent = "measuring", probe, now if now is not None else percent
            case Figure(reading=reading) if figures.key(reading) is not None:
                shown = _figure(reading)
            case Closed(why=why):
                phase = "trouble" if why else "done"
                step = why or "measured"
                percent = None if why else 100.0
        self._steps[name] = (phase, step, percent)
        self._board.update(name, phase, step, percent, shown)


def _figure(reading: Reading) -> dict[str, object]:
    return {reading.metric: reading.value}
