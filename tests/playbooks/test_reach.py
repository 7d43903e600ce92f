"""Servers as they are rented: reached and measured, or a row that says why not; one audit of all of them."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.fleet import Fleet
from tests.fleet.doorman import doorman, ipv6_in_front_of
from tests.playbooks import odd_servers
from tests.playbooks.conftest import Auditor, Done, environment
from tests.playbooks.odd_servers import ODD

pytestmark = pytest.mark.fleet


class Rented(NamedTuple):
    """The audit, its inventory, the report's rows, and what lay on every server before and after it."""

    done: Done
    inventory: Path
    rows: dict[str, dict[str, Any]]
    before: dict[str, dict[str, str]]
    after: dict[str, dict[str, str]]

    def address(self, server: str) -> str:
        """What the inventory calls the server's address."""
        hosts = yaml.load(self.inventory.read_text().replace("!vault", ""), Loader=yaml.SafeLoader)["all"]["hosts"]
        return str(hosts[server]["ansible_host"])


@pytest.fixture(scope="module")
def odd_fleet(tmp_path_factory: pytest.TempPathFactory, fleet_here: None) -> Iterator[Fleet]:
    """One machine for each odd server."""
    with Fleet(
        len(ODD), tmp_path_factory.mktemp("odd") / "f", net=f"127.{20 + os.getpid() % 30}", bind=odd_servers.binds()
    ) as fleet:
        for server, odd in ODD.items():
            odd_servers.inside(fleet, server, odd.made)
        yield fleet


@pytest.fixture(scope="module")
def rented(odd_fleet: Fleet, stub_probe: Path, tmp_path_factory: pytest.TempPathFactory) -> Rented:
    """One run of audit.yml over all of them."""
    folder = tmp_path_factory.mktemp("reach")
    audit = Auditor(odd_fleet, stub_probe, folder / "results")
    address = odd_fleet.plan.machine(odd_servers.machine(odd_fleet, "ipv6")).address
    before = {server: odd_servers.traces(odd_fleet, server) for server in ODD}
    with doorman(folder) as door, ipv6_in_front_of(door, address, odd_fleet.plan.port) as port:
        inventory = odd_servers.inventory(odd_fleet, folder, door, port)
        words = ("--vault-password-file", str(folder / "vault_password"))
        done = audit(*words, inventory=inventory, report=True)
    assert done.folder, done.out
    told = subprocess.run(
        [sys.executable, "-m", "auditor", "report", str(done.folder), "--json"], capture_output=True, text=True
    )
    rows = {row["name"]: row for row in json.loads(told.stdout)["servers"]}
    after = {server: odd_servers.traces(odd_fleet, server) for server in ODD}
    return Rented(done, inventory, rows, before, after)


WORKS = {  # server: words of what the run folder knows about it
    "good": {"privilege": "sudo", "chosen": "no Python here has torch"},
    "sudo-from-vault": {"privilege": "root"},
    "noexec-tmp": {},
    "fifty-mb": {},
    "no-torch-no-net": {"torch_missing": "pip reached no package index (Temporary failure in name resolution)"},
    "no-torch-no-room": {"torch_missing": "torch needs 12288 MiB where programs may run, free: /home/ubuntu"},
    "ssh-password": {},
    "behind-a-jump-host": {},
    "ipv6": {},
}


@pytest.mark.parametrize("server", WORKS)
def test_measured_all_the_same(rented: Rented, server: str) -> None:
    """Odd, but no obstacle: its record is here, and what is odd about it is known."""
    state = rented.done.states[server]
    assert (state.phase, state.reason) == ("done", None), rented.done.out
    assert json.loads(rented.done.record(server))["server"] == server
    for name, words in WORKS[server].items():
        assert words in str(state.details[name]), state.details


def test_room_for_the_audit_is_told(rented: Rented) -> None:
    """Fifty megabytes are enough to measure; how much is left is written down."""
    free = rented.done.states["fifty-mb"].details["disk_free_bytes"]
    assert isinstance(free, int) and 45 << 20 < free < 51 << 20


ENDS = [  # server, phase, reason, words of the sentence
    ("sudo-not-given", "start", "sudo_refused", "sudo asks for a password: pass --ask-become-pass"),
    ("sudo-wrong", "start", "sudo_refused", "sudo did not take the password: check ansible_become_password"),
    ("sudo-forbidden", "start", "sudo_refused", "this user may not use sudo: log in as root"),
    ("sudo-missing", "start", "sudo_refused", "there is no sudo there: log in as root"),
    ("read-only-root", "start", "read_only", "/tmp, /var/tmp, /home/ubuntu: Read-only file system"),
    ("ten-mb", "start", "disk_full", "16 MiB are needed; /tmp, /var/tmp, /home/ubuntu: No space left"),
    ("no-python", "start", "no_python", "there is no Python; 3.8 or newer is needed"),
    ("ssh-password-wrong", "reach", "login_refused", "the key or the password"),
    ("ssh-password-not-given", "reach", "login_refused", "--ask-pass, or ansible_password in a vault"),
    ("unknown-name", "reach", "unreachable", "its name cannot be resolved: check ansible_host"),
    ("sshpass-missing", "reach", "ssh_config", "apt-get install sshpass"),
]


@pytest.mark.parametrize(("server", "phase", "reason", "words"), ENDS, ids=[row[0] for row in ENDS])
def test_a_row_says_why_not(rented: Rented, server: str, phase: str, reason: str, words: str) -> None:
    """The fixed word, a sentence with the next step, and both in the report: `incomplete`, never healthy."""
    if server == "sshpass-missing" and shutil.which("sshpass"):
        pytest.skip("sshpass is installed here: the password reached the server")
    state = rented.done.states[server]
    assert (state.phase, state.reason) == (phase, reason), rented.done.out
    assert words in str(state.detail)
    row = rented.rows[server]
    assert row["verdict"] == "incomplete" and words in row["reason"] and row["reason"].startswith(reason), row


