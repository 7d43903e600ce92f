"""Audits of the test fleet, with a probe that takes no time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipapp
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from auditor import runs
from auditor.runs import State
from tests.fleet import Fleet
from tools import build_pyz

ROOT = Path(__file__).parents[2]


class Done(NamedTuple):
    """One finished `ansible-playbook`: what it printed and, if it came so far, its run folder."""

    code: int
    out: str
    folder: Path | None

    @property
    def states(self) -> dict[str, State]:
        """The state of every server of the run."""
        assert self.folder, self.out
        return runs.open_run(self.folder).states

    def record(self, server: str) -> bytes:
        """The bytes that were fetched."""
        assert self.folder, self.out
        return (self.folder / "servers" / server / "record.json").read_bytes()


class Auditor(NamedTuple):
    """Starts audits of one fleet with the stub probe and short patience; runs lie below `results`."""

    fleet: Fleet
    stub: Path
    results: Path

    def __call__(self, *words: str, env: dict[str, str] | None = None, **wishes: Any) -> Done:
        """One playbook, to its end; see `command` for the words."""
        done = subprocess.run(
            self.command(*words, **wishes),
            cwd=ROOT,
            env=environment() | (env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        return Done(done.returncode, done.stdout, self.newest())

    def start(self, *words: str, **wishes: Any) -> subprocess.Popen[str]:
        """One audit that runs beside the test, in a process group of its own."""
        return subprocess.Popen(
            self.command(*words, **wishes),
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def command(
        self, *words: str, playbook: str = "audit.yml", inventory: Any = None, report: bool = False, **wishes: Any
    ) -> list[str]:
        """The command line; `wishes` become extra variables (None takes a default away), `inventory` may be several."""
        quick = {
            "audit_probe": str(self.stub),
            "audit_results": str(self.results),
            "audit_poll": 0.3,
            "audit_silence": 2,
            "ansible_ssh_timeout": 3,
            "ansible_ssh_retries": 0,
        }
        variables = json.dumps({name: value for name, value in {**quick, **wishes}.items() if value is not None})
        named = inventory if isinstance(inventory, list) else [inventory or self.fleet.inventory]
        sources = [word for one in named for word in ("-i", str(one))]
        rest = [] if report or "--check" in words else ["--skip-tags", "report"]
        return ["ansible-playbook", playbook, *sources, "-e", variables, *rest, *words]

    def newest(self) -> Path | None:
        """The run folder that was opened last."""
        found = sorted(self.results.glob("*/*/run.json"), key=lambda path: path.stat().st_mtime_ns)
        return found[-1].parent if found else None


def environment() -> dict[str, str]:
    """The tests' own environment, with this virtual environment first and no colour."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return {**kept, "PATH": path, "NO_COLOR": "1", "COLUMNS": "200"}


def behave(fleet: Fleet, server: str, manner: str | None = None, **more: Any) -> None:
    """How the stub probe behaves on one server from now on; without words it is good again."""
    path = fleet.root(server) / "opt/stub.json"
    if manner is None and not more:
        path.unlink(missing_ok=True)
    else:
        path.write_text(json.dumps({"manner": manner, **more}))


def folders(fleet: Fleet, server: str) -> list[Path]:
    """Our folders on a server."""
    return list(fleet.root(server).glob("tmp/auditor-*"))


def reboot(fleet: Fleet, server: str) -> None:
    """An empty disk, with the torch of tests/conftest.py in sight again."""
    fleet.reboot(server)
    fleet.root(server).joinpath("root").chmod(0o711)


def wait_for(what: Callable[[], Any], seconds: float = 30) -> Any:
    """The first true answer of `what`; fails after `seconds`."""
    limit = time.monotonic() + seconds
    while not (answer := what()):
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.05)
    return answer


def kill(process: subprocess.Popen[str]) -> None:
    """kill -9 of a controller; its workers have sessions of their own and must notice by themselves."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout
    process.stdout.close()


@pytest.fixture(scope="session")
def stub_probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The probe of stub_probe.py as one file."""
    folder = tmp_path_factory.mktemp("stub") / "stub"
    folder.mkdir()
    (folder / "__main__.py").write_bytes(Path(__file__).with_name("stub_probe.py").read_bytes())
    target = folder.with_suffix(".pyz")
    zipapp.create_archive(folder, target, compressed=True)
    return target


@pytest.fixture(scope="session")
def real_probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The probe file as `make pyz` builds it."""
    target = tmp_path_factory.mktemp("pyz") / "auditor-probe.pyz"
    target.write_bytes(build_pyz.pyz())
    return target


@pytest.fixture(scope="module")
def storm(whole_fleet: Fleet, stub_probe: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Auditor]:
    """An auditor for one audit that several tests look at; when the module ends, every machine starts anew."""
    whole_fleet.fault("*", "kick")  # connections that earlier tests left open have those tests' patience
    yield Auditor(whole_fleet, stub_probe, tmp_path_factory.mktemp("storm") / "results")
    whole_fleet.heal("*")
    for server in whole_fleet.names:
        reboot(whole_fleet, server)


@pytest.fixture
def audit(fleet: Fleet, stub_probe: Path, tmp_path: Path) -> Iterator[Auditor]:
    """An auditor for one test; afterwards every stub probe is good again."""
    yield Auditor(fleet, stub_probe, tmp_path / "results")
    for server in fleet.names:
        behave(fleet, server)
