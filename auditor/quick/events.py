"""What a session tells the screen: steps in words, the probe's own progress, the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from auditor.records import Reading
from auditor.report.texts import load
from auditor.report.words import reason_text
from auditor.runs import State
from auditor.showing import show


class Step(msgspec.Struct, frozen=True):
    """Where a server's audit stands, in words."""

    server: str
    text: str


class Probed(msgspec.Struct, frozen=True):
    """One probe on one subject: it runs (`percent` of the whole audit), or how it ended."""

    server: str
    probe: str
    subject: str
    status: str
    percent: float | None = None
    reason: str | None = None

    @property
    def news(self) -> bool:
        """Whether a person has to know: what was not measured and why, unless it was they who stopped it."""
        if self.status in ("running", "measured", "not_applicable"):
            return False
        return not (self.status == "timed_out" and "SIGTERM" in (self.reason or ""))


class Figure(msgspec.Struct, frozen=True):
    """One reading as it came."""

    server: str
    reading: Reading


class Sample(msgspec.Struct, frozen=True):
    """What NVML saw of one GPU this second."""

    server: str
    subject: str
    celsius: float | None = None
    watts: float | None = None
    hertz: float | None = None


class Closed(msgspec.Struct, frozen=True):
    """A server's audit is over."""

    server: str
    state: State

    @property
    def why(self) -> str | None:
        """Why it ended early, in words; None where it is done."""
        said = (self.state.reason, self.state.detail)
        return reason_text(load("en"), ": ".join(part for part in said if part)) if self.state.reason else None


Event = Step | Probed | Figure | Sample | Closed
Post = Callable[[Event], None]
_LINE_LIMIT = 16384


class _Line(msgspec.Struct):
    event: Literal["probe", "reading", "sample"]
    probe: str = ""
    subject: str = ""
    status: str = ""
    percent: float | None = None
    reason: str | None = None
    celsius: float | None = None
    watts: float | None = None
    hertz: float | None = None


class Progress:
    """The probe's progress lines, cut anywhere by the way they came; what is no progress line is left out."""

    def __init__(self, server: str, post: Post) -> None:
        self._server, self._post = server, post
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Post an event for every whole line."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LINE_LIMIT:
            self._rest = b""
        for line in lines:
            event = _understood(self._server, line) if line.startswith(b"{") and len(line) <= _LINE_LIMIT else None
            if event is not None:
                self._post(event)


def _understood(server: str, data: bytes) -> Event | None:
    """One line as an event. It comes from a stranger: wrong types and unknown words make it nothing."""
    try:
        raw: Any = json.loads(data)
        line = msgspec.convert(raw, _Line)
        if line.event == "reading":
            return Figure(server, _reading(raw))
    except (ValueError, msgspec.ValidationError, RecursionError):
        return None
    if line.event == "probe":
        reason = show(line.reason) if line.reason else None
        return Probed(server, show(line.probe, 40), show(line.subject, 40), show(line.status, 20), line.percent, reason)
    return Sample(server, show(line.subject, 40), line.celsius, line.watts, line.hertz)


def _reading(raw: dict[str, Any]) -> Reading:
    """A reading as the wire writes it, its texts fit to show."""
    row = {key: value for key, value in raw.items() if key not in ("t", "event", "with")}
    found = msgspec.convert({**row, "conditions": raw.get("with", {})}, Reading)
    value = show(found.value) if isinstance(found.value, str) else found.value
    conditions = {
        show(key, 40): show(one, 60) if isinstance(one, str) else one for key, one in found.conditions.items()
    }
    return Reading(
        show(found.probe, 40),
        show(found.metric, 80),
        show(found.subject, 40),
        value,
        show(found.source, 40),
        conditions,
        found.spread,
        found.n,
        found.stable,
    )
