"""One server's audit from the first connection to the last removed file, through cuts and Ctrl-C."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec

from auditor.errors import UserError
from auditor.quick import conversation, outcome
from auditor.quick.connect import Unreachable
from auditor.quick.conversation import Conversation
from auditor.quick.events import Post, Progress, Step
from auditor.quick.link import Flooded, Link, Lost, Spoiled
from auditor.quick.outcome import Audit, End, Job, Outcome
from auditor.showing import show

RECONNECT_SECONDS = 60.0
PAUSE_SECONDS = 1.0
_MOST_FIRST_TRIES = 3


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
        self._audit = Audit(job)
        self._open, self._post, self._keep, self._stop = open_link, post, keep, stop
        self._progress = Progress(job.server, post)
        self._tries = 0

    @property
    def begun(self) -> bool:
        """Whether something of ours may run on the server."""
        return self._audit.attach

    def run(self) -> Outcome:
        """Audit; never raises for anything the server or the network does."""
        try:
            ended = self._through_cuts()
        except End as end:
            ended = end.outcome
        except UserError as error:
            ended = Outcome("reach", "ssh_config", str(error))
        except Spoiled as error:
            ended = Outcome("measure", "spoiled_answer", f"{error}: it was left alone")
        except Flooded as error:
            ended = Outcome("measure", "flooded", f"it sent {error}: it was left alone")
        return msgspec.structs.replace(ended, details={**self._audit.details, **ended.details})

    def _through_cuts(self) -> Outcome:
        audit = self._audit
        while True:
            try:
                self._converse()
                return self._judged()
            except Unreachable as error:
                if not audit.met:
                    self._try_again_or_end(error)
                elif error.reason != "unreachable":
                    raise End("measure", error.reason, f"the connection was lost, and then: {error}") from None
                said = str(error)
            except Lost as error:
                said = str(error)
            if audit.complete:
                audit.left([f"the connection broke; what is left goes by itself after {audit.job.linger:.0f} s"])
                return self._judged()
            self._give_up_or_wait(said)

    def _converse(self) -> None:
        audit = self._audit
        if self._stop.is_set() and not audit.attach:
            raise End("reach", "stopped", "stopped before the probe was started")
        if not audit.attach:
            self._say("connecting")
        link = self._open()
        try:
            Conversation(audit, link, self._progress, self._post, self._keep, self._stop).hold()
        finally:
            link.close()

    def _try_again_or_end(self, error: Unreachable) -> None:
        """A first connection that broke in the middle gets a second and a third one."""
        self._tries += 1
        if self._stop.is_set():  # also at a question that the person answered with Ctrl-C
            raise End("reach", "stopped", "stopped before the probe was started") from None
        if not error.passing or self._tries >= _MOST_FIRST_TRIES:
            raise End("reach", error.reason, str(error)) from None

    def _give_up_or_wait(self, said: str) -> None:
        job, gone = self._audit.job, time.monotonic() - self._audit.heard
        if gone > (conversation.STOP_SECONDS if self._stop.is_set() else RECONNECT_SECONDS):
            raise End(
                "measure",
                "stopped" if self._stop.is_set() else "connection_lost",
                f"the connection was lost ({said}) and could not be made again in {gone:.0f} s; the probe there ends "
                f"by itself after {job.limit:.0f} s at the latest and removes everything",
            )
        self._say(f"connection lost ({show(said, 120)}); connecting again")
        time.sleep(PAUSE_SECONDS)

    def _judged(self) -> Outcome:
        """How a probe that ended has to be noted."""
        audit = self._audit
        if audit.closing is None:
            return Outcome("measure", "connection_lost", "it never said how the probe ended")
        if self._stop.is_set() and audit.stop_sent is not None:
            kept = "what it had measured was kept" if audit.kept else "it had nothing to hand over yet"
            return Outcome("measure", "stopped", f"stopped after {time.monotonic() - audit.began:.0f} s; {kept}")
        if not audit.kept:
            return outcome.without_record(audit.closing)
        if audit.started and audit.started.torch is None and audit.started.interpreter:
            return Outcome("done", "no_torch", "no interpreter with torch was found there")
        return Outcome("done")

    def _say(self, text: str) -> None:
        self._post(Step(self._audit.job.server, text))
