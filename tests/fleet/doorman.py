"""An sshd of the controller itself: a jump host that reaches the machines, and an IPv6 address in front of one."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.fleet.faults import keygen
from tests.fleet.machine import SSHD


class Doorman(NamedTuple):
    """Where it listens (127.0.0.1 and ::1), and an ssh configuration that knows it as `door`."""

    port: int
    config: Path


@contextlib.contextmanager
def doorman(folder: Path) -> Iterator[Doorman]:
    """Runs it while the block runs; needs root, as the fleet does."""
    for name in ("host", "user"):
        keygen(folder / name, "door")
    port = _free_port()
    config = folder / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nListenAddress ::1\nHostKey {folder}/host\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {folder}/user.pub\nStrictModes no\nPermitRootLogin prohibit-password\n"
    )
    key = " ".join((folder / "host.pub").read_text().split()[:2])
    (folder / "known_door").write_text(f"[127.0.0.1]:{port} {key}\n")
    (folder / "door_config").write_text(
        f"Host door\n  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentityFile {folder}/user\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {folder}/known_door\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=subprocess.PIPE)
    assert server.stderr
    with _ending(server), server.stderr:
        while b"listening" not in (line := server.stderr.readline()) or b"::1" not in line:
            assert line, "sshd did not start"
        yield Doorman(port, folder / "door_config")


@contextlib.contextmanager
def ipv6_in_front_of(door: Doorman, address: str, port: int) -> Iterator[int]:
    """A port of ::1 that leads to a machine, as long as the block runs."""
    own = _free_port()
    argv = ["ssh", "-F", str(door.config), "-N", "-v", "-o", "ExitOnForwardFailure=yes"]
    tunnel = subprocess.Popen([*argv, "-L", f"[::1]:{own}:{address}:{port}", "door"], stderr=subprocess.PIPE)
    assert tunnel.stderr
    with _ending(tunnel), tunnel.stderr:
        while b"Local forwarding listening on ::1" not in (line := tunnel.stderr.readline()):
            assert line, "the tunnel did not start"
        yield own


@contextlib.contextmanager
def _ending(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        port: int = probe.getsockname()[1]
        return port
