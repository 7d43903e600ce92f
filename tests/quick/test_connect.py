"""Reaching a server: keys, passwords, jump hosts, and a sentence for everything that can be wrong."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from auditor.quick.connect import SshLink, Unreachable, Way, connect, ssh_line
from auditor.quick.login import Ask
from auditor.quick.target import parse
from tests.quick.conftest import Machine

pytestmark = pytest.mark.fleet


def refused(machine: Machine, host: str | None = None, ask: Ask = lambda text: None, **way: object) -> Unreachable:
    """The failure of one connection."""
    wish = {"config": machine.config, "seconds": 5.0, **way}
    with pytest.raises(Unreachable) as caught:
        connect(parse([host or machine.name])[0], Way(**wish), ask, {})  # type: ignore[arg-type]
    return caught.value


def works(link: SshLink) -> bool:
    """Whether a command runs there."""
    stream = link.run("echo fine")
    said = b""
    while (data := stream.read(5)) is not None:
        said += data
    stream.close()
    link.close()
    return said == b"fine\n"


def test_a_name_that_does_not_exist(machine: Machine) -> None:
    """Spelling is what the person can check."""
    error = refused(machine, "no-such-host.invalid")
    assert error.reason == "unreachable" and "cannot be resolved" in str(error)


def test_a_port_where_nobody_listens(machine: Machine) -> None:
    """Address and port stand in the sentence."""
    error = refused(machine, f"{machine.name}:1")
    assert error.reason == "unreachable"
    assert "refused" in str(error) and "port 1" in str(error)


def test_a_port_that_never_speaks(machine: Machine) -> None:
    """C06: a mute listener costs the connection's time, not for ever."""
    machine.fleet.fault(machine.name, "mute")
    error = refused(machine, seconds=1.0)
    assert error.reason == "unreachable" and "in time" in str(error)


def test_a_port_that_speaks_something_else(machine: Machine) -> None:
    """A web server is no SSH server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            for _ in range(1):
                connection, _ = server.accept()
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 200)
                connection.close()

        threading.Thread(target=answer, daemon=True).start()
        error = refused(machine, f"127.0.0.1:{port}", seconds=2.0)
    assert error.reason == "unreachable" and "is no SSH server" in str(error)


def test_a_wrong_key_is_named(machine: Machine, tmp_path: Path) -> None:
    """What was shown, what the server takes, what to do."""
    key = keygen(tmp_path / "other")
    error = refused(machine, key=key)
    assert error.reason == "login_refused"
    assert str(key) in str(error) and "takes publickey" in str(error) and "-i KEY" in str(error)


def test_a_wrong_user(machine: Machine) -> None:
    """The user's name stands in the sentence."""
    error = refused(machine, f"nobody-here@{machine.name}")
    assert error.reason == "login_refused" and "login as nobody-here" in str(error)


def test_a_file_that_is_no_key(machine: Machine, tmp_path: Path) -> None:
    """A public key or a letter given as -i is told as such."""
    wrong = tmp_path / "key.pub"
    wrong.write_text("ssh-ed25519 AAAA me\n")
    error = refused(machine, key=wrong)
    assert error.reason == "login_refused" and "no private key" in str(error)


