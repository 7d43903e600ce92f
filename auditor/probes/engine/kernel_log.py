"""The kernel's own log, as far as this user may read it, cut down to what concerns GPUs and their links.

Read from the journal (this boot, keeps what the ring buffer lost), else /dev/kmsg, else dmesg. Lines go raw
to the controller; those that came during the audit stand below the `AUDIT` line.
"""

import os
import re
import shutil
import time
from dataclasses import dataclass
from typing import List, Optional, Sequence

from . import programs

KMSG = "/dev/kmsg"
AUDIT = "# lines below: during the audit"
MAX_BYTES = 256 * 1024 - 1024
_WANTED = re.compile(
    r"NVRM|\bXid\b|SXid|nvidia|nvlink|nvswitch|fabric|fallen off the bus|\bAER\b|pcieport|PCIe Bus Error"
    r"|mlx5|infiniband|ib_umad|Out of memory|oom-kill|Machine Check|\bmce:|EDAC|temperature above|throttled",
    re.IGNORECASE,
)
# The command line may hold secrets and is no event.
_UNWANTED = re.compile(r"command line:", re.IGNORECASE)
_SECONDS = 5.0


@dataclass(frozen=True)
class Log:
    """Wanted lines, oldest first, and where they came from."""

    source: str
    lines: Sequence[str]


def read() -> Optional[Log]:
    """The log by the first way that this user may take; None where none is open to him."""
    for source, lines in (("journalctl", _journal), ("kmsg", _kmsg), ("dmesg", _dmesg)):
        found = lines()
        if found:
            return Log(source, [line for line in found if _WANTED.search(line) and not _UNWANTED.search(line)])
    return None


def attachment(before: Log, after: Optional[Log]) -> str:
    """Both looks as one text: history, the `AUDIT` line, and what came in between; the oldest lines give way."""
    seen = set(before.lines)
    new = [line for line in after.lines if line not in seen] if after else []
    tail = "\n".join([AUDIT] + new) + "\n"
    head: List[str] = []
    room = MAX_BYTES - len(tail.encode("utf-8"))
    for line in reversed(before.lines):
        room -= len(line.encode("utf-8")) + 1
        if room < 0:
            break
        head.append(line)
    text = "".join(line + "\n" for line in reversed(head)) + tail
    return (
        text if len(text.encode("utf-8")) <= MAX_BYTES else text.encode("utf-8")[:MAX_BYTES].decode("utf-8", "ignore")
    )


def _journal() -> List[str]:
    # A user outside the group gets exit 0 and a hint on stderr, or "-- No entries --": both are no log.
    lines = _program("journalctl", "-k", "-b", "0", "-q", "--no-pager", "-o", "short-iso-precise")
    return [line for line in lines if not line.startswith("-- ")]


def _dmesg() -> List[str]:
    return _program("dmesg", "--time-format", "iso") or _program("dmesg")


def _program(name: str, *arguments: str) -> List[str]:
    path = shutil.which(name)
    done = programs.run([path, *arguments], "/", _SECONDS) if path else None
    return done.out.splitlines() if done and done.code == 0 else []


def _kmsg() -> List[str]:
    try:
        handle = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    lines: List[str] = []
    until = time.monotonic() + _SECONDS
    try:
        while time.monotonic() < until:
            try:
                entry = os.read(handle, 8192)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # overwritten while we read: the next read goes on with what is left
            except OSError:
                break
            if not entry:
                break
            lines.append(entry.decode("utf-8", "replace").split("\n", 1)[0])
    finally:
        os.close(handle)
    return lines
