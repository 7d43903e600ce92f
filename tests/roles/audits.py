"""Whole audits of one machine with become."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.fleet import Fleet
from tests.playbooks.conftest import ROOT, environment

ROOM = {"probe_runtime_need_bytes": 20 << 20}


def audit(
    fleet: Fleet, stub: Path, results: Path, server: str, *words: str, programs: Path | None = None, **wishes: Any
) -> tuple[str, Path | None]:
    """One audit of one machine with become; returns what was printed and the server's folder in the run.

    `programs` is the folder of another ansible-playbook than that of this virtual environment.
    """
    order = {"gpus": 1, "gpu": "H100"}
    env = environment() | ({"PATH": f"{programs}:{environment()['PATH']}"} if programs else {})
    variables = {"audit_probe": str(stub), "audit_results": str(results), "audit_poll": 0.3, "ansible_become": True,
                 "audit_order": order, **ROOM, **wishes}  # fmt: skip
    command = f"{programs}/ansible-playbook" if programs else "ansible-playbook"
    done = subprocess.run(
        [command, "audit.yml", "-i", str(fleet.inventory), "--limit", server, "--skip-tags", "report",
         "-e", json.dumps(variables), *words],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    runs = sorted(results.glob("*/*/servers/" + server))
    return done.stdout, runs[-1] if runs else None


def leftovers(fleet: Fleet) -> str:
    """Every folder of ours on the machine."""
    return fleet.ssh("h001", "sudo sh -c 'ls -d /root/auditor* /tmp/auditor* /var/tmp/auditor* 2>/dev/null'").stdout
