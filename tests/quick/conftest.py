"""What the tests of `auditor quick` share: a stub probe file, fresh test servers, one audit in this process."""

from __future__ import annotations

import contextlib
import io
import subprocess
import threading
import time
import zipapp
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from auditor.quick import session
from auditor.quick.connect import SshLink, Way, connect
from auditor.quick.events import Event
from auditor.quick.link import Link
from auditor.quick.outcome import Job, Outcome
from auditor.quick.session import Session
from auditor.quick.target import parse
from tests.fleet import Fleet

NONCE = "5a" * 16


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stub as a probe file."""
    folder = tmp_path_factory.mktemp("stub")
    (folder / "__main__.py").write_text(Path(__file__).with_name("stub_probe.py").read_text())
    target = tmp_path_factory.mktemp("pyz") / "stub.pyz"
    zipapp.create_archive(folder, target)
    return target


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two tries to connect a test waits less than a person would."""
    monkeypatch.setattr(session, "PAUSE_SECONDS", 0.1)


class Machine:
    """One fresh test server and a person's way to it."""

    def __init__(self, fleet: Fleet, name: str, stub: Path) -> None:
        self.fleet, self.name, self.probe = fleet, name, stub.read_bytes()
        self.config = fleet.folder / "ssh_config"
        self.events: list[Event] = []
        self.kept: list[bytes] = []
        self.stop = threading.Event()

    @property
    def root(self) -> Path:
        """Its file system, as root sees it."""
        return self.fleet.root(self.name)

    def link(self, **way: object) -> SshLink:
        """A connection as `auditor quick` makes it, without anybody to ask."""
        target = parse([self.name])[0]
        return connect(target, Way(**{"config": self.config, **way}), lambda text: None, {})  # type: ignore[arg-type]

    def audit(self, only: str = "short", open_link: Callable[[], Link] | None = None, **job: object) -> Outcome:
        """One audit with the stub."""
        wish = {"server": self.name, "run": "20261201T000000Z", "nonce": NONCE, "profile": "quick", "linger": 5.0}
        wish = {**wish, "probe": self.probe, "options": ("--only", only), **job}
        link = open_link or partial(self.link)
        return Session(Job(**wish), link, self.events.append, self.kept.append, self.stop).run()  # type: ignore[arg-type]

    def when(self, kind: type, count: int, action: Callable[[], object]) -> threading.Thread:
        """Do something once so many events of a kind have come."""

        def wait() -> None:
            end = time.monotonic() + 20
            while sum(isinstance(event, kind) for event in self.events) < count and time.monotonic() < end:
                time.sleep(0.01)
            action()

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        return thread

    def steps(self) -> str:
        """All that was said, in one text."""
        return "\n".join(getattr(event, "text", "") for event in self.events)

    def leftovers(self) -> list[str]:
        """Processes of the user and files anywhere that an audit could have left; waits a moment for the last ones."""
        end = time.monotonic() + 3
        while (found := self._found()) and time.monotonic() < end:
            time.sleep(0.05)
        return found

    def _found(self) -> list[str]:
        places = [self.root / place for place in ("tmp", "var/tmp", "dev/shm", "home/ubuntu", "run", "srv")]
        files = [str(path) for place in places if place.exists() for path in place.rglob("auditor*")]
        return [line for line in self.processes() if "sshd" not in line] + files

    def processes(self) -> list[str]:
        """The command lines there, without PID 1; read from outside, so that looking starts nothing."""
        lines = []
        for entry in (self.root / "proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                if entry.name != "1":
                    lines.append(line or (entry / "comm").read_text().strip())
        return lines

    def inside(self, *argv: str) -> None:
        """Run a command there as root, without SSH."""
        pid = str(self.fleet.plan.machine(self.name).pid)
        subprocess.run(["nsenter", "-t", pid, "-m", "-r", "-w", "--", *argv], check=True)

    def append(self, path: str, text: str) -> None:
        """Add lines to a file there."""
        with (self.root / path).open("a") as file:
            file.write(text)


@pytest.fixture
def machine(fleet: Fleet, stub: Path) -> Iterator[Machine]:
    """A server with an empty disk; what a test changes there is gone afterwards."""
    name = fleet.names[-1]
    yield Machine(fleet, name, stub)
    fleet.heal(name)
    fleet.reboot(name)
    fleet.root(name).joinpath("root").chmod(0o711)


class Said:
    """A stream that plays bytes back in the pieces it was given, then ends or stays silent."""

    def __init__(self, *pieces: bytes, ends: bool = True) -> None:
        self.noise = bytearray()
        self.sent = io.BytesIO()
        self._pieces, self._ends = list(pieces), ends

    def send(self, data: bytes, seconds: float) -> None:
        """Keep what was sent."""
        self.sent.write(data)

    def read(self, seconds: float) -> bytes | None:
        """The next piece."""
        if self._pieces:
            return self._pieces.pop(0)
        return None if self._ends else b""

    def close(self) -> None:
        """Nothing to close."""
