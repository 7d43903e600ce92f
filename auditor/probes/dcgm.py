"""NVIDIA's own diagnostic, `dcgmi diag -j`: level 1 in quick, 2 in standard, 3 in soak.

Hearsay beside our figures: its Pass proves nothing here, its warnings are read even on Pass, its floors
(46-62 % of spec, some wrong by far) are not used. The raw JSON goes to the controller. A host engine that
runs is used and never restarted, whoever owns it; where none runs and one is installed, one of our own on a
socket in our directory, ended with it (not in quick). Levels 2 and 3 take whole GPUs, so no worker of ours is left.
"""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from typing import Any, Iterator, List, Optional, Tuple

from auditor.probes.engine import programs
from auditor.records import Reading

KEY = "dcgm"
SCOPE = "server"
DEVICES = ("cuda",)
NEEDS: Tuple[str, ...] = ()
SECONDS = {"quick": 10.0, "standard": 300.0, "soak": 2400.0}
METHOD = 1
ORDER = 90
WORKERS = False

SOURCE = "driver/dcgm"
LEVELS = {"quick": 1, "standard": 2, "soak": 3}
ATTACHMENT = "dcgmi-diag.json"
PORT = 5555
PROC_UNIX = "/proc/net/unix"
MOST_ROWS = 1500
SAMPLED = "150,140,155,100,101,112,203,204,1004,1005,1009,1010,1011,1012"
# What `dcgmi` means by its exit code, as the shell sees it (DCGM 4.6, main returns the code & 255).
EXITS = {
    255: "bad parameter",
    254: "command line not understood",
    250: "not supported",
    245: "time-out",
    242: "no data",
    239: "no permission",
    238: "GPU lost",
    237: "GPU reset required",
    235: "no host engine answers",
    234: "GPU not supported",
    233: "GPUs of different models",
    227: "needs root",
    226: "the diagnostic ran and reported errors",
    223: "a DCGM module is not loaded",
    217: "another diagnostic is running",
    212: "driver too old for this DCGM",
    205: "the diagnostic asks to isolate a GPU",
    204: "the diagnostic (nvvs) is not installed",
    203: "the diagnostic was killed",
    202: "the host engine is paused",
    190: "the diagnostic was stopped",
}
NEEDS_ROOT = (227, 239)
RAN = (0, 205, 223, 226)  # complete JSON may stand on stdout: it decides, not the code


class HostEngineAbsent(Exception):
    """No host engine answers and none may be started; the text says why."""


def applies(context: Any) -> Optional[str]:
    """Where dcgmi is installed and, in quick, a host engine runs."""
    if shutil.which("dcgmi") is None:
        return "dcgmi is not installed"
    if running() is None:
        if context.profile == "quick":
            return "no DCGM host engine runs"
        if shutil.which("nv-hostengine") is None:
            return "no DCGM host engine runs and none is installed"
    return None


def run(context: Any) -> Iterator[Reading]:
    """Run the level of the profile; the raw answer is attached whatever it says."""
    level = LEVELS[context.profile]
    with host_engine(str(context.directory)) as engine:
        code, out, err = diag(level, engine.host, str(context.directory), max(1.0, context.remaining() - 2.0))
    if out.strip():
        context.attach(ATTACHMENT, out)
    if code in NEEDS_ROOT:
        context.note("not measured: needs root")
        yield context.reading("level", None, source=SOURCE)
        return
    if code not in RAN or not out.strip():
        raise RuntimeError("dcgmi diag -r %d: %s" % (level, meaning(code, out or err)))
    yield context.reading("level", level, source=SOURCE)
    yield context.reading("exit_code", code, source=SOURCE)
    yield context.reading("host_engine", engine.owner, source=SOURCE)


def diag(level: int, host: Optional[str], folder: str, seconds: float) -> programs.Ended:
    """Run `dcgmi diag`.

    Raises:
        TimeoutError: it did not end within `seconds`; then it and its tree are ended.
    """
    argv = [str(shutil.which("dcgmi")), "diag", "-r", str(level), "-j"]
    if host:
        argv += ["--host", host]
    done = programs.run(argv, folder, seconds)
    if done is None:
        raise TimeoutError("dcgmi diag -r %d did not end within %.0f s" % (level, seconds))
    return done


