"""The server's end of one SSH connection: starts the probe or finds the one that runs, tells how it goes, hands over.

It speaks in frames: marker, kind, length, payload; whatever else the login shell prints lies between them.
It lives as long as its connection; the keeper and the probe outlive it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import queue
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ansible.module_utils import detached, guest_folder

from auditor.quick.onserver import keeper, notes, place
from auditor.quick.onserver.notes import Obstacle

RECORD_LIMIT = 8 << 20
CHUNK = 32768
STOP_GRACE = 1.2
"""Then its workers are killed: the GPUs are free within 2 s of a stop."""
WRITING = 3.0
"""What a probe on a busy server may still need to write down what was measured."""


def main(marker: str, stdin: IO[bytes], stdout: IO[bytes]) -> None:
    """Answer one request, `start` or `attach`, and follow the probe to its end."""

    def say(kind: str, payload: bytes | dict[str, Any] = b"") -> None:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode("ascii")
        stdout.write(b"\n%s %s %d\n%s\n" % (marker.encode("ascii"), kind.encode("ascii"), len(data), data))
        stdout.flush()

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        _serve(say, stdin)
    finally:
        os._exit(0)  # the thread that reads stdin would hold up an ordinary end


def _serve(say: Callable[..., None], stdin: IO[bytes]) -> None:
    try:
        say("hello", {"python": platform.python_version()})
        request = json.loads(stdin.readline() or b"{}")
        if request.get("do") == "start":
            folder, about = _start(request, stdin.read(request["size"]))
        elif request.get("do") == "attach":
            folder, about = _attach(request), {}
        else:
            return
        say("started", {"folder": str(folder), **about})
        _follow(folder, request.get("offset", 0), say, stdin)
    except Obstacle as obstacle:
        say("obstacle", {"reason": obstacle.reason, "detail": str(obstacle)})
    except OSError as error:
        say("obstacle", {"reason": "not_started", "detail": f"{error.filename or 'here'}: {error.strerror}"})
    except Exception as error:  # noqa: BLE001  # the last border on this side: silence would look like a cut line
        say("obstacle", {"reason": "not_started", "detail": f"the agent failed: {type(error).__name__}: {error}"})


def _start(request: dict[str, Any], payload: bytes) -> tuple[Path, dict[str, Any]]:
    """Make the private folder, write the probe there, leave it with its keeper; (folder, what was chosen)."""
    if hashlib.sha256(payload).hexdigest() != request["sha256"]:
        raise Obstacle("damaged", "the probe file arrived damaged")
    for folder in guest_folder.ours():
        told = notes.read(folder / notes.RUN)
        if detached.alive(notes.keeper(folder)) and not (folder / notes.EXIT).exists():
            raise Obstacle("busy", f"the audit of run {told.get('run')} is under way here; try again when it has ended")
        if told or (notes.age(folder) or 0) > 60:  # a younger one without run.json may be starting this moment
            guest_folder.remove(folder)
    interpreter, torch, cuda = place.interpreter(request.get("interpreter"))
    folder = place.folder(request.get("directory"))
    try:
        probe = folder / notes.PROBE
        probe.write_bytes(payload)
        argv = [interpreter, str(probe), "--server", request["server"], "--run", request["run"]]
        argv += ["--nonce", request["nonce"], "--profile", request["profile"], *request["options"]]
        argv += ["--out", str(folder / notes.RECORD), "--status", str(folder / notes.STATUS)]
        lock = place.lock(folder)
        keeper.fork(folder, [*argv, "--lock", lock] if lock else argv, {**request, "lock": lock})
    except BaseException:
        guest_folder.remove(folder)
        raise
    about = {"interpreter": interpreter, "torch": torch, "cuda": cuda}
    return folder, {**about, "bringer": None if torch else place.bringer(interpreter)}


def _attach(request: dict[str, Any]) -> Path:
    """The folder of the audit with this nonce; it may have ended meanwhile."""
    folders: list[Path] = [Path(request["folder"])] if request.get("folder") else []
    folders += guest_folder.ours()
    for folder in folders:
        if guest_folder.is_ours(folder) and notes.read(folder / notes.RUN).get("nonce") == request["nonce"]:
            return folder
    raise Obstacle("vanished", "the audit's folder is gone: the server was restarted, or something removed it")


def _follow(folder: Path, offset: int, say: Callable[..., None], stdin: IO[bytes]) -> None:
    """Send the progress from `offset` on, then the record; obey `stop` and `bye`."""
    words: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_listen, args=(stdin, words), daemon=True).start()
    ticked = 0.0
    while True:
        if time.monotonic() - ticked > 1.0:
            ticked = time.monotonic()
            with contextlib.suppress(OSError):
                (folder / notes.ATTACHED).touch()
            say("tick")
        ended = (folder / notes.EXIT).exists() or not detached.alive(notes.keeper(folder))
        offset = _progress(folder, offset, say)
        if ended:
            break
        word = _heard(words, 0.1)
        if word == "stop":
            detached.end(notes.probe(folder), folder, STOP_GRACE, WRITING)
        elif word is None:
            return  # the connection is gone; the keeper is not
    _hand_over(folder, say)
    if _heard(words, 60.0) == "bye":
        say("gone", {"left": _clean(folder)})


def _listen(stdin: IO[bytes], words: queue.Queue[str | None]) -> None:
    """Lines from the controller into the queue; None when it is gone."""
    for line in iter(stdin.readline, b""):
        words.put(line.strip().decode("ascii", "replace"))
    words.put(None)


def _heard(words: queue.Queue[str | None], seconds: float) -> str | None:
    """The controller's next word; empty when it said nothing, None when it is gone."""
    try:
        return words.get(timeout=seconds)
    except queue.Empty:
        return ""


def _progress(folder: Path, offset: int, say: Callable[..., None]) -> int:
    """Send what the probe wrote since `offset`; returns the new offset."""
    with contextlib.suppress(OSError), (folder / notes.PROGRESS).open("rb") as file:
        if os.fstat(file.fileno()).st_size < offset:
            offset = 0  # the keeper shortened it
        file.seek(offset)
        for data in iter(lambda: file.read(CHUNK), b""):
            offset += len(data)
            say("progress", data)
    return offset


def _hand_over(folder: Path, say: Callable[..., None]) -> None:
    """How the probe ended, then its record if it is there and not too large."""
    record = guest_folder.read_capped(folder / notes.RECORD, RECORD_LIMIT)
    large = record is not None and len(record) > RECORD_LIMIT
    digest = hashlib.sha256(record).hexdigest() if record is not None and not large else None
    code = notes.read(folder / notes.EXIT).get("code")
    words = notes.last_words(folder / notes.PROGRESS)
    say("ended", {"code": code, "words": words, "too_large": large, "sha256": digest})
    if digest is not None:
        say("record", record)


def _clean(folder: Path) -> list[str]:
    """Remove everything of this audit and wait for the keeper to go; what would not go, in words."""
    waiting = notes.keeper(folder)
    problem = guest_folder.remove(folder)
    end = time.monotonic() + 2.0
    while detached.alive(waiting) and time.monotonic() < end:
        time.sleep(0.02)
    with contextlib.suppress(ChildProcessError):  # ours, unless an earlier agent forked it
        os.waitpid(-1, os.WNOHANG)
    stuck = detached.end(waiting if detached.alive(waiting) else None, folder, 0.5)
    return ([problem] if problem else []) + [f"process {pid} would not end" for pid in stuck]
