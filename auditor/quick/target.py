"""Which servers are meant: `root@192.0.2.10`, `host:22022`, `root@[::1]:22`, `ssh://user@host:port`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

import msgspec

from auditor import runs
from auditor.errors import UserError
from auditor.showing import show

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,252}[A-Za-z0-9_.])?")
_USER = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._@+\\-]{0,63}")


class Target(msgspec.Struct, frozen=True):
    """One server as it was written: `name` is its row in the report."""

    text: str
    host: str
    user: str | None = None
    port: int | None = None
    name: str = ""


def parse(texts: Sequence[str], port: int | None = None, user: str | None = None) -> list[Target]:
    """All targets, each with a name of its own.

    Raises:
        UserError: one of them is no host, or two are the same.
    """
    targets: list[Target] = []
    for text in texts:
        target = _one(text, port, user)
        if any((t.host, t.port, t.user) == (target.host, target.port, target.user) for t in targets):
            raise UserError(f"{text}: this server is named twice; name it once.")
        targets.append(target)
    plain = [_name(t.host) for t in targets]
    named: list[Target] = []
    for target, name in zip(targets, plain, strict=True):
        if target.port and target.port != 22 or plain.count(name) > 1:
            name = f"{name[:50]}-{target.port or 22}"
        if any(t.name.casefold() == name.casefold() for t in named):
            name = f"{name[:50]}-{len(named) + 1}"
        named.append(msgspec.structs.replace(target, name=runs.check_name(name)))
    return named


def hop(text: str) -> Target:
    """One jump host, written as OpenSSH's -J takes it."""
    return _one(text, None, None)


def _one(text: str, port: int | None, user: str | None) -> Target:
    rest = text.removeprefix("ssh://").rstrip("/") if text.startswith("ssh://") else text
    before, at, rest = rest.rpartition("@")
    user = before if at else user
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(\d{1,5}))?", rest)
    if bracketed:
        host, own_port = bracketed[1], bracketed[2]
    elif rest.count(":") == 1:
        host, _, own_port = rest.partition(":")
    else:
        host, own_port = rest, None
    if own_port is not None:
        port = _port(own_port, text)
    if not _is_host(host):
        raise UserError(
            f"{show(text)}: no server name or address. Write USER@HOST as in the provider's ssh line, an IPv6 address "
            "in brackets: root@[2001:db8::1]."
        )
    if user is not None and not _USER.fullmatch(user):
        raise UserError(f"{show(text)}: {show(user, 60)!r} is no user name.")
    return Target(text, host, user, port)


def _port(word: str, text: str) -> int:
    if not word.isdecimal() or not 0 < int(word) < 65536:
        raise UserError(f"{show(text)}: {show(word, 20)!r} is no port (1 to 65535).")
    return int(word)


def _is_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return bool(_HOST.fullmatch(host)) and ".." not in host
    return True


def _name(host: str) -> str:
    """A row's name: letters, digits, dots, dashes; an IPv6 address is spelled with dashes."""
    if ":" in host:
        return "ip6-" + re.sub(r"[^0-9a-z]+", "-", host.lower()).strip("-")[:50]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", host).strip("._-")[:63]
