"""The command line: one command, one record."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from typing import List, Optional, Sequence, Tuple

import auditor
from auditor.records import PROFILES

from . import catalogue, guest, kernel_calls, progress
from .audit import Audit, Wishes
from .catalogue import Probe

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_MISUSE, _NO_RECORD = 2, 3


class Misuse(Exception):
    """What was asked for cannot be meant; said in one sentence."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise Misuse("%s; see --help" % message)


def main(arguments: Sequence[str]) -> int:
    """Exit code: 0 a record was written, 2 misuse, 3 no record."""
    began = time.monotonic()
    try:
        options = _parser().parse_args(list(arguments))
        found = catalogue.probes()
        if options.list:
            return _list(found, options.profile)
        wishes = _understand(options, found)
        _check_out(options.out)
    except Misuse as error:
        sys.stderr.write("auditor-probe: %s\n" % error)
        return _MISUSE
    return _audit(options, wishes, began)


def _audit(options: argparse.Namespace, wishes: Wishes, began: float) -> int:
    try:
        lock = guest.Lock(options.lock, wishes.run)
    except guest.Busy as error:
        sys.stderr.write("auditor-probe: %s\n" % error)
        return _NO_RECORD
    kernel_calls.adopt_orphans()
    kernel_calls.die_first()
    told = progress.Progress(options.status, wishes.run, wishes.server)
    code = _NO_RECORD
    scratch = None
    try:
        scratch = guest.Scratch()
        told.write(now_or_never=True)
        data = Audit(wishes, scratch, told, began).run()
        _write(options.out, data)
        code = 0
    except OSError as error:
        place = "%s: " % error.filename if error.filename else ""
        sys.stderr.write("auditor-probe: no record: %s%s\n" % (place, error.strerror or error))
    finally:
        if scratch is not None:
            scratch.remove()
        lock.release()
        told.finish(code)
    if code == 0:
        told.event("done", out=options.out)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="auditor-probe", description="Measures this server and writes one record.")
    parser.add_argument("--version", action="version", version="auditor-probe " + auditor.__version__)
    parser.add_argument("--server", metavar="NAME", help="the server's name in your inventory")
    parser.add_argument("--profile", choices=PROFILES, default="quick")
    parser.add_argument("--run", metavar="ID", help="the run's id (default: now, UTC)")
    parser.add_argument("--only", metavar="P,…", help="run only these probes")
    parser.add_argument("--skip", metavar="P,…", help="leave these probes out")
    parser.add_argument("--path", metavar="DIR", help="where storage is measured (default: a private folder in TMPDIR)")
    parser.add_argument("--soak-seconds", type=float, default=3600.0, metavar="N", help="length of the soak's load")
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    parser.add_argument("--nonce", metavar="HEX", help="random text of the caller that seeds the data")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="end after so long; what is cut is told")
    parser.add_argument("--allow-busy", action="store_true", help="measure GPUs that somebody uses, too")
    parser.add_argument("--status", metavar="FILE", help="keep a small status file there")
    parser.add_argument("--lock", metavar="FILE", help="lock file (default: auditor-probe.lock in /run/lock or /tmp)")
    parser.add_argument("--list", action="store_true", help="list the probes and end")
    parser.add_argument("--out", metavar="FILE", help="the record; - is standard output")
    return parser


def _understand(options: argparse.Namespace, found: List[Probe]) -> Wishes:
    if not options.server or not options.out:
        raise Misuse("--server NAME and --out FILE are needed; see --help")
    if not _NAME.fullmatch(options.server):
        raise Misuse("--server %r: letters, digits, dot, dash, underscore, at most 63" % options.server)
    if options.nonce and not re.fullmatch(r"[0-9a-fA-F]{1,128}", options.nonce):
        raise Misuse("--nonce must be hexadecimal")
    if options.budget is not None and not options.budget > 0:
        raise Misuse("--budget must be above 0 seconds")
    if not options.soak_seconds > 0:
        raise Misuse("--soak-seconds must be above 0")
    if options.path is not None and not os.path.isdir(options.path):
        raise Misuse("--path %s is no folder" % options.path)
    only, skip = _names(options.only, "--only", found), _names(options.skip, "--skip", found)
    return Wishes(
        server=options.server,
        profile=options.profile,
        run=options.run or time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()),
        device=options.device,
        probes=tuple(p for p in found if (not only or p.key in only) and p.key not in skip),
        path=options.path,
        soak_seconds=options.soak_seconds,
        nonce=options.nonce,
        budget=options.budget,
        allow_busy=options.allow_busy,
    )


def _names(text: Optional[str], option: str, found: List[Probe]) -> Tuple[str, ...]:
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    known = {probe.key for probe in found}
    for name in names:
        if name not in known:
            raise Misuse("%s: there is no probe %r; there are %s" % (option, name, ", ".join(sorted(known))))
    return names


def _check_out(out: str) -> None:
    """Better now than after the measurement."""
    if out != "-":
        folder = os.path.dirname(os.path.abspath(out))
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            raise Misuse("--out %s: %s cannot be written" % (out, folder))


def _write(out: str, data: bytes) -> None:
    if out == "-":
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.flush()
    else:
        progress.replace(out, data)


def _list(found: List[Probe], profile: str) -> int:
    for probe in found:
        seconds = probe.seconds.get(profile, 0.0)
        print("%-20s %-7s %6.1f s  %s" % (probe.key, probe.scope, seconds, probe.title))
    return 0