def test_C02_an_unknown_host_key_is_refused_and_the_way_to_accept_it_works(machine: Machine, tmp_path: Path) -> None:
    """Fingerprint and exact command; another fingerprint accepts nothing; accepted, it is written down for ssh too."""
    known = tmp_path / "known"
    options = (f"UserKnownHostsFile={known}", "GlobalKnownHostsFile=none", "HashKnownHosts=yes")
    error = refused(machine, options=options)
    public = (machine.fleet.folder / "hosts" / machine.name / "ssh_host_ed25519_key.pub").read_text()
    told = subprocess.run(["ssh-keygen", "-lf", "-"], input=public, capture_output=True, text=True).stdout.split()[1]
    assert error.reason == "host_key_unknown"
    way = f"-F {machine.config} " + " ".join(f"-o {option}" for option in options)
    assert f"auditor quick {machine.name} {way} --accept-host-key {told}" in str(error)
    wrong = refused(machine, options=options, accepted=frozenset({"SHA256:" + "A" * 43}))
    assert wrong.reason == "host_key_unknown" and not known.exists()
    assert works(machine.link(options=options, accepted=frozenset({told})))
    assert known.read_text().startswith("|1|") and known.stat().st_mode & 0o077 == 0
    assert works(machine.link(options=options))
    plain = subprocess.run(
        ["ssh", "-F", str(machine.config), *(f"-o{option}" for option in options), machine.name, "echo", "fine"],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert plain.stdout == "fine\n", plain.stderr


def test_C02_a_changed_host_key_is_refused_for_good(machine: Machine) -> None:
    """No way around it, not even by accepting the new key."""
    machine.fleet.fault(machine.name, "rekey")
    error = refused(machine)
    assert error.reason == "host_key_changed"
    assert "ssh-keygen -R" in str(error) and str(machine.fleet.folder / "known_hosts") in str(error)
    shown = re.search(r"SHA256:\S+[^)\s]", str(error))
    assert shown
    assert refused(machine, accepted=frozenset({shown[0]})).reason == "host_key_changed"


def test_C02_a_revoked_host_key_is_refused(machine: Machine, tmp_path: Path) -> None:
    """@revoked in known_hosts counts as it does for ssh."""
    known = tmp_path / "known"
    line = next(
        line
        for line in (machine.fleet.folder / "known_hosts").read_text().splitlines()
        if line.startswith(f"[{machine.fleet.plan.machine(machine.name).address}]")
    )
    known.write_text(f"{line}\n@revoked {line}\n")
    assert refused(machine, options=(f"UserKnownHostsFile={known}",)).reason == "host_key_changed"


def test_a_second_host_key_is_no_change(machine: Machine, tmp_path: Path) -> None:
    """Where only the RSA key is known, the server is asked for that one."""
    rsa = machine.root / "etc/ssh/second"
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", str(rsa)], check=True)
    machine.append("etc/ssh/sshd_config", "HostKey /etc/ssh/second\n")
    spec = machine.fleet.plan.machine(machine.name)
    known = tmp_path / "known"
    known.write_text(f"[{spec.address}]:{machine.fleet.plan.port} {rsa.with_suffix('.pub').read_text()}")
    assert works(machine.link(options=(f"UserKnownHostsFile={known}", "GlobalKnownHostsFile=none")))


def keygen(path: Path, passphrase: str = "", kind: str = "ed25519") -> Path:
    """A new private key."""
    subprocess.run(["ssh-keygen", "-q", "-a", "1", "-t", kind, "-N", passphrase, "-f", str(path)], check=True)
    return path


def authorize(machine: Machine, key: Path) -> None:
    """Let this key in."""
    machine.append("home/ubuntu/.ssh/authorized_keys", key.with_name(key.name + ".pub").read_text())


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_a_key_with_a_passphrase(machine: Machine, tmp_path: Path, kind: str) -> None:
    """The passphrase is asked for, three times at most, and remembered for a reconnection."""
    key = keygen(tmp_path / "key", "open sesame", kind)
    authorize(machine, key)
    asked: list[str] = []
    answers = iter(["wrong", "open sesame"])

    def ask(text: str) -> str:
        asked.append(text)
        return next(answers)

    kept: dict[str, str] = {}
    way = Way(key=key, config=machine.config)
    assert works(connect(parse([machine.name])[0], way, ask, kept))
    assert asked == [f"passphrase for {key}: "] * 2
    assert works(connect(parse([machine.name])[0], way, lambda text: None, kept))


def test_a_passphrase_that_nobody_can_type(machine: Machine, tmp_path: Path) -> None:
    """Without a terminal the sentence says why and what to do."""
    key = keygen(tmp_path / "key", "open sesame")
    authorize(machine, key)
    error = refused(machine, key=key)
    assert error.reason == "login_refused" and "needs a passphrase" in str(error) and "ssh-add" in str(error)


def test_a_wrong_passphrase_three_times(machine: Machine, tmp_path: Path) -> None:
    """It ends."""
    key = keygen(tmp_path / "key", "open sesame")
    error = refused(machine, key=key, ask=lambda text: "wrong")
    assert error.reason == "login_refused" and "wrong" in str(error)


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """An agent of our own; adds keys."""
    path = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline()
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))

    def add(key: Path) -> None:
        subprocess.run(["ssh-add", "-q", str(key)], check=True, stdin=subprocess.DEVNULL)

    yield add
    process.terminate()
    process.wait()
    process.stdout.close()


