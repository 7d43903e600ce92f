"""Which keys and passwords are shown to a server, in the order ssh would: agent, key files, then what the user types.

With -i only that key is shown (threat C03). A passphrase is asked for when a key needs one, a password when the server
takes one and a person can answer; nothing is written anywhere.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko.auth_strategy import AuthStrategy, InMemoryPrivateKey

from auditor.quick.settings import Settings

Ask = Callable[[str], str | None]
"""Asks the person for something secret; None when nobody can answer."""

_TRIES = 3
_AGENT_SECONDS = 30.0  # a person may have to touch something


class LoginRefused(Exception):
    """The server let none of what we have in; `allowed` is what it would take."""

    def __init__(self, shown: list[str], allowed: list[str], trouble: str | None = None) -> None:
        super().__init__(", ".join(shown))
        self.shown, self.allowed, self.trouble = shown, allowed, trouble


class Login(AuthStrategy):  # type: ignore[misc]  # paramiko is not typed
    """One login to one server."""

    def __init__(self, settings: Settings, ask: Ask, given_key: Path | None, kept: dict[str, str]) -> None:
        super().__init__(ssh_config=None)
        self._settings, self._ask, self._given, self._kept = settings, ask, given_key, kept
        self._shown: list[str] = []
        self._trouble: str | None = None
        self._allowed: list[str] = []
        self._agent: Any = None

    def get_sources(self) -> Iterator[Any]:
        """Every key there is, one after the other."""
        user = self._settings.user
        in_agent = self._agent_keys()
        for key in in_agent:
            self._shown.append(f"agent key {key.comment or key.get_name()}")
            yield InMemoryPrivateKey(user, key)
        for name in self._settings.identities:
            path = Path(name).expanduser()
            if not path.is_file() or any(_same(path, key) for key in in_agent):
                continue
            loaded = self._load(path)
            if loaded is not None:
                self._shown.append(str(path))
                yield InMemoryPrivateKey(user, loaded)

    def authenticate(self, transport: Any) -> Any:
        """Try the keys, then passwords.

        Raises:
            LoginRefused: none was taken.
            paramiko.SSHException: the connection broke on the way.
        """
        try:
            if self._with_keys(transport):
                return []
        finally:
            if self._agent is not None:
                self._agent._close()
        if transport.is_active() and not self._allowed:
            self._try(transport, lambda: transport.auth_none(self._settings.user))
        if {"password", "keyboard-interactive"} & set(self._allowed):
            for attempt in range(_TRIES):
                where = f"{self._settings.user}@{self._settings.host}"
                password = self._kept.get(where) if attempt == 0 else None
                password = password or self._ask(f"password for {where}: ")
                if password is None or not transport.is_active():
                    break
                self._shown.append("a password") if attempt == 0 else None
                secret = password
                if self._try(transport, lambda secret=secret: transport.auth_password(self._settings.user, secret)):  # type: ignore[misc]
                    self._kept[where] = password
                    return []
        raise LoginRefused(self._shown, self._allowed, self._trouble)

    def _with_keys(self, transport: Any) -> bool:
        for source in self.get_sources():
            if self._try(transport, lambda source=source: source.authenticate(transport)):  # type: ignore[misc]
                return True
            if not transport.is_active():
                break
        return False

    def _try(self, transport: Any, attempt: Callable[[], Any]) -> bool:
        """Whether the server lets us in after this; a second factor is asked for by its own words."""
        try:
            next_steps = list(attempt() or [])
        except paramiko.BadAuthenticationType as error:
            self._allowed = list(error.allowed_types)
            return False
        except paramiko.AuthenticationException as error:
            self._allowed = list(getattr(error, "allowed_types", [])) or self._allowed
            return False
        if next_steps and "keyboard-interactive" in next_steps:
            return self._try(transport, lambda: transport.auth_interactive(self._settings.user, self._answers))
        self._allowed = next_steps or self._allowed
        return not next_steps and bool(transport.is_authenticated())

    def _answers(self, title: str, instructions: str, fields: list[tuple[str, bool]]) -> list[str]:
        return [self._ask(prompt) or "" for prompt, _ in fields]

    def _agent_keys(self) -> list[Any]:
        """The agent's keys; with -i only the one that belongs to that key's .pub file."""
        if self._settings.agent is None:
            return []
        door = socket.socket(socket.AF_UNIX)
        door.settimeout(_AGENT_SECONDS)
        try:
            door.connect(self._settings.agent)
            self._agent = paramiko.agent.AgentSSH()
            self._agent._connect(door)  # Paramiko's public Agent knows SSH_AUTH_SOCK alone, not IdentityAgent
        except (OSError, paramiko.SSHException):
            door.close()
            return []  # as ssh: an agent that is not there has no keys
        keys = list(self._agent.get_keys())
        return [key for key in keys if _same(self._given, key)] if self._given else keys

    def _load(self, path: Path) -> Any:
        """The private key in a file; None when it cannot be used, which is said if the login fails for it."""
        passphrase = self._kept.get(str(path))
        for _ in range(_TRIES + 1):
            try:
                return paramiko.PKey.from_path(path, passphrase.encode() if passphrase else None)
            except (TypeError, paramiko.PasswordRequiredException):
                pass  # encrypted
            except (ValueError, UnsupportedAlgorithm, paramiko.SSHException) as error:
                if passphrase is None:
                    self._trouble = f"{path} is no private key that can be used ({type(error).__name__})"
                    return None
            except OSError as error:
                self._trouble = f"{path}: {error.strerror}"
                return None
            passphrase = self._ask(f"passphrase for {path}: ")
            if passphrase is None:
                self._trouble = f"{path} needs a passphrase and nobody could be asked: add it to an agent (ssh-add)"
                return None
            self._kept[str(path)] = passphrase
        self._trouble = f"the passphrase for {path} was wrong {_TRIES} times"
        return None


def _same(path: Path | None, key: Any) -> bool:
    """Whether the agent's key is the one whose public half lies beside the file."""
    if path is None:
        return False
    try:
        words = path.with_name(path.name + ".pub").read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError):
        return False
    return len(words) > 1 and words[1] == key.get_base64()
