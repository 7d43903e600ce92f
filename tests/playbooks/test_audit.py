"""The main job over real servers: measured, cleaned, reported; wished for in the ways a person wishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tests.fleet import Fleet
from tests.playbooks.conftest import ROOT, Audit

pytestmark = pytest.mark.fleet


def listing(fleet: Fleet, server: str) -> list[str]:
    """Everything on the server that an audit could leave: files with their size and mode, processes, listeners."""
    command = (
        'sudo sh -c \'(find / -xdev -printf "%p %s %m %u\\n"; find /dev/shm /run -printf "%p %s %m %u\\n") | sort;'
        ' for p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline; echo; done | grep -v -e sshd -e "sh -c" -e find | sort;'
        ' cat /proc/net/tcp /proc/net/tcp6 | grep -c " 0A "\''
    )
    done = fleet.ssh(server, command)
    kept = [line for line in done.stdout.splitlines() if not line.startswith(("/proc", "/home/ubuntu 0 ", "/run/sudo"))]
    assert kept, done.stderr
    return kept


def test_five_servers_with_one_real_probe(
    fleet: Fleet, audit: Audit, real_probe: Path, stub_probe: Path, tmp_path: Path
) -> None:
    """Orders, labels and records meet in the workbook; the real probe's figures are this machine's."""
    inventory = tmp_path / "provider_x" / "hosts.yml"
    inventory.parent.mkdir()
    inventory.write_text(
        json.dumps(
            {
                "all": {
                    "vars": {"audit_order": {"gpus": 0}, "audit_probe": str(stub_probe)},
                    "hosts": {
                        "h001": {"audit_probe": str(real_probe), "audit_only": "server_facts,matmul,collectives"},
                        "h002": {"audit_label": "第二台", "audit_order": "8x A100-SXM4-80GB nvswitch bare-metal"},
                        "h003": {}, "h004": {}, "h005": {},
                    },
                }
            }
        )
    )  # fmt: skip
    done = audit(
        "--limit",
        "h001,h002,h003,h004,h005",
        inventory=[fleet.inventory, inventory],
        audit_profile="quick",
        audit_budget=40,
        audit_probe=None,
    )
    assert done.code == 0, done.out
    phases = {name: state.phase for name, state in done.states.items()}
    assert phases == dict.fromkeys(fleet.names[:5], "done"), done.out
    record = json.loads(done.record("h001"))
    rates = [r["value"] for r in record["readings"] if r["metric"] == "matmul_sustained_flops_per_second"]
    assert rates and all(1e8 < rate < 1e14 for rate in rates)
    assert record["server"] == "h001" and record["device"] == "cpu"
    assert done.folder
    book = openpyxl.load_workbook(done.folder / "report/report.xlsx", read_only=True)
    rows = [[str(cell) for cell in row] for sheet in book for row in sheet.iter_rows(values_only=True)]
    text = "\n".join(" ".join(row) for row in rows)
    assert all(name in text for name in ("h001", "第二台", "h003", "h004", "h005"))


def test_nothing_is_left_and_a_second_run_is_the_same(fleet: Fleet, audit: Audit, real_probe: Path) -> None:
    """Files, processes and listeners of the whole server are the same before and after, twice."""
    before = listing(fleet, "h002")
    for _ in range(2):
        done = audit("--limit", "h002", "--skip-tags", "report", audit_only="server_facts", audit_probe=str(real_probe))
        assert done.states["h002"].phase == "done", done.out
        assert listing(fleet, "h002") == before


def test_an_orphan_of_the_probe_is_found_and_ended(fleet: Fleet, audit: Audit, manner: Any) -> None:
    """A child that left the session is still ours; a stranger's process with a like name is not."""
    fleet.ssh("h002", "cp /usr/bin/sleep /tmp/probe.pyz && (setsid /tmp/probe.pyz 500 >/dev/null 2>&1 </dev/null &)")
    manner("h002", "orphan")
    done = audit("--limit", "h002", "--skip-tags", "report")
    assert done.states["h002"].phase == "done", done.out
    alive = fleet.ssh("h002", "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done").stdout
    assert "sleep 1000" not in alive and "/tmp/probe.pyz 500" in alive
    fleet.ssh("h002", "kill $(pidof probe.pyz); rm /tmp/probe.pyz")


def test_keep_leaves_the_folder_and_cleanup_takes_it(fleet: Fleet, audit: Audit) -> None:
    """audit_keep leaves our one folder; cleanup.yml removes it; a second clean-up changes nothing."""
    audit("--limit", "h002", "--skip-tags", "report", audit_keep=True)
    (folder,) = fleet.root("h002").glob("tmp/auditor-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    first = audit("--limit", "h002", playbook="cleanup.yml")
    assert first.code == 0 and "removed /tmp/auditor-" in first.out
    second = audit("--limit", "h002", playbook="cleanup.yml")
    assert second.code == 0 and "removed nothing" in second.out


def test_check_mode_tells_and_changes_nothing(fleet: Fleet, audit: Audit) -> None:
    """--check says what would be measured with; no run folder, no file on the server."""
    before = listing(fleet, "h002")
    done = audit("--limit", "h002", "--check")
    assert done.code == 0, done.out
    assert "would be measured" in done.out and "torch" in done.out
    assert done.folder is None
    assert listing(fleet, "h002") == before


def test_limit_says_n_of_m(fleet: Fleet, audit: Audit) -> None:
    """Under --limit the run knows how many servers the inventory has; only the limited ones have a row."""
    done = audit("--limit", "h001", "--skip-tags", "report")
    run = json.loads((done.folder or Path()).joinpath("run.json").read_text())
    assert run["of_inventory"] == len(fleet.names) and list(done.states) == ["h001"]


def test_all_servers_down_still_writes_the_workbook(fleet: Fleet, audit: Audit) -> None:
    """When nobody answers there is a row for each and a workbook."""
    fleet.fault("*", "down")
    done = audit()
    assert done.code == 0, done.out
    assert {state.reason for state in done.states.values()} == {"unreachable"}
    assert done.folder and (done.folder / "report/report.xlsx").exists()


@pytest.mark.parametrize(
    ("fail_on", "code"), [("never", 0), ("reject", 0), ("incomplete", 2)], ids=["never", "reject", "incomplete"]
)
def test_the_exit_code_is_wished_for(fleet: Fleet, audit: Audit, fail_on: str, code: int) -> None:
    """Bad hardware fails the play only where audit_fail_on asks for it."""
    fleet.fault("h002", "down")
    done = audit("--limit", "h002", audit_fail_on=fail_on)
    assert done.code == code, done.out
    assert done.folder and (done.folder / "report/report.xlsx").exists()


def test_the_samples_are_inventories(audit: Audit) -> None:
    """provider_a and provider_b are understood, orders and all; their addresses belong to nobody and are not asked."""
    for name in ("provider_a", "provider_b", "local"):
        done = audit("--check", "--tags", "none", inventory=ROOT / "inventory" / name)
        assert done.code == 0, done.out
