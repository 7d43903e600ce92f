"""Host keys, and what of the controller a rented machine gets to see (threats C01, C02, S03)."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fleet import Fleet
from tests.playbooks.conftest import ROOT, Audit

pytestmark = pytest.mark.fleet


@pytest.fixture
def strangers(fleet: Fleet, tmp_path: Path) -> Path:
    """An inventory of two servers, of which h002 was never met; its known_hosts is the test's own."""
    lines = (fleet.folder / "known_hosts").read_text().splitlines(keepends=True)
    (tmp_path / "known_hosts").write_text(lines[0])
    text = fleet.inventory.read_text().replace(f"{fleet.folder}/known_hosts", str(tmp_path / "known_hosts"))
    inventory = tmp_path / "strangers.ini"
    inventory.write_text(text)
    return inventory


def fingerprint(fleet: Fleet, server: str) -> str:
    """The server's true fingerprint."""
    path = str(fleet.folder / "hosts" / server / "ssh_host_ed25519_key.pub")
    out = subprocess.run(["ssh-keygen", "-lf", path], capture_output=True, text=True, check=True).stdout
    return out.split()[1]


def test_C02_an_unknown_key_is_a_row_with_its_fingerprint(fleet: Fleet, audit: Audit, strangers: Path) -> None:
    """The row tells the fingerprint and the command that accepts the key; nothing ran on the server."""
    done = audit("--limit", "h001,h002", inventory=strangers)
    assert done.code == 0, done.out
    state = done.states["h002"]
    assert (state.phase, state.reason) == ("reach", "host_key_unknown")
    assert fingerprint(fleet, "h002") in str(state.detail)
    match = re.search(r"accept it with: (ssh .*? true)", str(state.detail))
    assert match and fleet.plan.machine("h002").address in match[1] and "-p 2222" in match[1]
    assert done.states["h001"].phase == "done"


def test_C02_first_use_is_recorded_and_a_changed_key_stops(fleet: Fleet, audit: Audit, strangers: Path) -> None:
    """With the wish to accept, the first key is stored and noted; another key later is no audit, wish or not."""
    first = audit("--limit", "h002", inventory=strangers, audit_accept_new_host_keys=True)
    assert first.states["h002"].phase == "done", first.out
    assert first.states["h002"].details["host_key"] == fingerprint(fleet, "h002")
    assert first.states["h002"].details["host_key_first_use"] is True
    again = audit("--limit", "h002", inventory=strangers, audit_accept_new_host_keys=True)
    assert again.states["h002"].phase == "done" and "host_key_first_use" not in again.states["h002"].details
    fleet.fault("h002", "rekey")
    fleet.fault("h002", "kick")
    changed = audit("--limit", "h002", inventory=strangers, audit_accept_new_host_keys=True)
    assert changed.code == 0
    assert (changed.states["h002"].phase, changed.states["h002"].reason) == ("reach", "host_key_changed")


def test_C01_nothing_of_ours_is_forwarded() -> None:
    """ssh itself says so: agent, X11, forwards, LocalCommand, environment and new host keys are all off."""
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "ansible.cfg")
    words = settings["ssh_connection"]["ssh_args"].split()
    hostile = ["-o", "ForwardAgent=yes", "-o", "ForwardX11=yes", "-o", "LocalForward=9999 localhost:1"]
    hostile += ["-o", "PermitLocalCommand=yes", "-o", "StrictHostKeyChecking=no", "-o", "UpdateHostKeys=yes"]
    done = subprocess.run(
        ["ssh", "-G", *words, *hostile, "192.0.2.1"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert told["forwardagent"] == "no" and told["forwardx11"] == "no"
    assert told["clearallforwardings"] == "yes" and told["permitlocalcommand"] == "no"
    assert told["updatehostkeys"] == "false" and told["stricthostkeychecking"] in ("true", "yes")
    assert "sendenv" not in told, told["sendenv"]
    assert "sntrup761" not in told["kexalgorithms"]


def test_C01_a_persons_own_ssh_config_is_read(tmp_path: Path) -> None:
    """Hosts, users and jump hosts of ~/.ssh/config hold for the audit too."""
    folder = Path.home() / ".ssh"
    text = (ROOT / "plugins/files/ssh_config").read_text()
    assert "Include ~/.ssh/config" in text
    own = tmp_path / "own"
    own.write_text("Host rented\n  HostName 192.0.2.77\n  User somebody\n  SendEnv EDITOR\n")
    own.chmod(0o600)
    config = tmp_path / "ssh_config"
    config.write_text(text.replace("~/.ssh/config", str(own)))
    done = subprocess.run(["ssh", "-G", "-F", str(config), "rented"], capture_output=True, text=True, check=True)
    assert "hostname 192.0.2.77\n" in done.stdout and "user somebody\n" in done.stdout
    assert "sendenv" not in done.stdout, folder


def test_C01_S03_what_the_server_sees_of_us(fleet: Fleet, audit: Audit, manner: Any) -> None:
    """The probe's environment on the server holds no agent, no display and no variable of the controller's."""
    manner("h002", seconds=1, environment="/tmp/seen")
    secret = {
        "SSH_AUTH_SOCK": "/tmp/agent.sock",
        "DISPLAY": ":9",
        "LC_CANARY": "c4n4ry",
        "AWS_SECRET_ACCESS_KEY": "c4n4ry",
    }
    done = audit("--limit", "h002", env=secret)
    assert done.code == 0, done.out
    seen = (fleet.root("h002") / "tmp/seen").read_text()
    (fleet.root("h002") / "tmp/seen").unlink()
    assert "AUDITOR_FOLDER=" in seen
    for word in ("SSH_AUTH_SOCK", "DISPLAY", "CANARY", "c4n4ry", str(Path.home()) + "/", os.uname().nodename):
        assert word not in seen, word