def test_keys_of_the_agent(machine: Machine, tmp_path: Path, agent: Callable[[Path], None]) -> None:
    """The agent's keys are used, as ssh does."""
    key = keygen(tmp_path / "key")
    agent(key)
    authorize(machine, key)
    key.unlink()
    config = tmp_path / "config"
    config.write_text(machine.config.read_text().replace("IdentitiesOnly yes", "").replace("IdentityFile", "#"))
    assert works(machine.link(config=config))


def test_C03_only_the_named_key_is_shown(machine: Machine, tmp_path: Path, agent: Callable[[Path], None]) -> None:
    """With -i the agent's other keys and those of the configuration stay unseen; sshd's own log tells."""
    agent(keygen(tmp_path / "another"))
    machine.append("etc/ssh/sshd_config", "LogLevel VERBOSE\n")
    key = keygen(tmp_path / "mine")
    log = machine.fleet.folder / "hosts" / machine.name / "log"
    before = log.stat().st_size
    config = tmp_path / "config"
    config.write_text(machine.config.read_text().replace("IdentitiesOnly yes", ""))
    refused(machine, config=config, key=key)
    failed = re.findall(r"Failed publickey.*(SHA256:\S+)", log.read_text(errors="replace")[before:])
    told = subprocess.run(["ssh-keygen", "-lf", str(key)], capture_output=True, text=True).stdout.split()[1]
    assert failed == [told]


def test_an_encrypted_key_that_the_agent_holds_needs_no_passphrase(
    machine: Machine, tmp_path: Path, agent: Callable[[Path], None]
) -> None:
    """-i names it, its .pub tells which of the agent's it is."""
    key = keygen(tmp_path / "key")
    agent(key)
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-a", "1", "-N", "secret", "-f", str(key)], check=True, capture_output=True
    )
    authorize(machine, key)
    assert works(machine.link(key=key))


def test_a_password(machine: Machine) -> None:
    """Where the server takes one, it is asked for; a wrong one is asked for again."""
    config = machine.root / "etc/ssh/sshd_config"
    config.write_text(config.read_text().replace("PasswordAuthentication no", "PasswordAuthentication yes"))
    hashed = subprocess.run(["openssl", "passwd", "-6", "open sesame"], capture_output=True, text=True).stdout.strip()
    shadow = machine.root / "etc/shadow"
    shadow.write_text(re.sub(r"(?m)^ubuntu:[^:]*:", f"ubuntu:{hashed}:", shadow.read_text()))
    (machine.root / "home/ubuntu/.ssh/authorized_keys").unlink()
    asked: list[str] = []
    answers = iter(["wrong", "open sesame"])

    def ask(text: str) -> str:
        asked.append(text)
        return next(answers)

    kept: dict[str, str] = {}
    way = Way(config=machine.config)
    assert works(connect(parse([machine.name])[0], way, ask, kept))
    address = machine.fleet.plan.machine(machine.name).address
    assert asked == [f"password for ubuntu@{address}: "] * 2
    assert works(connect(parse([machine.name])[0], way, lambda text: None, kept))
    error = refused(machine)
    assert "password" in str(error)


def test_connections_closed_at_the_door_are_tried_again(machine: Machine) -> None:
    """Two connections that break before the banner cost two tries, not the audit."""
    machine.fleet.fault(machine.name, "refuse", 2)
    assert machine.audit().phase == "done"


@pytest.fixture
def doorman(tmp_path: Path) -> Iterator[int]:
    """An sshd of this machine itself, on 127.0.0.1 and ::1: a jump host, and an IPv6 address."""
    if os.geteuid() != 0:
        pytest.skip("needs root, as the fleet does")
    for name in ("host", "user"):
        keygen(tmp_path / name)
    with socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        port = probe.getsockname()[1]
    config = tmp_path / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nListenAddress ::1\nHostKey {tmp_path}/host\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {tmp_path}/user.pub\nStrictModes no\nPermitRootLogin prohibit-password\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", str(config)], stderr=subprocess.PIPE)
    assert server.stderr
    while b"::1" not in (line := server.stderr.readline()) or b"listening" not in line:
        assert line, "sshd did not start"
    yield port
    server.terminate()
    server.wait()
    server.stderr.close()


