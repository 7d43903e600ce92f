"""One server's audit from the first connection to the last removed file, through cuts and Ctrl-C.

A conversation is one connection; when it breaks, the next one attaches to the probe that still runs. Every wait has an
end (threat C06): silence, each step, the whole.
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

from auditor import no_module
from auditor.errors import UserError
from auditor.quick import courier, outcome
from auditor.quick.connect import Unreachable
from auditor.quick.events import Post, Progress, Step
from auditor.quick.frames import Frame, Frames
from auditor.quick.link import Ended, Flooded, Link, Lost, Spoiled, Stream
from auditor.quick.outcome import Closing, Detail, End, Gone, Job, Obstacle, Outcome, Started
from auditor.showing import show

_PREFLIGHT = Path(__file__).parents[2] / "plugins" / "files" / "preflight.sh"
_HELLO_SECONDS = 20.0
_START_SECONDS = 60.0
_SILENCE_SECONDS = 12.0
_RECONNECT_SECONDS = 60.0
_STOP_SECONDS = 10.0
_SPARE_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_T = TypeVar("_T")


class Session:
    """The audit of one server, run on a thread of its own."""

    def __init__(
        self,
        job: Job,
        open_link: Callable[[], Link],
        post: Post,
        keep: Callable[[bytes], None],
        stop: threading.Event,
    ) -> None:
        self._job, self._open, self._post, self._keep, self._stop = job, open_link, post, keep, stop
        self._progress = Progress(job.server, post)
        self._digest = hashlib.sha256(job.probe).hexdigest()
        self._began = self._heard = time.monotonic()
        self._offset = 0
        self._starts = 0
        self._met = False
        self._attach = False
        self._stop_sent: float | None = None
        self._started: Started | None = None
        self._closing: Closing | None = None
        self._kept = False
        self._python: str | None = None
        self._details: dict[str, Detail] = {}

    def run(self) -> Outcome:
        """Audit; never raises for anything the server or the network does."""
        try:
            return self._with_details(self._through_cuts())
        except End as end:
            return self._with_details(end.outcome)
        except UserError as error:
            return Outcome("reach", "ssh_config", str(error))
        except Spoiled as error:
            return self._with_details(Outcome("measure", "spoiled_answer", f"{error}: it was left alone"))
        except Flooded as error:
            return self._with_details(Outcome("measure", "flooded", f"it sent {error}: it was left alone"))

    def _through_cuts(self) -> Outcome:
        while True:
            try:
                self._converse()
                return self._judged()
            except Unreachable as error:
                if not self._met and not self._worth_another_try(error):
                    raise End("reach", error.reason, str(error)) from None
                if error.reason != "unreachable":
                    raise End("measure", error.reason, f"the connection was lost, and then: {error}") from None
                said = str(error)
            except Lost as error:
                said = str(error)
            if self._complete():
                self._left([f"the connection broke; what is left goes by itself after {self._job.linger:.0f} s"])
                return self._judged()
            self._give_up_or_wait(said)

    def _worth_another_try(self, error: Unreachable) -> bool:
        """A first connection that broke in the middle gets a second and a third one."""
        self._starts += 1
        return error.passing and self._starts < 3 and not self._stop.is_set()

    def _give_up_or_wait(self, said: str) -> None:
        gone = time.monotonic() - self._heard
        if gone > (_STOP_SECONDS if self._stop.is_set() else _RECONNECT_SECONDS):
            reason = "stopped" if self._stop.is_set() else "connection_lost"
            raise End(
                "measure",
                reason,
                f"the connection was lost ({said}) and could not be made again in {gone:.0f} s; the probe there ends "
                f"by itself after {self._job.limit:.0f} s at the latest and removes everything",
            )
        self._say(f"connection lost ({show(said, 120)}); connecting again")
        time.sleep(_PAUSE_SECONDS)

    def _converse(self) -> None:
        """One connection, from the agent's start to its goodbye.

        Raises:
            Unreachable, Lost, Flooded, End: it did not come so far.
        """
        if self._stop.is_set() and not self._attach:
            raise End("reach", "stopped", "stopped before the probe was started")
        if not self._attach:
            self._say("connecting")
        link = self._open()
        stream: Stream | None = None
        try:
            mark = courier.marker()
            stream = link.run(courier.command(mark, self._job.python or self._python))
            frames = Frames(stream, mark)
            self._talk(link, stream, frames)
        finally:
            if stream:
                stream.close()
            link.close()

    def _talk(self, link: Link, stream: Stream, frames: Frames) -> None:
        try:
            stream.send(courier.agent(frames.mark), _HELLO_SECONDS)
            frame = self._next(stream, frames, _HELLO_SECONDS)
        except (Ended, _Silent) as error:
            time.sleep(0.2)  # a connection that breaks ends its commands first
            if self._met or not link.alive():
                raise
            raise End("start", "no_shell", _no_shell(error, frames)) from None
        if frame.kind == "no_python":
            raise self._no_python(link)
        self._expect(frame, "hello")
        self._met = True
        self._ask(stream)
        frame = self._next(stream, frames, _START_SECONDS)
        if frame.kind == "obstacle":
            self._meet(_decoded(frame, Obstacle))
            return
        self._expect(frame, "started")
        self._start(_decoded(frame, Started))
        while not self._hear(self._next(stream, frames, _SILENCE_SECONDS), stream):
            pass

    def _ask(self, stream: Stream) -> None:
        wish = "attach" if self._attach else "start"
        folder = self._started.folder if self._started else None
        line = json.dumps(outcome.request(self._job, wish, folder, self._offset, self._digest)).encode("ascii") + b"\n"
        if wish == "start":
            self._say("sending the probe")
            self._attach = True  # from here on it may run there
            line += self._job.probe
        stream.send(line, _HELLO_SECONDS)

    def _next(self, stream: Stream, frames: Frames, patience: float) -> Frame:
        """The next frame; passes a stop on while it waits."""
        last = time.monotonic()
        while True:
            self._pass_stop_on(stream)
            frame = frames.next(0.1)
            if frame is not None:
                self._heard = time.monotonic()
                return frame
            now = time.monotonic()
            if now - last > patience:
                raise _Silent(f"nothing came for {now - last:.0f} s")
            if now - self._began > self._job.limit + _SPARE_SECONDS:
                raise End("measure", "timed_out", f"it did not end within {now - self._began:.0f} s")

    def _pass_stop_on(self, stream: Stream) -> None:
        if not self._stop.is_set() or self._closing:
            return
        if self._stop_sent is None and self._started:
            self._stop_sent = time.monotonic()
            self._say("stopping the probe")
            stream.send(b"stop\n", _STOP_SECONDS)
        elif not self._attach:
            raise End("start", "stopped", "stopped before the probe was started")
        elif self._stop_sent is not None and time.monotonic() - self._stop_sent > _STOP_SECONDS:
            raise End("measure", "stopped", "it did not stop when told; it ends by itself at its time limit")

    def _start(self, started: Started) -> None:
        if self._started:
            self._say("connected again; the probe went on")
            self._stop_sent = None
            return
        self._started = started
        self._details.update(interpreter=_shown(started.interpreter), torch=_shown(started.torch),
                             cuda=_shown(started.cuda), bringer=_shown(started.bringer))  # fmt: skip
        if started.torch:
            build = f"CUDA {show(started.cuda, 20)}" if started.cuda else "no CUDA"
            self._say(f"measuring with {show(started.interpreter)} (torch {show(started.torch, 40)}, {build})")
        else:
            self._say("no interpreter with torch was found: facts, identity and topology only")

    def _meet(self, obstacle: Obstacle) -> None:
        if obstacle.reason == "vanished" and self._started is None and self._starts < 3:
            self._starts += 1
            self._attach = False  # the cut came before the start
            raise Lost("the connection broke before the probe was started")
        phase = "measure" if obstacle.reason == "vanished" else "start"
        raise End(phase, show(obstacle.reason, 40), show(obstacle.detail, 300))

    def _hear(self, frame: Frame, stream: Stream) -> bool:
        """Take one frame of a running audit; True when it was the last."""
        if frame.kind == "progress":
            self._offset += len(frame.payload)
            self._progress.feed(frame.payload)
        elif frame.kind == "ended":
            self._closing = _decoded(frame, Closing)
            if self._closing.sha256 is None:
                stream.send(b"bye\n", _STOP_SECONDS)
        elif frame.kind == "record" and self._closing:
            if hashlib.sha256(frame.payload).hexdigest() != self._closing.sha256:
                raise Spoiled("the record does not fit its hash")
            self._keep(frame.payload)
            self._kept = True
            stream.send(b"bye\n", _STOP_SECONDS)
        elif frame.kind == "gone":
            self._left([show(one) for one in _decoded(frame, Gone).left])
            return True
        elif frame.kind != "tick":
            raise Spoiled(f"it said {frame.kind!r} out of turn")
        return False

    def _complete(self) -> bool:
        return self._closing is not None and (self._kept or self._closing.sha256 is None)

    def _judged(self) -> Outcome:
        """How a probe that ended has to be noted."""
        if self._closing is None:
            raise End("measure", "connection_lost", "it never said how the probe ended")
        if self._stop.is_set() and self._stop_sent is not None:
            kept = "what it had measured was kept" if self._kept else "it had nothing to hand over yet"
            return Outcome("measure", "stopped", f"stopped after {time.monotonic() - self._began:.0f} s; {kept}")
        if not self._kept:
            return outcome.without_record(_fit(self._closing))
        if self._started and self._started.torch is None:
            return Outcome("done", "no_torch", "no interpreter with torch was found there")
        return Outcome("done")

    def _no_python(self, link: Link) -> End | Lost:
        """Why no Python could be used there, asked with nothing but a shell; that one may have found another."""
        stream = link.run("exec /bin/sh -s")
        stream.send(_PREFLIGHT.read_bytes() + b"exit\n", _HELLO_SECONDS)
        said = bytearray()
        end = time.monotonic() + _HELLO_SECONDS
        while time.monotonic() < end and len(said) < 65536 and b"end\tend" not in said:
            data = stream.read(0.5)
            if data is None:
                break
            said += data
        stream.close()
        cause = no_module.diagnose(said.decode("utf-8", "replace"), "python3", "")
        if cause.python and self._python is None and re.fullmatch(r"/[A-Za-z0-9_./+-]{1,200}", cause.python):
            self._python = cause.python
            return Lost("its first Python cannot be used, another one can")
        return End("start", cause.reason, cause.detail)

    def _left(self, left: list[str]) -> None:
        if left:
            self._details["left_behind"] = show("; ".join(left))

    def _say(self, text: str) -> None:
        self._post(Step(self._job.server, text))

    def _with_details(self, ended: Outcome) -> Outcome:
        return msgspec.structs.replace(ended, details={**self._details, **ended.details})

    def _expect(self, frame: Frame, kind: str) -> None:
        if frame.kind != kind:
            raise Spoiled(f"it said {frame.kind!r} instead of {kind!r}")


class _Silent(Lost):
    """Nothing came in time."""


def _decoded(frame: Frame, kind: type[_T]) -> _T:
    """A frame's payload as known fields of known types; a stranger's nonsense ends the conversation."""
    try:
        return msgspec.json.decode(frame.payload, type=kind)
    except msgspec.DecodeError as error:
        raise Spoiled(f"its {frame.kind!r} cannot be understood ({show(error, 80)})") from None


def _fit(closing: Closing) -> Closing:
    return msgspec.structs.replace(closing, words=_shown(closing.words))


def _shown(text: str | None) -> str | None:
    return None if text is None else show(text)


def _no_shell(error: Lost, frames: Frames) -> str:
    said = frames.said()
    quoted = f'; what it said: "{show(said, 160)}"' if said else ""
    if isinstance(error, _Silent):
        return f"its login shell neither ran our command nor ended in {_HELLO_SECONDS:.0f} s{quoted}"
    return (
        f"its login shell ended before it ran our command{quoted}. A ~/.bashrc or ~/.profile there that fails or ends "
        "the shell does that, and so does a user who may not log in: try another user, or mend that file"
    )
