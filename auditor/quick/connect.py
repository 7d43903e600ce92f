"""Makes the SSH connection with Fabric: jump hosts, host keys, login; every failure is a reason and a sentence."""

from __future__ import annotations

import logging
import shlex
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any

import fabric
import msgspec
import paramiko

from auditor.quick import settings as ssh_settings
from auditor.quick.hostkeys import KeyChanged, KeyUnknown, Trusted
from auditor.quick.link import Lost, SshStream
from auditor.quick.login import Ask, Login, LoginRefused
from auditor.quick.proxy import Proxy
from auditor.quick.target import Target, hop, parse
from auditor.showing import show

_MOST_HOPS = 8
_BROKE = "the connection broke while it was made"
_KEEPALIVE_SECONDS = 5
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)  # it prints tracebacks of what we turn into sentences
logging.getLogger("fabric").setLevel(logging.CRITICAL + 1)


class Unreachable(Exception):
    """Why there is no connection: a fixed word of the run folder's states, and a sentence.

    `passing` is True where the same could go well the next moment.
    """

    def __init__(self, reason: str, detail: str, passing: bool = False) -> None:
        super().__init__(detail)
        self.reason, self.passing = reason, passing


class Way(msgspec.Struct, frozen=True):
    """How the user wants servers to be reached: the command line's options."""

    key: Path | None = None
    jump: str | None = None
    config: Path | None = None
    options: tuple[str, ...] = ()
    accepted: frozenset[str] = frozenset()
    seconds: float = 15.0


def ssh_line(target: Target, way: Way) -> str:
    """The ssh command a person would type to get to the same place."""
    words = ["ssh"]
    words += ["-F", str(way.config)] if way.config else []
    words += ["-p", str(target.port)] if target.port and target.port != 22 else []
    words += ["-i", str(way.key)] if way.key else []
    words += ["-J", way.jump] if way.jump else []
    words.append(f"{target.user}@{target.host}" if target.user else target.host)
    return shlex.join(words)


class SshLink:
    """An open connection; runs commands without terminal, agent, X11 or any forward."""

    def __init__(self, connection: fabric.Connection, proxies: list[Proxy]) -> None:
        self._connection, self._proxies = connection, proxies

    def run(self, command: str) -> SshStream:
        """Start a command on a channel of its own."""
        try:
            channel = self._connection.create_session()
            channel.settimeout(15)
            channel.exec_command(command)
        except (paramiko.SSHException, OSError, EOFError, AttributeError) as error:
            raise Lost(str(error) or type(error).__name__) from None
        return SshStream(channel)

    def alive(self) -> bool:
        """Whether the connection still stands."""
        return bool(self._connection.is_connected)

    def close(self) -> None:
        """Close it, and the jump hosts' connections behind it."""
        connection: Any = self._connection
        while isinstance(connection, fabric.Connection):
            connection.client.close()
            connection = connection.gateway
        for proxy in self._proxies:
            proxy.close()


def connect(target: Target, way: Way, ask: Ask, kept: dict[str, str]) -> SshLink:
    """Connect and log in. `kept` remembers what the person typed, for a reconnection.

    Raises:
        Unreachable: with the reason's word and the sentence for the person.
        UserError: the user's own ssh configuration is not usable.
    """
    proxies: list[Proxy] = []
    connection = _connection(target, way, ask, kept, way.jump, proxies)
    link = SshLink(connection, proxies)
    began = time.monotonic()
    try:
        _open(connection, link)
    except KeyUnknown as error:
        raise Unreachable("host_key_unknown", _how_to_accept(target, way, error)) from None
    except KeyChanged as error:
        raise Unreachable("host_key_changed", _changed(connection, error)) from None
    except LoginRefused as error:
        raise Unreachable("login_refused", _refused(connection, error)) from None
    except (paramiko.SSHException, OSError, EOFError) as error:
        late = time.monotonic() - began > 0.9 * way.seconds
        sentence = _broken(connection, target.text, error, late)
        if any(proxy.failed() for proxy in proxies):
            sentence = "the ProxyCommand of your ssh configuration failed; try it by hand"
        raise Unreachable("unreachable", sentence, passing=sentence.startswith(_BROKE)) from None
    connection.transport.set_keepalive(_KEEPALIVE_SECONDS)
    return link


def _open(connection: fabric.Connection, link: SshLink) -> None:
    """Open it; what is half open after a failure is closed, its threads and sockets with it."""
    try:
        connection.open()
    except BaseException:
        link.close()
        raise


