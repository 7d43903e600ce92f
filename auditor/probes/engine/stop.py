"""A stop that was asked for, heard from the first moment on: before the rest of the program is read.

Who starts the audit may hold the signals back (they stay pending across the start of a program) until `listen` lets
them through; then there is no moment at all at which a stop gives no record.
"""

from __future__ import annotations

import signal

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_heard: list[int] = []


def listen() -> None:
    """From now on keep what is heard."""
    for number in SIGNALS:
        signal.signal(number, lambda heard, _: _heard.append(heard))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def heard() -> int | None:
    """The first signal that came."""
    return _heard[0] if _heard else None
