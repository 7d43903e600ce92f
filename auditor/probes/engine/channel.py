"""Messages between the parent and a process of its own: one JSON object a line over a socket pair."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any, Dict, List, Optional

Message = Dict[str, Any]


def encode(message: Message) -> bytes:
    """One line; NaN and infinity do not travel."""
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"


class Lines:
    """Cuts a stream of bytes into messages. What is no message (a library that wrote there) is left out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> List[Message]:
        """The messages that are complete now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [message for message in map(_decode, lines) if message is not None]


def _decode(line: bytes) -> Optional[Message]:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


class Channel:
    """A worker's end: blocking, one question at a time, also from several threads."""

    def __init__(self, fileno: int) -> None:
        self._socket = socket.socket(fileno=fileno)
        self._reader = self._socket.makefile("rb")
        self._sending, self._asking = threading.Lock(), threading.Lock()

    def send(self, message: Message) -> None:
        """Hand over one message; the parent always reads."""
        data = encode(message)
        with self._sending:
            self._socket.sendall(data)

    def receive(self) -> Optional[Message]:
        """The next message; None when the parent has gone."""
        try:
            line = self._reader.readline()
        except ConnectionResetError:
            return None
        return json.loads(line) if line else None

    def ask(self, what: str, value: Any = None) -> Any:
        """A question the parent answers when it can (a barrier, a turn, a window of samples)."""
        with self._asking:
            self.send({"say": "ask", "what": what, "value": value})
            answer = self.receive()
        if answer is None:
            raise SystemExit("the parent has gone")
        return answer.get("answer")
