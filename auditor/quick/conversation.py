"""One connection with the agent, from its start to its goodbye; the next one attaches where this one broke.

Every wait has an end (threat C06): for the first word, for each step, for silence, for the whole.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from auditor.quick import courier, outcome
from auditor.quick.events import Post, Progress, Step
from auditor.quick.frames import Frame, Frames
from auditor.quick.link import Ended, Link, Lost, Spoiled, Stream
from auditor.quick.outcome import Audit, End, Gone, Obstacle
from auditor.showing import show
from auditor.transport import no_module

_PREFLIGHT = Path(__file__).parents[2] / "plugins" / "files" / "preflight.sh"
HELLO_SECONDS = 20.0
START_SECONDS = 60.0
SILENCE_SECONDS = 12.0
STOP_SECONDS = 10.0
SPARE_SECONDS = 60.0
_MOST_STARTS = 3
_PATH = re.compile(r"/[A-Za-z0-9_./+-]{1,200}")
_T = TypeVar("_T")


class _Silent(Lost):
    """Nothing came in time."""


class Conversation:
    """What is said over one link; `audit` remembers what the next one has to know."""

    def __init__(
        self,
        audit: Audit,
        link: Link,
        progress: Progress,
        post: Post,
        keep: Callable[[bytes], None],
        stop: threading.Event,
    ) -> None:
        self._audit, self._link, self._progress = audit, link, progress
        self._post, self._keep, self._stop = post, keep, stop

    def hold(self) -> None:
        """Speak until everything is said and the server is tidy.

        Raises:
            Lost, Flooded, Spoiled, End: it did not come so far.
        """
        mark = courier.marker()
        stream = self._link.run(courier.command(mark, self._audit.job.python or self._audit.python))
        try:
            self._talk(stream, Frames(stream, mark))
        finally:
            stream.close()

    def _talk(self, stream: Stream, frames: Frames) -> None:
        self._greet(stream, frames)
        self._ask(stream)
        frame = self._next(stream, frames, START_SECONDS)
        if frame.kind == "obstacle":
            raise self._hindered(_decoded(frame, Obstacle))
        _expect(frame, "started")
        self._take_start(_decoded(frame, outcome.Started))
        while not self._take(self._next(stream, frames, SILENCE_SECONDS), stream):
            pass

    def _greet(self, stream: Stream, frames: Frames) -> None:
        """Bring the agent to life."""
        try:
            stream.send(courier.agent(frames.mark), HELLO_SECONDS)
            frame = self._next(stream, frames, HELLO_SECONDS)
        except (Ended, _Silent) as error:
            time.sleep(0.2)  # a connection that breaks ends its commands first
            if self._audit.met or not self._link.alive():
                raise
            raise End("start", "no_shell", _no_shell(error, frames)) from None
        if frame.kind == "no_python":
            raise self._without_python()
        _expect(frame, "hello")
        self._audit.met = True

    def _ask(self, stream: Stream) -> None:
        audit = self._audit
        wish = "attach" if audit.attach else "start"
        line = json.dumps(outcome.request(audit, wish)).encode("ascii") + b"\n"
        if wish == "start":
            self.say("sending the probe")
            audit.attach = True  # from here on it may run there
            audit.starts += 1
            line += audit.job.probe
        stream.send(line, HELLO_SECONDS)

    def _next(self, stream: Stream, frames: Frames, patience: float) -> Frame:
        """The next frame; passes a stop on while it waits."""
        last = time.monotonic()
        while True:
            self._pass_stop_on(stream)
            frame = frames.next(0.1)
            now = time.monotonic()
            if frame is not None:
                self._audit.heard = now
                return frame
            if now - last > patience:
                raise _Silent(f"nothing came for {now - last:.0f} s")
            if now - self._audit.began > self._audit.job.limit + SPARE_SECONDS:
                raise End("measure", "timed_out", f"it did not end within {now - self._audit.began:.0f} s")

    def _pass_stop_on(self, stream: Stream) -> None:
        audit = self._audit
        if not self._stop.is_set() or audit.closing:
            return
        if audit.stop_sent is None and audit.started:
            audit.stop_sent = time.monotonic()
            self.say("stopping the probe")
            stream.send(b"stop\n", STOP_SECONDS)
        elif not audit.attach:
            raise End("start", "stopped", "stopped before the probe was started")
        elif audit.stop_sent is not None and time.monotonic() - audit.stop_sent > STOP_SECONDS:
            raise End("measure", "stopped", "it did not stop when told; it ends by itself at its time limit")

    def _take_start(self, started: outcome.Started) -> None:
        audit = self._audit
        if audit.started:
            self.say("connected again; the probe went on")
            audit.stop_sent = None
            return
        audit.started = started
        chosen = {"interpreter": started.interpreter, "torch": started.torch, "cuda": started.cuda}
        audit.details.update({key: _shown(text) for key, text in {**chosen, "bringer": started.bringer}.items()})
        if started.torch:
            build = f"CUDA {show(started.cuda, 20)}" if started.cuda else "no CUDA"
            self.say(f"measuring with {show(started.interpreter)} (torch {show(started.torch, 40)}, {build})")
        elif started.interpreter:
            self.say("no interpreter with torch was found: facts, identity and topology only")

    def _hindered(self, obstacle: Obstacle) -> End | Lost:
        audit = self._audit
        if obstacle.reason == "vanished" and audit.started is None and audit.starts < _MOST_STARTS:
            audit.attach = False
            return Lost("the connection broke before the probe was started")
        phase = "measure" if obstacle.reason == "vanished" else "start"
        return End(phase, show(obstacle.reason, 40), show(obstacle.detail, 300))

    def _take(self, frame: Frame, stream: Stream) -> bool:
        """Take one frame of a running audit; True when it was the last."""
        audit = self._audit
        if frame.kind == "progress":
            audit.offset += len(frame.payload)
            self._progress.feed(frame.payload)
        elif frame.kind == "ended":
            closing = _decoded(frame, outcome.Closing)
            audit.closing = msgspec.structs.replace(closing, words=_shown(closing.words))
            if closing.sha256 is None:
                stream.send(b"bye\n", STOP_SECONDS)
        elif frame.kind == "record" and audit.closing:
            if hashlib.sha256(frame.payload).hexdigest() != audit.closing.sha256:
                raise Spoiled("the record does not fit its hash")
            self._keep(frame.payload)
            audit.kept = True
            stream.send(b"bye\n", STOP_SECONDS)
        elif frame.kind == "gone":
            audit.left([show(one) for one in _decoded(frame, Gone).left])
            return True
        elif frame.kind != "tick":
            raise Spoiled(f"it said {frame.kind!r} out of turn")
        return False

    def _without_python(self) -> End | Lost:
        """Why no Python could be used there, asked with nothing but a shell; that one may have found another."""
        stream = self._link.run("exec /bin/sh -s")
        said = bytearray()
        try:
            stream.send(_PREFLIGHT.read_bytes() + b"exit\n", HELLO_SECONDS)
            end = time.monotonic() + HELLO_SECONDS
            while time.monotonic() < end and len(said) < 65536 and b"end\tend" not in said:
                data = stream.read(0.5)
                if data is None:
                    break
                said += data
        finally:
            stream.close()
        cause = no_module.diagnose(said.decode("utf-8", "replace"), "python3", "")
        if cause.python and self._audit.python is None and _PATH.fullmatch(cause.python):
            self._audit.python = cause.python
            return Lost("its first Python cannot be used, another one can")
        return End("start", cause.reason, cause.detail)

    def say(self, text: str) -> None:
        """Tell the screen where it stands."""
        self._post(Step(self._audit.job.server, text))


def _expect(frame: Frame, kind: str) -> None:
    if frame.kind != kind:
        raise Spoiled(f"it said {frame.kind!r} instead of {kind!r}")


def _decoded(frame: Frame, kind: type[_T]) -> _T:
    """A frame's payload as known fields of known types; a stranger's nonsense ends the conversation."""
    try:
        return msgspec.json.decode(frame.payload, type=kind)
    except msgspec.DecodeError as error:
        raise Spoiled(f"its {frame.kind!r} cannot be understood ({show(error, 80)})") from None


def _shown(text: str | None) -> str | None:
    return None if text is None else show(text)


def _no_shell(error: Lost, frames: Frames) -> str:
    said = frames.said()
    quoted = f'; what it said: "{show(said, 160)}"' if said else ""
    if isinstance(error, _Silent):
        return f"its login shell neither ran our command nor ended in {HELLO_SECONDS:.0f} s{quoted}"
    return (
        f"its login shell ended before it ran our command{quoted}. A ~/.bashrc or ~/.profile there that fails or ends "
        "the shell does that, and so does a user who may not log in: try another user, or mend that file"
    )
