"""What tests of the server side share: the NVML double, a tree of small probes of a test's own, and the command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import nvml_double
from tests.nvml_double import Machine, Profile

from . import asked as asking

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def nvml_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The doubles of libnvidia-ml and libcuda, compiled once; CI fails without a compiler, elsewhere it is a skip."""
    if shutil.which("gcc") is None and shutil.which("cc") is None:
        reason = "the NVML double needs a C compiler: apt-get install gcc libc6-dev"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return nvml_double.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def machine(nvml_libraries: Path, tmp_path: Path) -> Callable[[Profile], Machine]:
    """A server that answers from a profile: `machine(healthy("a100x8-nvswitch"))`."""
    return lambda profile: Machine(tmp_path / "machine", nvml_libraries, profile)


@dataclass
class Outcome:
    """How the command ended, what it said, and its record."""

    code: int
    stderr: str
    record: dict[str, Any] | None
    events: list[dict[str, Any]] = field(default_factory=list)

    def rows(self, probe: str) -> dict[str, dict[str, Any]]:
        """A probe's rows by subject."""
        assert self.record is not None, self.stderr
        return {row["subject"]: row for row in self.record["probes"] if row["probe"] == probe}

    def values(self, metric: str) -> dict[str, Any]:
        """A metric's values by subject."""
        assert self.record is not None, self.stderr
        return {row["subject"]: row["value"] for row in self.record["readings"] if row["metric"] == metric}

    @property
    def sentence(self) -> str:
        """What is on stderr and no progress."""
        return "\n".join(line for line in self.stderr.splitlines() if not line.startswith("{"))


class Command:
    """The probe's command line, with real probes or those of the test, on this machine or a doubled one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out, self.lock = folder / "record.json", folder / "lock"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self._tree: Path | None = None
        self._started: list[subprocess.Popen[str]] = []

    def probes(self, *real: str, **sources: str) -> Command:
        """Use these probe files only, and the real ones that are named; the engine is the real one."""
        self._tree = self.folder / "tree"
        package = self._tree / "auditor"
        (package / "probes").mkdir(parents=True)
        parts = ("__init__.py", "__main__.py", "engine", "measuring", "training")
        for name in ("__init__.py", "records.py", *(f"probes/{part}" for part in parts)):
            (package / name).symlink_to(ROOT / "auditor" / name)
        for name in real:
            (package / "probes" / f"{name}.py").symlink_to(ROOT / "auditor/probes" / f"{name}.py")
        for name, source in sources.items():
            head = f"KEY = {name!r}\nDEVICES = ('cuda', 'cpu')\nNEEDS = ()\nMETHOD = 1\n"
            head += "SECONDS = dict.fromkeys(('quick', 'standard', 'soak'), 1.0)\nSCOPE = 'server'\nORDER = 50\n"
            head += "def applies(context):\n    return None\n"
            (package / "probes" / f"{name}.py").write_text(head + textwrap.dedent(source), encoding="utf-8")
        return self

    def start(self, *arguments: str, on: Machine | None = None, **environment: str) -> subprocess.Popen[str]:
        """Start it; the test ends it."""
        given = ["--server", "gpu-01", "--out", str(self.out), "--lock", str(self.lock), *arguments]
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("CUDA_")},
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": str(self._tree or ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            **(on.environment if on else {}),
            **environment,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "auditor.probes", *given],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=self.folder,
            text=True,
        )
        self._started.append(process)
        return process

    def ended(self, process: subprocess.Popen[str], timeout: float = 60.0) -> Outcome:
        """Wait for it and read what it left."""
        _, stderr = process.communicate(timeout=timeout)
        record = json.loads(self.out.read_bytes()) if self.out.exists() else None
        events = [json.loads(line) for line in stderr.splitlines() if line.startswith("{")]
        return Outcome(process.returncode, stderr, record, events)

    def run(self, *arguments: str, on: Machine | None = None, timeout: float = 60.0, **environment: str) -> Outcome:
        """Run it to its end."""
        return self.ended(self.start(*arguments, on=on, **environment), timeout)

    def close(self) -> None:
        """End what a failed test left."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """The command line of the probe."""
    made = Command(tmp_path)
    yield made
    made.close()


@pytest.fixture
def asked() -> Callable[[str, Machine], Outcome]:
    """One probe of the server's scope on a doubled driver, without the whole engine: `asked("topology", double)`."""
    return lambda key, double: Outcome(0, "", asking.ask(key, double.environment))
