"""The main job over real servers: measured, cleaned, reported; wished for in the ways a person wishes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import openpyxl
import pytest

from tests.fleet import Fleet
from tests.playbooks.conftest import ROOT, Auditor, folders

pytestmark = pytest.mark.fleet


def listing(fleet: Fleet, server: str) -> list[str]:
    """Everything on the server that an audit could leave: files with size and mode, processes, listeners."""
    files = '(find / -xdev -printf "%p %s %m %u\n"; find /dev/shm /run -printf "%p %s %m %u\n") | sort'
    listeners = 'cat /proc/net/tcp /proc/net/tcp6 | grep -c " 0A "'
    done = fleet.ssh(server, f"sudo sh -c '{files}; {listeners}'")
    kept = [line for line in done.stdout.splitlines() if not line.startswith(("/proc", "/run/sudo"))]
    assert len(kept) > 40, done.stderr
    processes = fleet.ssh(server, "cat /proc/[0-9]*/comm").stdout.split()
    return kept + sorted(set(processes) - {"sshd", "bash", "cat"})


def test_five_servers_with_one_real_probe(audit: Auditor, real_probe: Path, stub_probe: Path, tmp_path: Path) -> None:
    """Orders, labels and records meet in the workbook; the real probe's figures are this machine's."""
    inventory = tmp_path / "provider_x" / "hosts.yml"
    inventory.parent.mkdir()
    hosts = {
        "h001": {"audit_probe": str(real_probe), "audit_only": "server_facts,matmul", "audit_budget": 30},
        "h002": {"audit_label": "第二台", "audit_order": "8x A100-SXM4-80GB nvswitch bare-metal"},
        **{name: {} for name in audit.fleet.names[2:5]},
    }
    common = {"audit_order": {"gpus": 0}, "audit_probe": str(stub_probe), "audit_profile": "quick"}
    inventory.write_text(json.dumps({"all": {"vars": common, "hosts": hosts}}))
    sources = [audit.fleet.inventory, inventory]
    done = audit("--limit", ",".join(hosts), inventory=sources, report=True, audit_probe=None)
    assert done.code == 0, done.out
    phases = {name: state.phase for name, state in done.states.items()}
    assert phases == dict.fromkeys(hosts, "done"), done.out
    record = json.loads(done.record("h001"))
    rates = [r["value"] for r in record["readings"] if r["metric"].endswith("_flops_per_second")]
    assert rates and all(1e8 < rate < 1e14 for rate in rates), record["probes"]
    assert record["server"] == "h001" and record["device"] == "cpu" and not record["synthetic"]
    run = json.loads((done.folder or Path()).joinpath("run.json").read_text())
    assert run["of_inventory"] == 6 and len(run["nonces"]) == 5 and run["finished"]
    book = openpyxl.load_workbook((done.folder or Path()) / "report/report.xlsx", read_only=True)
    text = "\n".join(str(cell) for sheet in book for row in sheet.iter_rows(values_only=True) for cell in row)
    assert all(name in text for name in ("h001", "第二台", "h003", "h004", "h005"))


def test_nothing_is_left_and_a_second_run_is_the_same(audit: Auditor, real_probe: Path) -> None:
    """Files, processes and listeners of the whole server are the same before and after, twice."""
    before = listing(audit.fleet, "h002")
    for _ in range(2):
        done = audit("--limit", "h002", audit_only="server_facts", audit_probe=str(real_probe))
        assert done.states["h002"].phase == "done", done.out
        assert listing(audit.fleet, "h002") == before


def test_keep_leaves_the_folder_for_the_next_audit_and_cleanup_takes_it(audit: Auditor) -> None:
    """With audit_keep a second audit of an unchanged server adds nothing: the same folder serves again."""
    fleet = audit.fleet
    audit("--limit", "h002", audit_keep=True)
    (folder,) = folders(fleet, "h002")
    assert folder.stat().st_mode & 0o777 == 0o700
    before, probe = sorted(path.name for path in folder.iterdir()), (folder / "probe.pyz").stat().st_mtime_ns
    again = audit("--limit", "h002", audit_keep=True, env={"ANSIBLE_STDOUT_CALLBACK": "default"})
    assert again.states["h002"].phase == "done", again.out
    tasks = re.findall(r"^(?:ok|changed|skipping|fatal|included): \[h002[] ]", again.out, re.MULTILINE)
    assert 2 <= len(tasks) <= 4, again.out  # opened, started, collected with clean-up; the report is left out here
    assert "TASK [Judge" not in again.out
    assert folders(fleet, "h002") == [folder]
    assert sorted(path.name for path in folder.iterdir()) == before
    assert (folder / "probe.pyz").stat().st_mtime_ns == probe
    assert audit("--limit", "h002", playbook="cleanup.yml").code == 0
    assert not folders(fleet, "h002")


def test_check_mode_tells_and_changes_nothing(audit: Auditor) -> None:
    """--check says what would be measured with, and who cannot be reached where; no run folder, no file anywhere."""
    before = listing(audit.fleet, "h002")
    audit.fleet.fault("h003", "down")
    done = audit("--limit", "h002,h003", "--check")
    assert done.code == 0, done.out
    address = audit.fleet.plan.machine("h003").address
    assert f"h003  ubuntu@{address} port 2222: the connection was refused: the address answers, but no SSH" in done.out
    assert "still booting" in done.out
    assert "would be measured" in done.out and "torch" in done.out
    assert done.folder is None
    assert listing(audit.fleet, "h002") == before


@pytest.mark.parametrize("name", ["provider_a", "provider_b", "local"])
def test_the_samples_are_inventories(audit: Auditor, name: str) -> None:
    """The samples are understood, orders and all; their addresses belong to nobody and are not asked."""
    done = audit("--check", "--tags", "none", inventory=ROOT / "inventory" / name)
    assert done.code == 0, done.out
