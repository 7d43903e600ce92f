"""Host keys, and what of the controller a rented machine gets to see (threats C01, C02, S03)."""

from __future__ import annotations

import configparser
import re
import subprocess
from pathlib import Path

import pytest

from tests.fleet import Fleet
from tests.playbooks.conftest import ROOT, Auditor

pytestmark = pytest.mark.fleet


@pytest.fixture
def strangers(fleet: Fleet, tmp_path: Path) -> Path:
    """An inventory of servers, of which h002 was never met; its known_hosts is the test's own."""
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


def test_C02_unknown_keys_first_use_and_a_changed_key(audit: Auditor, strangers: Path, tmp_path: Path) -> None:
    """An unknown key is a row with fingerprint and command; wished for, it is recorded; a changed one is no audit."""
    fleet = audit.fleet
    trusting = tmp_path / "trusting.ini"
    trusting.write_text("[all]\nh003 audit_accept_new_host_keys=true\n")
    first = audit("--limit", "h001,h002,h003", inventory=[strangers, trusting])
    assert first.code == 0 and first.states["h001"].phase == "done", first.out
    unknown, trusted = first.states["h002"], first.states["h003"]
    assert (unknown.phase, unknown.reason) == ("reach", "host_key_unknown")
    assert fingerprint(fleet, "h002") in str(unknown.detail)
    match = re.search(r"accept it with: (ssh .*? true)", str(unknown.detail))
    assert match and fleet.plan.machine("h002").address in match[1] and "-p 2222" in match[1]
    assert trusted.phase == "done"
    assert trusted.details["host_key"] == fingerprint(fleet, "h003") and trusted.details["host_key_first_use"] is True
    fleet.fault("h003", "rekey")
    fleet.fault("h003", "kick")
    again = audit("--limit", "h003", inventory=[strangers, trusting])
    assert (again.states["h003"].phase, again.states["h003"].reason) == ("reach", "host_key_changed"), again.out


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
