"""One run over one or several servers: opens the run folder, lets the sessions go, passes news to the screen.

Everything that talks to the person happens on the main thread; a session that needs a password asks here.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import click
import msgspec

from auditor import collect, reading
from auditor.order import Order
from auditor.quick.events import Closed, Event, Post
from auditor.quick.link import Link
from auditor.quick.login import Ask
from auditor.quick.outcome import Job, Outcome
from auditor.quick.session import Session

_GIVE_UP_SECONDS = 14.0


class Server(msgspec.Struct, frozen=True):
    """One server of the run and the way to it."""

    name: str
    label: str | None
    order: Order | None
    link: Callable[[Ask], Link]


class Wish(msgspec.Struct, frozen=True):
    """What is to be measured, the same on every server."""

    profile: str
    probe: bytes
    results: Path
    limit: float
    options: tuple[str, ...] = ()
    python: str | None = None
    directory: str | None = None
    lang: str | None = None


class Screen(Protocol):
    """Whatever shows the run to a person."""

    def open(self, names: list[str]) -> None:
        """The run begins."""

    def take(self, event: Event) -> None:
        """News of one server."""

    def tick(self) -> None:
        """Nothing new; time passes."""

    def close(self) -> None:
        """The run is over, or a person is asked something."""

    def resume(self) -> None:
        """Go on after a question."""


class _Question(msgspec.Struct, frozen=True):
    text: str
    answer: queue.Queue[str | None]


def audit(servers: list[Server], wish: Wish, screen: Screen) -> Path:
    """Audit all servers at once; returns the run folder, every server's state written.

    Raises:
        UserError: the run folder cannot be made.
    """
    wanted = [collect.Wanted(server.name, server.order, server.label) for server in servers]
    folder = collect.open_run(
        wish.results, "quick", wanted, profile=wish.profile, of_inventory=len(servers), lang=wish.lang
    )
    news: queue.Queue[Event | _Question] = queue.Queue()
    stop = threading.Event()
    threads = [
        threading.Thread(target=_one, args=(server, wish, folder, news, stop), name=server.name, daemon=True)
        for server in servers
    ]
    screen.open([server.name for server in servers])
    try:
        with _signals(stop):
            for thread in threads:
                thread.start()
            _watch(threads, news, screen, stop)
    finally:
        screen.close()
    for server in servers:
        known = collect.state(folder, server.name)
        if known is None or known.finished is None:
            collect.note(folder, server.name, known.phase if known else "reach", "stopped", "stopped by the user")
    collect.close_run(folder)
    return folder


def _one(server: Server, wish: Wish, folder: Path, news: queue.Queue[Event | _Question], stop: threading.Event) -> None:
    """A session's thread: its outcome becomes the server's state."""
    collect.note(folder, server.name, "reach")
    nonce = collect.nonce(folder, server.name) or ""
    job = Job(
        server=server.name,
        run=folder.name,
        nonce=nonce,
        profile=wish.profile,
        probe=wish.probe,
        options=wish.options,
        python=wish.python,
        directory=wish.directory,
        limit=wish.limit,
    )
    refused: list[str] = []

    def keep(record: bytes) -> None:
        collect.keep_record(folder, server.name, record)
        read = reading.read_bytes(record)
        if isinstance(read, reading.Refused):
            refused.append(str(read))

    def ask(text: str) -> str | None:
        if not sys.stdin.isatty():
            return None
        question = _Question(text, queue.Queue(1))
        news.put(question)
        return question.answer.get()

    post: Post = news.put
    outcome = Session(job, lambda: server.link(ask), post, keep, stop).run()
    if refused and outcome.reason is None:
        outcome = Outcome("collect", "record_refused", refused[0], outcome.details)
    state = collect.note(folder, server.name, outcome.phase, outcome.reason, outcome.detail, **outcome.details)
    post(Closed(server.name, state))


def _watch(
    threads: list[threading.Thread], news: queue.Queue[Event | _Question], screen: Screen, stop: threading.Event
) -> None:
    """Pass news on until all sessions ended, or the time they have after Ctrl-C is over."""
    stopped: float | None = None
    while True:
        alive = any(thread.is_alive() for thread in threads)
        try:
            event = news.get(timeout=0.1)
        except queue.Empty:
            screen.tick()
            if not alive:
                return
        else:
            if isinstance(event, _Question):
                event.answer.put(_answer(event.text, screen, stop))
            else:
                screen.take(event)
        if stop.is_set():
            stopped = stopped or time.monotonic()
            if time.monotonic() - stopped > _GIVE_UP_SECONDS:
                return


def _answer(text: str, screen: Screen, stop: threading.Event) -> str | None:
    """What the person types, unseen; None when they would rather stop."""
    if stop.is_set():
        return None
    screen.close()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return str(click.prompt(text, hide_input=True, prompt_suffix="", err=True, default="", show_default=False))
    except (click.Abort, KeyboardInterrupt):
        stop.set()
        return None
    finally:
        signal.signal(signal.SIGINT, before)
        screen.resume()


@contextlib.contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """The first Ctrl-C (or a hang-up, or a polite kill) stops the servers; a second one leaves at once."""

    def on_signal(number: int, frame: object) -> None:
        if stop.is_set():
            raise click.Abort
        stop.set()

    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, on_signal) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
