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
    """A wheelhouse for another version ends in a reason, the command that makes the right one, and an empty disk."""
    wishes = {"probe_runtime_wheelhouse": str(wheelhouse),
              "probe_runtime_version": "2.99.0", **ROOM}  # fmt: skip
    done = play(bare, "probe_runtime", wishes, ("probe_runtime_brought",), become=False)
    told = done.told["probe_runtime_brought"]
    assert done.code == 0 and told["reason"] == "pip_failed" and "2.99.0" in told["detail"], done.out
    assert "make wheelhouse SERVER_PYTHON=3." in told["detail"] and "TORCH=2.99.0" in told["detail"]
    assert "torch-2.13.0-py3-none-any.whl came" in told["detail"]
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


@pytest.fixture
def mirror(bare_fleet: Fleet, bare: str, wheelhouse: Path) -> str:
    """The address of a package index that a web server of the machine itself serves; the machine has a pip."""
    root, names = bare_fleet.root(bare) / "srv", {"torch": "torch-*.whl", "pip": "pip-*.whl"}
    for name, pattern in names.items():
        folder = root / "simple" / name
        folder.mkdir(parents=True)
        for wheel in wheelhouse.glob(pattern):
            (folder / wheel.name).write_bytes(wheel.read_bytes())
    script = """
    packages=~/.local/lib/python3.$(/usr/bin/python3 -c 'import sys; print(sys.version_info[1])')/site-packages
    mkdir -p $packages && /usr/bin/python3 -m zipfile -e /srv/simple/pip/pip-*.whl $packages
    sudo rm -rf /etc/xdg/pip; printf '[global]\nretries = 1\n' | sudo tee /etc/pip.conf; cd /srv
    nohup /usr/bin/python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>/tmp/asked &
    until /usr/bin/python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8000))' 2>/dev/null; do :; done
    """
    done = bare_fleet.ssh(bare, script)
    assert done.returncode == 0, done.stderr
    return "http://127.0.0.1:8000/simple/"


@pytest.mark.scale
def test_a_mirror_serves_where_the_index_is_out_of_reach(bare_fleet: Fleet, bare: str, play: Play, mirror: str):
    """probe_runtime_index alone brings torch, from there and from nowhere else; a proxy that is down is told."""
    wishes = {"probe_runtime_index": mirror, "probe_runtime_trusted_host": "127.0.0.1", **ROOM}
    blocked = {**wishes, "probe_runtime_proxy": "http://127.0.0.1:9"}
    told = play(bare, "probe_runtime", blocked, ("probe_runtime_brought",), become=False).told["probe_runtime_brought"]
    assert told["reason"] == "no_internet" and "proxy" in told["detail"], told
    done = play(bare, "probe_runtime", wishes, ("probe_runtime_brought",), become=False)
    python = done.told["probe_runtime_brought"].get("interpreter", "")
    assert "auditor-torch-" in python, done.told
    assert bare_fleet.ssh(bare, f"{python} -c 'import torch; print(torch.__version__)'").stdout.strip() == "2.13.0+cpu"
    assert "GET /simple/torch/" in (bare_fleet.root(bare) / "tmp/asked").read_text()
