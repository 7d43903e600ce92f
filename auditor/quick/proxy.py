"""A ProxyCommand of the user's ssh configuration, run as ssh runs it: under a shell, its pipes as the connection.

Paramiko's own runs it without a shell and spins for ever when it ends.
"""

from __future__ import annotations

import re
import socket
import subprocess

from auditor.quick.settings import Settings


class Proxy:
    """A running command and our end of its pipes."""

    def __init__(self, settings: Settings, name: str) -> None:
        known = {"h": settings.host, "p": str(settings.port), "r": settings.user, "n": name, "%": "%"}
        line = re.sub(r"%(.)", lambda token: known.get(token[1], token[0]), settings.proxy_command or "")
        self.socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {line}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
            )

    def failed(self) -> int | None:
        """Its exit code, if it ended already."""
        return self._process.poll()

    def close(self) -> None:
        """End it."""
        self.socket.close()
        self._process.terminate()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
