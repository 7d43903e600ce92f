"""Why a module could not even start on a server, from what `plugins/files/preflight.sh` printed there.

Ansible says the same words ("No start of json char found") for a full disk, an old Python and a noisy shell;
the row in the report must not.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from auditor.showing import show

_OLDEST = (3, 8)


class Cause(NamedTuple):
    """`reason` is a fixed word; `python` is another interpreter that the module can be tried with."""

    reason: str
    detail: str
    python: str | None = None


def diagnose(printed: str, used: str, said: str) -> Cause:
    """The cause; `used` is the interpreter that failed, `said` what came back instead of an answer."""
    rows = [line.split("\t") for line in printed.splitlines() if line.count("\t") >= 1]
    pythons = [
        (tuple(map(int, row[1].split("."))), row[2])
        for row in rows
        if row[0] == "python" and len(row) == 3 and re.fullmatch(r"\d\.\d{1,3}", row[1])
    ]
    places = [(row[1], row[2]) for row in rows if row[0] == "place" and len(row) == 3]
    if ["end", "end"] not in rows:
        return Cause("no_shell", f"no command could be run there; what came back: {_quote(said or printed)}")
    full = [(why, place) for why, place in places if re.search(r"No space left|quota exceeded", why)]
    if full and not any(why == "ok" for why, _ in places):
        return Cause("disk_full", f"no room left in {', '.join(place for _, place in full)}")
    usable = sorted((p for p in pythons if p[0] >= _OLDEST and p[1].startswith("/")), key=lambda p: p[1] != used)
    if not usable:
        if pythons:
            newest = max(pythons)
            return Cause("old_python", f"the newest Python there is {_text(newest[0])} ({newest[1]}); 3.8 is needed")
        return Cause("no_python", "there is no Python; 3.8 or newer is needed (any place, no package has to be added)")
    if places and not any(why == "ok" for why, _ in places):
        read_only = any("Read-only" in why for why, _ in places)
        causes: dict[str, list[str]] = {}
        for why, place in places:
            causes.setdefault(why.rpartition(": ")[2], []).append(place)
        where = "; ".join(f"{', '.join(there)}: {why}" for why, there in causes.items())
        return Cause("read_only" if read_only else "not_writable", where)
    if usable[0][1] != used:
        return Cause("no_python", f"{used} cannot be used", usable[0][1])
    return Cause("spoiled_answer", f"the module's answer cannot be read: {_quote(said)}")


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _quote(said: str) -> str:
    line = next((line for line in reversed(said.splitlines()) if line.strip()), "nothing")
    return show(line, 160)