def _connection(
    target: Target,
    way: Way,
    ask: Ask,
    kept: dict[str, str],
    jump: str | None,
    proxies: list[Proxy],
    depth: int = 0,
) -> fabric.Connection:
    """The connection, not yet open, with those it goes through."""
    found = ssh_settings.of(target, key=way.key if depth == 0 else None, jump=jump, config=way.config,
                            options=way.options if depth == 0 else ())  # fmt: skip
    gateway: Any = False
    if found.proxy_jump and depth < _MOST_HOPS:
        *before, last = found.proxy_jump.split(",")
        gateway = _connection(hop(last), way, ask, kept, ",".join(before) or None, proxies, depth + 1)
    through: dict[str, Any] = {}
    if found.proxy_command and not gateway:
        proxies.append(Proxy(found, target.host))
        through["sock"] = proxies[-1].socket
    trusted = Trusted(found, way.accepted)
    login = Login(found, ask, way.key if depth == 0 else None, kept)
    made = fabric.Connection(
        host=found.host,
        user=found.user,
        port=found.port,
        gateway=gateway,
        forward_agent=False,
        connect_timeout=int(way.seconds),
        config=fabric.Config(overrides={"load_ssh_configs": False}),
        connect_kwargs={
            "auth_strategy": login,
            "banner_timeout": way.seconds,
            "auth_timeout": 60.0,  # a person may be typing
            "channel_timeout": way.seconds,
            "transport_factory": partial(_transport, trusted),
            **through,
        },
    )
    made.client.set_missing_host_key_policy(trusted)
    return made


def _transport(trusted: Trusted, sock: Any, **more: Any) -> paramiko.Transport:
    """A transport that asks for a host key of a type we know, so that a second key is not taken for a change."""
    transport = paramiko.Transport(sock, **more)
    offered = list(transport.get_security_options().key_types)
    known = [word for kind in trusted.kinds() for word in _signatures(kind) if word in offered]
    transport.get_security_options().key_types = [*known, *(word for word in offered if word not in known)]
    return transport


def _signatures(kind: str) -> tuple[str, ...]:
    return ("rsa-sha2-512", "rsa-sha2-256") if kind == "ssh-rsa" else (kind,)


def _how_to_accept(target: Target, way: Way, error: KeyUnknown) -> str:
    behind = " (or the jump host's)" if way.jump else ""
    return (
        f"its host key{behind} is not known here: {error.kind} {error.fingerprint}. Compare it with the provider's "
        f"console, then accept exactly this key: {_again(target, way)} --accept-host-key {error.fingerprint}"
    )


def _again(target: Target, way: Way) -> str:
    """The way to this one server as it was given, so that what is copied from the screen reaches it."""
    words = ["auditor", "quick", target.text]
    words += ["-p", str(target.port)] if target.port and parse([target.text])[0].port is None else []
    words += ["-l", target.user] if target.user and "@" not in target.text else []
    words += ["-i", str(way.key)] if way.key else []
    words += ["-J", way.jump] if way.jump else []
    words += ["-F", str(way.config)] if way.config else []
    return shlex.join([*words, *(word for option in way.options for word in ("-o", option))])


def _changed(connection: fabric.Connection, error: KeyChanged) -> str:
    name = connection.host if connection.port == 22 else f"[{connection.host}]:{connection.port}"
    return (
        f"it shows another host key ({error.kind} {error.fingerprint}) than the one you trusted before, in "
        f"{error.file}: it was not audited. Ask the provider whether the machine was replaced; if so, remove the old "
        f"key with `ssh-keygen -R '{name}' -f {error.file}` and run this again"
    )


def _refused(connection: fabric.Connection, error: LoginRefused) -> str:
    shown = f"it took none of: {', '.join(error.shown)}" if error.shown else "no key was found to show it"
    takes = f"; it takes {', '.join(show(word, 40) for word in error.allowed[:6])}" if error.allowed else ""
    trouble = f". {error.trouble}" if error.trouble else ""
    return (
        f"the login as {connection.user} was refused: {shown}{takes}{trouble}. Check the user name, and name the key "
        "you gave to the provider with -i KEY"
    )


def _broken(connection: fabric.Connection, where: str, error: BaseException, late: bool) -> str:
    cause = _first_cause(error)
    port = connection.port
    if isinstance(cause, socket.gaierror):
        return f"its name {connection.host} cannot be resolved: check the spelling in {where}"
    if isinstance(cause, ConnectionRefusedError):
        return f"the connection was refused: no SSH server answers at {connection.host} port {port}; check the port"
    text = str(error)
    if "Indecipherable protocol version" in text:
        return f"what answers at {connection.host} port {port} is no SSH server: check the port"
    if isinstance(cause, TimeoutError) or (late and isinstance(error, paramiko.SSHException)):
        return f"no SSH server answered in time at {connection.host} port {port}: is it running, and is the port open?"
    if isinstance(error, paramiko.ChannelException):
        return f"the jump host could not reach {connection.host} port {port}: {show(error.text, 120)}"
    if isinstance(error, paramiko.IncompatiblePeer):
        return f"no way to encrypt that both sides know: {show(text, 160)}"
    return f"{_BROKE}: {show(text or type(error).__name__, 160)}"


def _first_cause(error: BaseException) -> BaseException:
    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        found: BaseException = next(iter(error.errors.values()))
        return found
    return error
