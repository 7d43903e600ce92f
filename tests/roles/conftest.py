"""Plays of one role over the test fleet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipapp
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.fleet import Fleet

ROOT = Path(__file__).parents[2]


class Played(NamedTuple):
    """What a play came to: exit code, output, tasks that changed something, and the variables it was asked for."""

    code: int
    out: str
    changed: int
    told: dict[str, Any]


Play = Callable[..., Played]


@pytest.fixture(scope="session")
def bare_fleet(tmp_path_factory: pytest.TempPathFactory, fleet_here: None) -> Iterator[Fleet]:
    """Two machines without torch and without NVIDIA's anything, with room for small packages."""
    with Fleet(2, tmp_path_factory.mktemp("bare") / "f", net=f"127.{200 + os.getpid() % 50}", disk_mb=256) as machines:
        yield machines


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pip's own wheel and a wheel that is called torch, small enough to send."""
    folder = tmp_path_factory.mktemp("wheels")
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
         "--python-version", "3.8",  # the oldest server; this pip runs under every newer Python too
         "-d", str(folder), "pip"],
        check=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    info = "torch-2.13.0.dist-info"
    with zipfile.ZipFile(folder / "torch-2.13.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("torch/__init__.py", "from torch.version import __version__\n")
        wheel.writestr("torch/version.py", "__version__ = '2.13.0+cpu'\ncuda: None = None\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return folder


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stub probe of the playbooks' tests as one file."""
    folder = tmp_path_factory.mktemp("stub") / "stub"
    folder.mkdir()
    (folder / "__main__.py").write_bytes((ROOT / "tests/playbooks/stub_probe.py").read_bytes())
    zipapp.create_archive(folder, folder.with_suffix(".pyz"), compressed=True)
    return folder.with_suffix(".pyz")


@pytest.fixture
def play(bare_fleet: Fleet, tmp_path: Path) -> Play:
    """Runs a role on one machine and returns what it came to; `tell` names registered variables to read back."""

    def run(server: str, role: str, variables: dict[str, Any] | None = None, tell: tuple[str, ...] = (), *words: str,
            become: bool = True, on: Fleet | None = None) -> Played:  # fmt: skip
        machines = on or bare_fleet
        out = tmp_path / "told.json"
        out.unlink(missing_ok=True)
        told = "{{ {" + ", ".join(f"'{name}': {name} | default(none)" for name in tell) + "} | to_json }}"
        copy = {"content": told, "dest": str(out), "mode": "0600"}
        tell_here = {"delegate_to": "localhost", "become": False, "check_mode": False, "changed_when": False}
        tasks = [{"ansible.builtin.copy": copy, **tell_here}] if tell else []
        book = tmp_path / "play.yml"
        book.write_text(
            yaml.safe_dump(
                [
                    {
                        "hosts": server, "gather_facts": False, "become": become, "vars": variables or {},
                        "tasks": [{"ansible.builtin.include_role": {"name": role}}, {"meta": "flush_handlers"}, *tasks],
                    }
                ]
            )
        )  # fmt: skip
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
        environment.update(
            PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}", NO_COLOR="1", ANSIBLE_STDOUT_CALLBACK="default",
            ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"), ANSIBLE_ROLES_PATH=str(ROOT / "roles"),
            ANSIBLE_LOCALHOST_WARNING="0",
        )  # fmt: skip
        done = subprocess.run(
            ["ansible-playbook", str(book), "-i", str(machines.inventory), *words],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        recap = [line for line in done.stdout.splitlines() if line.startswith(server + " ") and "changed=" in line]
        changed = int(recap[-1].split("changed=")[1].split()[0]) if recap else -1
        return Played(
            done.returncode, done.stdout + done.stderr, changed, json.loads(out.read_text()) if out.exists() else {}
        )

    return run
