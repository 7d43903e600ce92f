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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import click
import msgspec

from auditor import reading
from auditor.errors import UserError
from auditor.order import Order
from auditor.quick.events import Closed, Event, Post
from auditor.quick.link import Link
from auditor.quick.login import Ask
from auditor.quick.outcome import Job, Outcome
from auditor.quick.session import Session
from auditor.transport import collect

_GIVE_UP_SECONDS = 14.0
_GIVE_UP_UNBEGUN_SECONDS = 1.0
_WAITING_NEWS = 4096  # a server that floods its news waits until they are shown


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
        """The run is over."""

    def pause(self) -> None:
        """A person is asked something: leave the terminal to them."""

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
    try:
        folder = collect.open_run(
            wish.results, "quick", wanted, profile=wish.profile, of_inventory=len(servers), lang=wish.lang
        )
    except UserError as error:
        raise UserError(str(error).replace("-e audit_results=DIR", "--results DIR")) from None
    news: queue.Queue[Event | _Question] = queue.Queue(_WAITING_NEWS)
    stop = threading.Event()
    sessions = {server.name: _session(server, wish, folder, news, stop) for server in servers}
    threads = {
        name: threading.Thread(target=_run, args=(folder, name, session, news), name=name, daemon=True)
        for name, session in sessions.items()
    }
    screen.open(list(sessions))
    try:
        with _signals(stop):
            for thread in threads.values():
                thread.start()
            _watch(sessions, threads, news, screen, stop)
    finally:
        screen.close()
        for name in sessions:
            known = collect.state(folder, name)
            if known is None or known.finished is None:
                collect.note(folder, name, known.phase if known else "reach", "stopped", "stopped by the user")
        collect.close_run(folder)
    return folder


def _session(
    server: Server, wish: Wish, folder: Path, news: queue.Queue[Event | _Question], stop: threading.Event
) -> Session:
    job = Job(
        server=server.name,
        run=folder.name,
        nonce=collect.nonce(folder, server.name) or "",
        profile=wish.profile,
        probe=wish.probe,
        options=wish.options,
        python=wish.python,
        directory=wish.directory,
        limit=wish.limit,
    )

    def keep(record: bytes) -> None:
        collect.keep_record(folder, server.name, record)

    def ask(text: str) -> str | None:
        if not sys.stdin.isatty():
            return None
        question = _Question(text, queue.Queue(1))
        news.put(question)
        return question.answer.get()

    post: Post = news.put
    return Session(job, lambda: server.link(ask), post, keep, stop)


def _run(folder: Path, name: str, session: Session, news: queue.Queue[Event | _Question]) -> None:
    """A session's thread: its outcome becomes the server's state."""
    collect.note(folder, name, "reach")
    outcome = session.run()
    if outcome.phase == "done" and (refused := _refusal(folder, name)):
        outcome = Outcome("collect", "record_refused", refused, outcome.details)
    state = collect.note(folder, name, outcome.phase, outcome.reason, outcome.detail, **outcome.details)
    news.put(Closed(name, state))


def _refusal(folder: Path, name: str) -> str | None:
    """Why the record that came is not accepted."""
    read = reading.read_file(folder / "servers" / name / "record.json")
    return str(read) if isinstance(read, reading.Refused) else None


def _watch(
    sessions: Mapping[str, Session],
    threads: Mapping[str, threading.Thread],
    news: queue.Queue[Event | _Question],
    screen: Screen,
    stop: threading.Event,
) -> None:
    """Pass news on until all sessions ended, or the time they have after Ctrl-C is over."""
    stopped: float | None = None
    while True:
        alive = [name for name, thread in threads.items() if thread.is_alive()]
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
            begun = any(sessions[name].begun for name in alive)
            if time.monotonic() - stopped > (_GIVE_UP_SECONDS if begun else _GIVE_UP_UNBEGUN_SECONDS):
                return


def _answer(text: str, screen: Screen, stop: threading.Event) -> str | None:
    """What the person types, unseen; None when they would rather stop."""
    if stop.is_set():
        return None
    screen.pause()
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
