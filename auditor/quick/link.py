"""One command running at the other end: bytes in, bytes out, each wait with an end. Over SSH, or on this machine."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

_BLOCK = 65536
_NOISE_LIMIT = 256 << 10


class Lost(Exception):
    """The connection ended."""


class Ended(Lost):
    """The command's output ended."""


class Spoiled(Exception):
    """What came is no answer of our agent."""


class Flooded(Exception):
    """The other end sent more than any honest one would (threat C05)."""


class Stream(Protocol):
    """A running command's pipes."""

    noise: bytearray

    def send(self, data: bytes, seconds: float) -> None:
        """Write everything, or raise `Lost` when the other end takes nothing for that long."""

    def read(self, seconds: float) -> bytes | None:
        """What came on stdout; empty when nothing came in time, None at its end."""

    def close(self) -> None:
        """Give the command up."""


class Link(Protocol):
    """A way to run commands somewhere."""

    def run(self, command: str) -> Stream:
        """Start a command; raises `Lost` when the way is gone."""

    def alive(self) -> bool:
        """Whether another command could be started."""

    def close(self) -> None:
        """Give the way up."""


class SshStream:
    """A command on a channel of its own; its stderr is kept as noise, bounded."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self.noise = bytearray()

    def send(self, data: bytes, seconds: float) -> None:
        """Write everything in blocks that each may take that long."""
        self._channel.settimeout(seconds)
        try:
            for start in range(0, len(data), _BLOCK):
                self._channel.sendall(data[start : start + _BLOCK])
        except (OSError, EOFError) as error:
            raise Lost(f"it took no more data ({error or type(error).__name__})") from None

    def read(self, seconds: float) -> bytes | None:
        """Next bytes of stdout; stderr is drained on the way."""
        end = time.monotonic() + seconds
        while True:
            if self._channel.recv_stderr_ready():
                _keep(self.noise, self._channel.recv_stderr(_BLOCK))
            self._channel.settimeout(max(0.0, min(0.05, end - time.monotonic())))
            try:
                data: bytes = self._channel.recv(_BLOCK)
                if data:
                    return data
                while rest := self._channel.recv_stderr(_BLOCK):
                    _keep(self.noise, rest)
                return None
            except TimeoutError:
                if time.monotonic() >= end:
                    return b""
            except (OSError, EOFError) as error:
                raise Lost(str(error)) from None

    def close(self) -> None:
        """Close the channel; the server's sshd ends the command's input."""
        self._channel.close()


class LocalStream:
    """A command of this machine."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin and process.stdout and process.stderr  # noqa: S101  # Popen with three pipes
        self._process, self._in = process, process.stdin
        self.noise = bytearray()
        self._selector = selectors.DefaultSelector()
        for pipe in (process.stdout, process.stderr):
            self._selector.register(pipe, selectors.EVENT_READ)

    def send(self, data: bytes, seconds: float) -> None:
        """Write everything; a local pipe is as fast as its reader."""
        try:
            self._in.write(data)
            self._in.flush()
        except OSError as error:
            raise Lost(f"it took no more data ({error.strerror})") from None

    def read(self, seconds: float) -> bytes | None:
        """Next bytes of stdout; stderr is drained on the way."""
        end = time.monotonic() + seconds
        while True:
            for key, _ in self._selector.select(max(0.0, end - time.monotonic())):
                data = os.read(key.fd, _BLOCK)
                if key.fileobj is self._process.stdout:
                    return data or None
                if data:
                    _keep(self.noise, data)
                else:
                    self._selector.unregister(key.fileobj)
            if time.monotonic() >= end:
                return b""

    def close(self) -> None:
        """End the command's input and wait for it a moment."""
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                try:
                    pipe.close()
                except OSError:
                    continue
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class LocalLink:
    """This machine itself, for `auditor probe`."""

    def run(self, command: str) -> LocalStream:
        """Start it in a session of its own: Ctrl-C on the terminal is ours to pass on.

        Our own environment's programs come first on its PATH: it may be the one that has torch.
        """
        pipe, path = subprocess.PIPE, f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        return LocalStream(
            subprocess.Popen(
                ["/bin/sh", "-c", command],
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env={**os.environ, "PATH": path},
                start_new_session=True,
            )
        )

    def alive(self) -> bool:
        """This machine is always here."""
        return True

    def close(self) -> None:
        """Nothing is held open."""


def _keep(noise: bytearray, data: bytes) -> None:
    noise += data
    if len(noise) > _NOISE_LIMIT:
        raise Flooded(f"more than {_NOISE_LIMIT >> 10} KiB of error output")
