"""Whether a server's host key is the one the user trusts: the user's own known_hosts decide, read by `ssh-keygen -F`.

An unknown key is refused with its fingerprint; `--accept-host-key FINGERPRINT` accepts exactly that key and writes it
down. A changed or revoked key is refused without a way around (threat C02).
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

import paramiko

from auditor.quick.settings import Settings


class KeyUnknown(Exception):
    """Nothing is known about this server's key."""

    def __init__(self, kind: str, fingerprint: str) -> None:
        super().__init__(f"{kind} {fingerprint}")
        self.kind, self.fingerprint = kind, fingerprint


class KeyChanged(Exception):
    """Another key is trusted for this server, or this one is revoked; `file` says where."""

    def __init__(self, kind: str, fingerprint: str, file: str) -> None:
        super().__init__(f"{kind} {fingerprint}")
        self.kind, self.fingerprint, self.file = kind, fingerprint, file


def fingerprint(key: Any) -> str:
    """As ssh and the providers' consoles print it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode("ascii").rstrip("=")


class Trusted(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]  # paramiko is not typed
    """Paramiko asks this for every key, since none are loaded into its client; it answers from known_hosts."""

    def __init__(self, settings: Settings, accepted: Collection[str]) -> None:
        self._settings = settings
        self._accepted = accepted
        self._known = [(path, *row) for path in settings.known_hosts for row in _rows(Path(path), settings.key_name)]

    def kinds(self) -> list[str]:
        """The key types known for this server, to ask it for one of those first."""
        return [kind for _, mark, kind, _ in self._known if not mark]

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
        """Return for a trusted key.

        Raises:
            KeyUnknown, KeyChanged: it is not.
        """
        blob, kind = key.get_base64(), key.get_name()
        for path, mark, _, known in self._known:
            if mark == "@revoked" and known == blob:
                raise KeyChanged(kind, fingerprint(key), path)
        trusted = [(path, known) for path, mark, _, known in self._known if not mark]
        if any(known == blob for _, known in trusted):
            return
        if trusted:
            raise KeyChanged(kind, fingerprint(key), trusted[0][0])
        if fingerprint(key) not in self._accepted:
            raise KeyUnknown(kind, fingerprint(key))
        self._write(kind, blob)

    def _write(self, kind: str, blob: str) -> None:
        """Append to the user's first known_hosts file, as ssh does."""
        if not self._settings.known_hosts:
            return
        name = self._settings.key_name
        if self._settings.hash_names:
            name = paramiko.HostKeys.hash_host(name)
        path = Path(self._settings.known_hosts[0]).expanduser()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "r+b") as file:
            end = file.seek(0, os.SEEK_END)
            whole = end == 0 or os.pread(file.fileno(), 1, end - 1) == b"\n"
            file.write((b"" if whole else b"\n") + f"{name} {kind} {blob}\n".encode("ascii"))


def _rows(path: Path, name: str) -> list[tuple[str, str, str]]:
    """(marker, type, key) of every line that `ssh-keygen -F` finds for the name, hashed or not."""
    path = path.expanduser()
    if not path.is_file():
        return []
    done = subprocess.run(
        ["ssh-keygen", "-F", name, "-f", str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=15,
    )
    rows = []
    for line in done.stdout.splitlines():
        words = line.split()
        mark = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) >= 3 and not words[0].startswith("#"):
            rows.append((mark, words[1], words[2]))
    return rows
