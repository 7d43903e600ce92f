"""What of the user's ssh configuration is honoured, and what never is."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.errors import UserError
from auditor.quick import settings
from auditor.quick.settings import Settings
from auditor.quick.target import parse


def read(tmp_path: Path, text: str, host: str = "gpu-01", **more: object) -> Settings:
    """The settings for a host under a configuration."""
    config = tmp_path / "config"
    config.write_text(text)
    wish = {"key": None, "jump": None, "config": config, "options": (), **more}
    return settings.of(parse([host])[0], **wish)  # type: ignore[arg-type]


def test_address_port_user_keys_and_jump_of_the_configuration(tmp_path: Path) -> None:
    """What names the way is taken, also through Include, which Fabric's own reader does not know."""
    (tmp_path / "more").write_text("Host gpu-*\n  HostName 192.0.2.10\n  Port 22022\n  User root\n")
    found = read(
        tmp_path,
        f"Include {tmp_path}/more\nHost gpu-01\n  IdentityFile ~/.ssh/rented\n  ProxyJump ops@192.0.2.1:2200\n",
    )
    assert (found.host, found.port, found.user) == ("192.0.2.10", 22022, "root")
    assert found.identities == ("~/.ssh/rented",)
    assert found.proxy_jump == "ops@[192.0.2.1]:2200"
    assert found.key_name == "[192.0.2.10]:22022"


def test_the_command_line_wins(tmp_path: Path) -> None:
    """Port and user that were typed count before those of the file; -i is the only key then (threat C03)."""
    text = "Host *\n  Port 1\n  User nobody\n  IdentityFile ~/.ssh/other\n"
    found = read(tmp_path, text, "root@gpu-01:22022", key=Path("/keys/mine"), jump="ops@192.0.2.1")
    assert (found.port, found.user, found.identities, found.proxy_jump) == (
        22022,
        "root",
        ("/keys/mine",),
        "ops@[192.0.2.1]",
    )


def test_which_agent_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """IdentitiesOnly and IdentityAgent mean what they mean to ssh."""
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    monkeypatch.setenv("OTHER", "/run/other")
    assert read(tmp_path, "").agent == "/run/agent"
    assert read(tmp_path, "IdentityAgent /run/mine\n").agent == "/run/mine"
    assert read(tmp_path, "IdentityAgent $OTHER\n").agent == "/run/other"
    assert read(tmp_path, "IdentitiesOnly yes\n").agent is None
    assert read(tmp_path, "IdentityAgent none\n").agent is None


def test_C01_nothing_that_forwards_or_runs_is_a_setting() -> None:
    """There is no field through which agent, X11, ports, environment or commands could come in."""
    assert set(Settings.__struct_fields__) == {
        "host", "port", "user", "key_name", "known_hosts", "identities", "agent", "proxy_jump", "proxy_command",
        "hash_names",
    }  # fmt: skip


def test_a_configuration_that_ssh_refuses_is_a_sentence(tmp_path: Path) -> None:
    """The user's own mistake is told in ssh's words."""
    with pytest.raises(UserError, match="does not accept its configuration for gpu-01.*"):
        read(tmp_path, "Prot 22\n")


def test_options_are_passed_as_ssh_takes_them(tmp_path: Path) -> None:
    """-o names anything of ssh_config, for one run."""
    found = read(tmp_path, "", options=("UserKnownHostsFile=/tmp/known", "HostKeyAlias=box"))
    assert "/tmp/known" in found.known_hosts
    assert found.key_name == "box"
