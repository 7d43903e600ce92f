"""The newest ansible-core that pyproject.toml allows; the oldest is the one that all other tests run under."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.fleet import Fleet
from tests.playbooks.conftest import ROOT, environment
from tests.roles import packages, rented
from tests.roles.audits import audit, leftovers

pytestmark = [pytest.mark.fleet, pytest.mark.scale]
KERNEL = os.uname().release


def newer_python() -> str | None:
    """A Python ≥ 3.12 of PATH or pyenv: newer ansible-cores do not run under 3.11."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    names = [f"3.{minor}" for minor in range(14, 11, -1)]
    found = [shutil.which(f"python{name}") for name in names]
    found += [str(one) for name in names for one in sorted(versions.glob(f"{name}.*/bin/python"))]
    works = "import sys, venv, ensurepip; assert sys.version_info >= (3, 12)"
    tried = (one for one in found if one and not subprocess.run([one, "-c", works], capture_output=True).returncode)
    return next(tried, None)


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a virtual environment with this project's dependencies as a newer Python gets them."""
    python = newer_python()
    if python is None:
        pytest.skip("no Python ≥ 3.12 with venv on PATH or in pyenv")
    folder = tmp_path_factory.mktemp("newest") / "venv"
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    subprocess.run([folder / "bin/python", "-m", "pip", "install", "-q", *wanted], check=True, stderr=subprocess.PIPE)
    packages_at = next(folder.glob("lib/python3*/site-packages"))
    (packages_at / "auditor.pth").write_text(f"{ROOT}\n")
    return folder / "bin"


def test_it_is_newer_than_the_one_of_the_other_tests(newest: Path):
    """Two ends are tested only if they are two."""
    told = [
        re.search(r"core (\d+)\.(\d+)", subprocess.run([one, "--version"], capture_output=True, text=True).stdout)
        for one in (newest / "ansible", shutil.which("ansible", path=environment()["PATH"]))
    ]
    new, old = (tuple(map(int, match.groups())) if match else () for match in told)
    assert old and new > old, (new, old)


def test_an_audit_of_two_servers_from_check_to_report(newest: Path, fleet: Fleet, stub: Path, tmp_path: Path):
    """Plan, audit, report and clean-up, with a third server that does not answer; no word of deprecation."""
    fleet.fault("h003", "down")
    env = {**environment(), "PATH": f"{newest}:{os.environ['PATH']}"}
    wishes = {"audit_probe": str(stub), "audit_results": str(tmp_path), "audit_poll": 0.3, "ansible_ssh_retries": 0}

    def run(*words: str) -> str:
        done = subprocess.run(
            [newest / "ansible-playbook", *words, "-i", fleet.inventory, "-e", json.dumps(wishes)],
            cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
        )  # fmt: skip
        assert "DEPRECAT" not in done.stdout.upper() and "Traceback" not in done.stdout, done.stdout
        return done.stdout

    only = ("--limit", "h001,h002,h003")
    assert "h001  would be measured" in run("audit.yml", "--check", *only)
    said = run("audit.yml", *only)
    states = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.glob("*/*/servers/*/state.json")}
    assert {name: state["phase"] for name, state in states.items()} == {"h001": "done", "h002": "done", "h003": "reach"}
    assert states["h003"]["reason"] == "unreachable", states["h003"]
    assert list(tmp_path.glob("*/*/report/report.xlsx")), said
    fleet.heal("h003")
    assert "nothing of ours was there" in run("cleanup.yml", *only)


def test_a_bare_server_is_prepared_and_left_as_it_was(
    newest: Path, bare_fleet: Fleet, stub: Path, wheelhouse: Path, tmp_path: Path
):
    """The roles: driver, DCGM and torch come, the two listings are equal."""
    everything = [*packages.driver("580.95.05", KERNEL), *packages.dcgm(13)]
    rented.rent(bare_fleet, "h001", packages.apt_repository(tmp_path / "apt", everything))
    wishes = {"audit_wheelhouse": str(wheelhouse), "audit_remove_packages": True}
    out, folder = audit(bare_fleet, stub, tmp_path / "r", "h001", programs=newest, **wishes)
    assert folder and json.loads((folder / "state.json").read_text())["phase"] == "done", out
    assert "modprobe --all nvidia nvidia_uvm" in rented.calls(bare_fleet, "h001")
    kept = json.loads((folder / "listing.json").read_text())
    assert {kind: kept["before"][kind] == kept["after"][kind] for kind in ("files", "processes", "packages")} == {
        "files": True, "processes": True, "packages": True,
    }  # fmt: skip
    assert "DEPRECAT" not in out.upper() and leftovers(bare_fleet) == ""
