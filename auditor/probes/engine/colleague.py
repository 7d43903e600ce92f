"""The parent's side of one of its processes: started, spoken with, ended; never waited for without limit."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from typing import Dict, List, Optional

import auditor

from . import process_tree
from .channel import Lines, Message, encode

_TAIL = 4096


def command(role: str, fileno: int, parent: int) -> List[str]:
    """How this program starts itself again in another role: the same file, be it a pyz or a folder."""
    root = _root()
    start = [root] if os.path.isfile(root) else ["-m", "auditor.probes"]
    return [sys.executable, *start, "--as", role, str(fileno), str(parent)]


def _root() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(auditor.__file__)))


class Colleague:
    """One process of ours. `name` is unique in the audit; a replacement has a name of its own."""

    def __init__(self, name: str, role: str, environment: Dict[str, str], directory: str) -> None:
        self.name, self.word = name, "%s-%d" % (name, os.getpid())
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        path = [_root()] if os.path.isdir(_root()) else []
        path += [p for p in [environment.get("PYTHONPATH")] if p]
        env = {**environment, process_tree.MARK: self.word, "PYTHONPATH": os.pathsep.join(path)}
        if not path:
            del env["PYTHONPATH"]
        self.process = subprocess.Popen(  # noqa: S603  # our own program, no shell
            command(role, theirs.fileno(), os.getpid()),
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=write,
            env=env,
            cwd=directory,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        gone = process_tree.Entry(self.process.pid, -1, os.getpid(), "Z", "")
        self._identity = process_tree.entry(self.process.pid) or gone
        theirs.close()
        os.close(write)
        ours.setblocking(False)
        os.set_blocking(read, False)
        self.socket, self.noise, self.started = ours, read, time.monotonic()
        self.tail = b""
        self.noisy, self.stuck = True, False
        self._lines, self._outgoing = Lines(), b""
        self._open = True

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def send(self, message: Message) -> None:
        """Queue a message; it leaves when the other side takes it."""
        self._outgoing += encode(message)
        self.flush()

    def flush(self) -> None:
        """Send what the socket takes now."""
        try:
            while self._outgoing and self._open:
                self._outgoing = self._outgoing[self.socket.send(self._outgoing) :]
        except BlockingIOError:
            pass
        except OSError:
            self._outgoing = b""

    @property
    def events(self) -> int:
        """What to wait for on its socket."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)

    def receive(self) -> Optional[List[Message]]:
        """What it said since the last look; None once it has closed its end."""
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return self._lines.feed(data) if data else None

    def listen(self) -> bool:
        """Keep the end of what it prints; False when it has closed that."""
        try:
            data = os.read(self.noise, 65536)
        except BlockingIOError:
            return True
        self.tail = (self.tail + data)[-_TAIL:]
        self.noisy = bool(data)
        return self.noisy

    def died(self) -> bool:
        """Whether it has ended by itself."""
        return self.process.poll() is not None

    def last_words(self) -> str:
        """How it ended, and the last line it printed. Its socket closes a moment before it is gone."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=1.0)
        while self.noisy and self._more() and self.listen():
            pass
        code = self.process.poll()
        if code is None:
            how = "it speaks no more"
        elif code < 0:
            how = "killed by %s" % _signal_name(-code)
        else:
            how = "it ended with code %d" % code
        lines = [line.strip() for line in self.tail.decode("utf-8", "replace").splitlines() if line.strip()]
        return "%s: %s" % (how, lines[-1][:200]) if lines else how

    def ask_to_end(self) -> None:
        """SIGTERM: a probe that looks at the time ends early and tells what it has."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Without waiting for anything."""
        if self.process.poll() is None:
            self.process.kill()

    def end(self, ours: Dict[int, str]) -> List[process_tree.Entry]:
        """Kill it and everything it started; what would not die is named and left."""
        if self._open:
            self._open = False
            self.socket.close()
            while self._more() and self.listen():
                pass
            os.close(self.noise)
        left = process_tree.end(self._identity, self.word, ours)
        self.stuck = any(process.pid == self.pid for process in left)
        if not self.stuck:
            self.process.wait(timeout=5.0)
        return left

    def _more(self) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self.noise, selectors.EVENT_READ)
            return bool(selector.select(0))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number
