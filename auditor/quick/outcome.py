"""What is to be measured on one server, and how its audit ended, in the words of the run folder's states."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from typing import Any

import msgspec

from auditor.showing import show

Detail = str | int | float | bool | None


class Job(msgspec.Struct, frozen=True):
    """What is to be measured on one server."""

    server: str
    run: str
    nonce: str
    profile: str
    probe: bytes
    options: tuple[str, ...] = ()
    python: str | None = None
    directory: str | None = None
    limit: float = 300.0
    linger: float = 90.0


class Outcome(msgspec.Struct, frozen=True):
    """How it ended: `reason` is a fixed word, None where the audit came to its own end."""

    phase: str
    reason: str | None = None
    detail: str | None = None
    details: dict[str, Detail] = {}


class End(Exception):
    """The audit of this server is over; raised from wherever that shows."""

    def __init__(self, phase: str, reason: str | None, detail: str | None = None) -> None:
        super().__init__(detail)
        self.outcome = Outcome(phase, reason, detail)


class Started(msgspec.Struct, frozen=True):
    """What the agent chose on the server; `bringer` is what could bring torch where there is none."""

    folder: str
    interpreter: str | None = None
    torch: str | None = None
    cuda: str | None = None
    bringer: str | None = None


class Closing(msgspec.Struct, frozen=True):
    """How the probe ended: exit code, last words, the record's hash where there is one."""

    code: int | None = None
    words: str | None = None
    too_large: bool = False
    sha256: str | None = None


class Obstacle(msgspec.Struct, frozen=True):
    """Why the agent could not start or find the probe."""

    reason: str
    detail: str = ""


class Gone(msgspec.Struct, frozen=True):
    """What the agent could not remove."""

    left: list[str] = []


def without_record(closing: Closing) -> Outcome:
    """The outcome of a probe that left no record."""
    words = f" ({closing.words})" if closing.words else ""
    if closing.too_large:
        return Outcome("collect", "record_refused", "the record has more than 8 MiB")
    if closing.code is None or closing.code < 0:
        return Outcome(
            "measure", "probe_died", f"the probe was killed from outside, or its machine ran out of memory{words}"
        )
    return Outcome("measure", "no_record", f"the probe ended with code {closing.code} and wrote no record{words}")


@dataclasses.dataclass
class Audit:
    """What is known of one audit across its connections.

    `attach`: something may run there; `heard`: when the agent last said anything; `offset`: bytes of progress taken.
    """

    job: Job
    python: str | None = None
    began: float = dataclasses.field(default_factory=time.monotonic)
    heard: float = dataclasses.field(default_factory=time.monotonic)
    met: bool = False
    attach: bool = False
    starts: int = 0
    offset: int = 0
    stop_sent: float | None = None
    started: Started | None = None
    closing: Closing | None = None
    kept: bool = False
    details: dict[str, Detail] = dataclasses.field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether all there was to fetch is here."""
        return self.closing is not None and (self.kept or self.closing.sha256 is None)

    def left(self, left: list[str]) -> None:
        """Note what could not be removed."""
        if left:
            self.details["left_behind"] = show("; ".join(left))


def request(audit: Audit, wish: str) -> dict[str, Any]:
    """What the agent is asked for: `start`, or `attach` to the probe of this job."""
    job = audit.job
    if wish == "attach":
        folder = audit.started.folder if audit.started else None
        return {"do": "attach", "nonce": job.nonce, "folder": folder, "offset": audit.offset}
    return {
        "do": "start",
        "server": job.server,
        "run": job.run,
        "nonce": job.nonce,
        "profile": job.profile,
        "options": list(job.options),
        "interpreter": job.python,
        "directory": job.directory,
        "limit": job.limit,
        "linger": job.linger,
        "size": len(job.probe),
        "sha256": hashlib.sha256(job.probe).hexdigest(),
    }