@pytest.mark.parametrize("server", ["ssh-password-wrong", "unknown-name"])
def test_who_was_tried_at_which_port(rented: Rented, server: str) -> None:
    """A person sees user, address and port without looking them up."""
    assert f"ubuntu@{rented.address(server)} port 2222: " in str(rented.done.states[server].detail)


@pytest.mark.parametrize("server", ["no-torch-no-net", "no-torch-no-room"])
def test_why_no_torch_came_is_in_the_report(rented: Rented, server: str) -> None:
    """A GPU server that could not be given a torch says why beside what could not be measured."""
    findings = [finding for finding in rented.rows[server]["findings"] if finding["id"] == "not-measured"]
    said = str(rented.done.states[server].details["torch_missing"])
    assert any(said in finding["observed"] for finding in findings), findings


def test_the_play_succeeds(rented: Rented) -> None:
    """Whatever a server is like: exit code 0, a workbook with a row for each."""
    assert rented.done.code == 0, rented.done.out
    assert rented.done.folder and (rented.done.folder / "report/report.xlsx").exists()
    assert set(rented.rows) == set(ODD)


@pytest.mark.parametrize("server", ODD)
def test_nothing_is_left(rented: Rented, server: str) -> None:
    """Files of the whole disk, processes and listeners are the same before and after."""
    assert rented.after[server] == rented.before[server]


LAYOUTS = [  # server, the interpreter that measured, its torch, why
    ("system", "/usr/bin/python3.", "2.10.0", "the only Python here with torch"),
    ("conda-3.8", "/opt/conda/bin/python3.8", "2.4.1+cu121", "the only Python"),
    ("venv-3.9", "/workspace/venv/bin/python3.9", "2.8.0+cu128", "the only Python"),
    ("conda-env-3.10", "/opt/miniforge3/envs/ml/bin/python3.10", "2.10.0+cu128", "the only Python"),
    ("conda-3.11", "/opt/conda/bin/python3.11", "2.13.0", "the only Python"),
    ("home-venv-3.12", "/home/ubuntu/.venv/bin/python3.12", "2.13.0", "the only Python"),
    ("conda-3.13", "/opt/conda/bin/python3.13", "2.13.0", "the only Python"),
    ("several", "/workspace/venv/bin/python3.12", "2.13.0",
     "the newest torch with CUDA of 3; passed over: /opt/conda/bin/python3.10 (torch 2.9.1, CUDA 12.8), /usr/bin"),
    ("several-old-driver", "/opt/conda/bin/python3.10", "2.9.1",
     "the only torch with CUDA that driver 570 runs of 3; passed over: /workspace/venv/bin/python3.12 (torch 2.13.0"),
]  # fmt: skip


@pytest.mark.parametrize(("server", "python", "torch", "why"), LAYOUTS, ids=[row[0] for row in LAYOUTS])
def test_the_interpreter_that_measures(rented: Rented, server: str, python: str, torch: str, why: str) -> None:
    """System, conda and venv, with and without a system Python: the one with torch runs the probe, and why is said.

    torch is a stand-in with a version file: the search reads that and imports nothing.
    """
    if server not in ODD:
        pytest.skip(f"{len(odd_servers.PYTHONS)} of 6 Python versions (3.8 to 3.13) lie in ~/.pyenv/versions")
    state = rented.done.states[server]
    assert (state.phase, state.reason) == ("done", None), rented.done.out
    assert str(state.details["interpreter"]).startswith(python) and state.details["torch"] == torch
    assert why in str(state.details["chosen"])
    readings = json.loads(rented.done.record(server))["readings"]
    (ran,) = [one["value"] for one in readings if one["metric"] == "server_facts_interpreter"]
    assert ran.startswith(python)


def test_passwords_that_are_typed(rented: Rented, odd_fleet: Fleet, stub_probe: Path, tmp_path: Path) -> None:
    """--ask-pass and --ask-become-pass at a terminal: one password for ssh, one for sudo, both used."""
    fleet, server = odd_fleet, "ssh-password"
    odd_servers.inside(fleet, server, "echo 'ubuntu ALL=(ALL:ALL) ALL' >/etc/sudoers.d/fleet")
    audit = Auditor(fleet, stub_probe, tmp_path / "results")
    command = audit.command(
        "--limit", server, "-k", "-K", inventory=rented.inventory, ansible_become=True,
        ansible_password="{{ omit }}",
    )  # fmt: skip
    out, code = typed(command, {"SSH password:": odd_servers.PASSWORD, "BECOME password": odd_servers.PASSWORD})
    folder = audit.newest()
    assert code == 0 and folder, out
    state = Done(code, out, folder).states[server]
    assert (state.phase, state.details.get("privilege")) == ("done", "root"), out


def typed(command: list[str], answers: dict[str, str]) -> tuple[str, int]:
    """What a program printed on a terminal where a person answers its questions, and its exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(odd_servers.ROOT)
        os.execvpe(command[0], command, environment())
    out, left = "", dict(answers)
    while True:
        try:
            out += os.read(terminal, 65536).decode(errors="replace")
        except OSError:  # the other side has closed it
            break
        for question in [one for one in left if one in out]:
            os.write(terminal, f"{left.pop(question)}\n".encode())
    os.close(terminal)
    return out, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
