"""Audits of the test fleet, with a probe that takes no time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipapp
from collections.abc import Callable
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


Audit = Callable[..., Done]


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


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Where this test's runs lie."""
    return tmp_path / "results"


def environment() -> dict[str, str]:
    """The tests' own environment, with this virtual environment first and no colour."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
    return {**kept, "PATH": path, "NO_COLOR": "1", "COLUMNS": "200"}


def newest(results: Path) -> Path | None:
    """The run that was opened last."""
    found = sorted(results.glob("*/*/run.json"), key=lambda p: p.stat().st_mtime_ns)
    return found[-1].parent if found else None


@pytest.fixture
def audit(fleet: Fleet, stub_probe: Path, results: Path) -> Audit:
    """Runs a playbook over the fleet (or `inventory`) with the stub probe and short patience, and waits for its end."""

    def run(
        *words: str,
        playbook: str = "audit.yml",
        inventory: object = None,
        env: dict[str, str] | None = None,
        **wishes: Any,
    ) -> Done:
        done = subprocess.run(
            command(fleet, stub_probe, results, *words, playbook=playbook, inventory=inventory, **wishes),
            cwd=ROOT,
            env={**environment(), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        return Done(done.returncode, done.stdout, newest(results))

    return run


def command(
    fleet: Fleet,
    stub: Path,
    results: Path,
    *words: str,
    playbook: str = "audit.yml",
    inventory: object = None,
    **wishes: Any,
) -> list[str]:
    """The command line of one audit; `wishes` become extra variables."""
    quick = {
        "audit_probe": str(stub),
        "audit_results": str(results),
        "audit_poll": 0.3,
        "audit_silence": 2,
        "ansible_ssh_timeout": 3,
        "ansible_ssh_retries": 0,
    }
    variables = json.dumps({name: value for name, value in {**quick, **wishes}.items() if value is not None})
    named = inventory if isinstance(inventory, list) else [inventory or fleet.inventory]
    sources = [word for one in named for word in ("-i", str(one))]
    return ["ansible-playbook", playbook, *sources, "-e", variables, *words]


@pytest.fixture
def manner(fleet: Fleet) -> Any:
    """`manner(server, "die", seconds=3)`: how the stub probe behaves on one server, until the test ends."""
    planted = []

    def plant(server: str, word: str | None = None, **more: Any) -> None:
        path = fleet.root(server) / "opt/stub.json"
        path.write_text(json.dumps({"manner": word, **more}))
        planted.append(path)

    yield plant
    for path in planted:
        path.unlink(missing_ok=True)


def wait_for(what: Callable[[], Any], seconds: float = 30) -> Any:
    """The first true answer of `what`; fails after `seconds`."""
    limit = time.monotonic() + seconds
    while not (answer := what()):
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.05)
    return answer