def door_config(machine: Machine, tmp_path: Path, port: int) -> Path:
    """The fleet's configuration, and a host `door`."""
    key = (tmp_path / "host.pub").read_text().split()[:2]
    known = tmp_path / "known_door"
    known.write_text(f"[127.0.0.1]:{port} {' '.join(key)}\n[::1]:{port} {' '.join(key)}\n")
    config = tmp_path / "config"
    config.write_text(
        f"Host door 127.0.0.1 ::1\n  User root\n  IdentityFile {tmp_path}/user\n  UserKnownHostsFile {known}\n"
        f"Host door\n  HostName 127.0.0.1\n  Port {port}\n" + machine.config.read_text()
    )
    return config


def test_a_jump_host(machine: Machine, tmp_path: Path, doorman: int) -> None:
    """-J and ProxyJump lead through; each host is shown its own key and has its own host key checked."""
    config = door_config(machine, tmp_path, doorman)
    assert works(machine.link(config=config, jump="door"))
    with_jump = tmp_path / "with_jump"
    with_jump.write_text(f"Host {machine.name}\n  ProxyJump door\n" + config.read_text())
    assert machine.audit(open_link=lambda: machine.link(config=with_jump)).phase == "done"
    (tmp_path / "known_door").write_text("")
    error = refused(machine, config=config, jump="door")
    assert error.reason == "host_key_unknown"


def test_a_jump_host_that_cannot_reach_the_server(machine: Machine, tmp_path: Path, doorman: int) -> None:
    """The sentence says which side failed."""
    config = door_config(machine, tmp_path, doorman)
    error = refused(machine, "127.0.0.9:1", config=config, jump="door")
    assert error.reason == "unreachable" and "the jump host could not reach" in str(error)


def test_a_proxy_command(machine: Machine, tmp_path: Path) -> None:
    """ProxyCommand of the configuration is used; one that fails is told."""
    config = tmp_path / "config"
    connector = (
        "python3 -c \"import socket,sys,threading,os;s=socket.create_connection(('%h',%p));"
        "threading.Thread(target=lambda:[s.sendall(d) for d in iter(lambda:os.read(0,65536),b'')],daemon=True).start();"
        "[os.write(1,d) for d in iter(lambda:s.recv(65536),b'')]\""
    )
    config.write_text(f"Host {machine.name}\n  ProxyCommand {connector}\n" + machine.config.read_text())
    assert works(machine.link(config=config))
    config.write_text(f"Host {machine.name}\n  ProxyCommand false\n" + machine.config.read_text())
    assert "ProxyCommand" in str(refused(machine, config=config, seconds=2.0))


def test_an_ipv6_address(machine: Machine, tmp_path: Path, doorman: int) -> None:
    """`root@[::1]` with an odd port, as a provider's page writes it."""
    config = door_config(machine, tmp_path, doorman)
    target = parse([f"root@[::1]:{doorman}"])[0]
    assert works(connect(target, Way(config=config), lambda text: None, {}))


def test_a_host_key_that_changes_between_two_connections_ends_the_audit(machine: Machine) -> None:
    """After a cut the same machine must answer; another one is not told anything."""
    machine.fleet.fault(machine.name, "drop", 1.0)
    began: list[bool] = []

    def link() -> SshLink:
        if began:
            machine.fleet.fault(machine.name, "rekey")
        began.append(True)
        return machine.link()

    outcome = machine.audit("long", open_link=link)
    assert (outcome.phase, outcome.reason) == ("measure", "host_key_changed")


def test_the_line_a_person_would_type() -> None:
    """What brings torch is run over the same way."""
    target = parse(["root@192.0.2.10:22022"])[0]
    line = ssh_line(target, Way(key=Path("/keys/my key"), jump="ops@192.0.2.1"))
    assert line == "ssh -p 22022 -i '/keys/my key' -J ops@192.0.2.1 root@192.0.2.10"