def meaning(code: int, text: str) -> str:
    """One line: what the exit code says, and the first line of what was printed."""
    word = EXITS.get(code) or ("ended by signal %d" % (code - 128) if 128 < code < 160 else "exit code %d" % code)
    lines = [line.strip() for line in text.splitlines() if re.search(r"[A-Za-z]", line)]
    return "%s (%s)" % (word, lines[0][:120]) if lines else word


class Engine:
    """A host engine to talk to: `host` is None for the default address; `owner` is `theirs` or `ours`."""

    def __init__(self, host: Optional[str], owner: str) -> None:
        self.host, self.owner = host, owner


@contextmanager
def host_engine(folder: str) -> Iterator[Engine]:
    """The engine that runs, else one of our own for as long as the block lasts.

    Raises:
        HostEngineAbsent: none runs, and ours did not come up.
    """
    found = running()
    if found is not None:
        yield Engine(found or None, "theirs")
        return
    program = shutil.which("nv-hostengine")
    if program is None:
        raise HostEngineAbsent("no DCGM host engine runs and none is installed")
    path = os.path.join(folder, "dcgm.sock")
    argv = [program, "-n", "-d", path, "--pid", os.path.join(folder, "dcgm.pid"), "--home-dir", folder]
    argv += ["-f", os.path.join(folder, "dcgm.log"), "--log-level", "ERROR"]
    child = programs.start(argv, folder, subprocess.DEVNULL)
    try:
        if not _comes_up(path, child, 20.0):
            raise HostEngineAbsent("our own DCGM host engine did not come up (exit %s)" % child.poll())
        yield Engine("unix://" + path, "ours")
    finally:
        programs.end(child)


def running() -> Optional[str]:
    """The address of a host engine that answers: "" for dcgmi's own default, unix://PATH; None when none does."""
    try:
        with socket.create_connection(("127.0.0.1", PORT), timeout=0.5):
            return ""
    except OSError:
        pass
    for path in _sockets():
        if _answers(path):
            return "unix://" + path
    return None


def _sockets() -> List[str]:
    try:
        with open(PROC_UNIX, encoding="utf-8", errors="replace") as file:
            paths = {line.split()[-1] for line in file if "/" in line.split()[-1:][0]}
    except (OSError, IndexError):
        return []
    return sorted(path for path in paths if re.search(r"dcgm|nv-?hostengine", path))


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(0.5)
        try:
            door.connect(path)
        except OSError:
            return False
    return True


def _comes_up(path: str, child: "subprocess.Popen[bytes]", seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until and child.poll() is None:
        if _answers(path):
            return True
        time.sleep(0.05)  # the socket appears when the engine listens; there is nothing to wait on before
    return False


@contextmanager
def watching(context: Any, seconds: float) -> Iterator[None]:
    """While the block runs, the fields of a host engine that runs anyway, once a second, into an attachment.

    Used by the thermal probe for its `seconds`; a long soak is sampled more seldom, so that an attachment holds it.
    The first worker does it for all GPUs. Nothing happens where no engine runs.
    """
    if context.rank:
        yield
        return
    engine = running() if shutil.which("dcgmi") else None
    if engine is None:
        yield
        return
    delay = max(1000, int(1000 * seconds * max(1, len(context.gpus)) / MOST_ROWS))
    argv = [str(shutil.which("dcgmi")), "dmon", "-e", SAMPLED, "-d", str(delay)]
    with tempfile.TemporaryFile(dir=str(context.directory)) as out:  # a pipe that nobody reads would fill and stop it
        child = programs.start(argv + (["--host", engine] if engine else []), str(context.directory), out)
        try:
            yield
        finally:
            programs.end(child)
            out.seek(0)
            text = out.read().decode("utf-8", "replace")
            if text.strip():
                context.attach("dcgmi-dmon.txt", text)
