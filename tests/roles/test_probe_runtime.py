"""A torch of our own: brought once, found again, removed without a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet import Fleet
from tests.roles.conftest import Play

pytestmark = pytest.mark.fleet


def ours(fleet: Fleet, server: str) -> str:
    """Everything on the machine that carries our name."""
    return fleet.ssh(
        server, "ls -d ~/auditor* /tmp/auditor* /var/tmp/auditor* ~/.ansible/tmp/auditor* 2>/dev/null"
    ).stdout


@pytest.fixture
def bare(bare_fleet: Fleet) -> str:
    """A machine without torch, fresh from a reboot."""
    bare_fleet.reboot("h001")
    return "h001"


ROOM = {"probe_runtime_need_bytes": 20 << 20}


def test_a_torch_is_brought_without_network_or_root_and_found_again(
    bare_fleet: Fleet, bare: str, play: Play, wheelhouse: Path
):
    """The second run changes nothing, and no wheel stays on the server."""
    wishes = {"probe_runtime_wheelhouse": str(wheelhouse), **ROOM}
    first = play(bare, "probe_runtime", wishes, ("probe_runtime_brought",), become=False)
    assert first.code == 0, first.out
    python = first.told["probe_runtime_brought"]["interpreter"]
    assert python.endswith("/venv/bin/python") and "auditor-torch-" in python, first.told
    assert bare_fleet.ssh(bare, f"{python} -c 'import torch; print(torch.__version__)'").stdout.strip() == "2.13.0+cpu"
    assert "auditor-wheels-" not in ours(bare_fleet, bare)
    second = play(bare, "probe_runtime", wishes, become=False)
    assert second.code == 0 and second.changed == 0, second.out


def test_too_little_room_is_a_reason_with_figures(bare_fleet: Fleet, bare: str, play: Play, wheelhouse: Path):
    """Nothing is left behind, and the sentence says how much is needed and where how much is free."""
    wishes = {"probe_runtime_wheelhouse": str(wheelhouse),
              "probe_runtime_need_bytes": 10 << 30}  # fmt: skip
    done = play(bare, "probe_runtime", wishes, ("probe_runtime_brought",), become=False)
    told = done.told["probe_runtime_brought"]
    assert done.code == 0 and told["reason"] == "disk_full" and "10240 MiB" in told["detail"], done.out
    assert ours(bare_fleet, bare) == ""


def test_no_wheel_for_this_torch_is_pips_own_sentence(bare_fleet: Fleet, bare: str, play: Play, wheelhouse: Path):
    """A wheelhouse for another version ends in a reason and an empty disk."""
    wishes = {"probe_runtime_wheelhouse": str(wheelhouse),
              "probe_runtime_version": "2.99.0", **ROOM}  # fmt: skip
    done = play(bare, "probe_runtime", wishes, ("probe_runtime_brought",), become=False)
    told = done.told["probe_runtime_brought"]
    assert done.code == 0 and told["reason"] == "pip_failed" and "2.99.0" in told["detail"], done.out
    assert ours(bare_fleet, bare) == ""


def test_an_interpreter_with_torch_is_enough(fleet: Fleet, play: Play):
    """Where torch is, nothing is brought; /opt/venv of the machine is found."""
    done = play("h001", "probe_runtime", become=False, on=fleet)
    assert done.code == 0 and done.changed == 0, done.out


def test_check_mode_says_what_would_come_and_brings_nothing(bare_fleet: Fleet, bare: str, play: Play, wheelhouse: Path):
    """--check leaves the machine as it was."""
    wishes = {"probe_runtime_wheelhouse": str(wheelhouse), **ROOM}
    done = play(bare, "probe_runtime", wishes, (), "--check", become=False)
    assert done.code == 0, done.out
    assert ours(bare_fleet, bare) == ""
