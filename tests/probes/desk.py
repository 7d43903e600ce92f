"""A probe's real Context without an engine around it: what it tells is kept, questions are answered at once."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from auditor.probes.engine.channel import Channel
from auditor.probes.engine.context import Assignment, Context
from auditor.probes.engine.gpu_facts import GpuFacts
from auditor.probes.engine.kernels import Kernels
from auditor.probes.engine.nvml import Nvml
from auditor.records import Reading


class Desk:
    """A context, and what the parent would have heard."""

    def __init__(self, context: Context, said: list[dict[str, Any]]) -> None:
        self.context, self.said = context, said

    def heard(self, kind: str) -> list[dict[str, Any]]:
        """Messages of one kind: cut, note, attach, series."""
        return [message for message in self.said if message["say"] == kind]

    def attachment(self, name: str) -> str | None:
        """An attachment's text."""
        return next((m["text"] for m in self.heard("attach") if m["name"] == name), None)


@contextmanager
def desk(
    key: str,
    folder: Path,
    *,
    profile: str = "quick",
    device: str = "cpu",
    gpus: tuple[GpuFacts, ...] = (),
    seconds: float = 30.0,
    path: Path | None = None,
    known: list[dict[str, Any]] | None = None,
    subject: str = "server",
    scope: str = "server",
    answers: dict[str, Any] | None = None,
) -> Iterator[Desk]:
    """A desk for one probe; the other end reads all that is said, and answers questions from `answers`."""
    ours, theirs = socket.socketpair()
    said: list[dict[str, Any]] = []

    def listen() -> None:
        for line in ours.makefile("rb"):
            message = json.loads(line)
            said.append(message)
            if message["say"] == "ask":
                answer = (answers or {}).get(message["what"], {})
                ours.sendall(json.dumps({"answer": answer}).encode() + b"\n")

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    facts = None
    if known is not None:
        facts = folder / "known.json"
        facts.write_text(json.dumps(known), encoding="utf-8")
    assignment = Assignment(
        key=key,
        scope=scope,
        profile=profile,
        device=device,
        subject=subject,
        deadline=time.monotonic() + seconds,
        directory=str(folder),
        seed=7,
        gpus=gpus,
        path=str(path) if path else None,
        known=str(facts) if facts else None,
    )
    channel = Channel(theirs.detach())
    try:
        yield Desk(Context(assignment, channel, Nvml(), Kernels()), said)
    finally:
        channel._socket.shutdown(socket.SHUT_RDWR)
        listener.join(5)
        ours.close()
        channel._reader.close()
        channel._socket.close()


def values(readings: list[Reading], metric: str, **conditions: Any) -> list[Any]:
    """Values of one metric under the named conditions."""
    return [
        reading.value
        for reading in readings
        if reading.metric == metric and conditions.items() <= reading.conditions.items()
    ]


def gone(pid: int, seconds: float = 5.0) -> bool:
    """Whether a process that is no child of ours has ended, waiting a little for a kill that is under way."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)
