"""What the user's own ssh would do for a host: asked of `ssh -G`, which knows Include, Match, tokens and defaults.

Only what names the way and the keys is taken. Forwards of agent, X11 and ports, commands, environment and shared
connections of that configuration are never read, so that they cannot be used (threat C01).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from auditor.errors import UserError
from auditor.quick.target import Target
from auditor.showing import show

_SECONDS = 15


class Settings(msgspec.Struct, frozen=True):
    """How one host is reached and which keys may be shown to it."""

    host: str
    port: int
    user: str
    key_name: str
    known_hosts: tuple[str, ...]
    identities: tuple[str, ...]
    agent: str | None
    proxy_jump: str | None
    proxy_command: str | None
    hash_names: bool


def of(target: Target, *, key: Path | None, jump: str | None, config: Path | None, options: Sequence[str]) -> Settings:
    """The settings for a target; `key` and `jump` are what the user gave on our command line.

    Raises:
        UserError: there is no ssh on this machine, or it refuses its configuration.
    """
    argv = ["ssh", "-G"]
    argv += ["-F", str(config)] if config else []
    argv += ["-p", str(target.port)] if target.port else []
    argv += ["-l", target.user] if target.user else []
    argv += ["-J", jump] if jump else []
    for option in options:
        argv += ["-o", option]
    try:
        done = subprocess.run(
            [*argv, "--", target.host], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS
        )
    except FileNotFoundError:
        raise UserError("ssh was not found on this machine; install it (apt-get install openssh-client).") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"`ssh -G {target.host}` did not end: does your ssh_config run a program?") from None
    if done.returncode:
        said = "; ".join(done.stderr.strip().splitlines()) or "no reason given"
        raise UserError(f"your ssh does not accept its configuration for {target.host}: {show(said)}")
    return _read(done.stdout, target, key)


def _read(text: str, target: Target, key: Path | None) -> Settings:
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        word, _, value = line.partition(" ")
        values.setdefault(word.lower(), []).append(value)

    def one(word: str, default: str = "") -> str:
        return values.get(word, [default])[0]

    def absent(word: str) -> str | None:
        value = one(word)
        return None if value in ("", "none") else value

    host, port = one("hostname", target.host), int(one("port", "22"))
    alias = absent("hostkeyalias")
    return Settings(
        host=host,
        port=port,
        user=one("user"),
        key_name=alias or (host if port == 22 else f"[{host}]:{port}"),
        known_hosts=tuple(
            path
            for word in ("userknownhostsfile", "globalknownhostsfile")
            for path in one(word).split()
            if path not in ("none", "/dev/null")
        ),
        identities=(str(key),) if key else tuple(values.get("identityfile", [])),
        agent=None if not key and one("identitiesonly") == "yes" else _agent(one("identityagent", "SSH_AUTH_SOCK")),
        proxy_jump=absent("proxyjump"),
        proxy_command=absent("proxycommand"),
        hash_names=one("hashknownhosts") == "yes",
    )


def _agent(word: str) -> str | None:
    """The agent's socket; SSH_AUTH_SOCK and $NAME stand for what the environment says."""
    if word == "none":
        return None
    named = "SSH_AUTH_SOCK" if word == "SSH_AUTH_SOCK" else word[1:] if word.startswith("$") else None
    path = os.environ.get(named) if named else str(Path(word).expanduser())
    return path or None
