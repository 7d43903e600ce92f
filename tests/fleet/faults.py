"""What can go wrong on a machine, at will. Runs inside the machine, in its PID 1."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.fleet import disk

FAULTS = {  # name: what the controller sees
    "down": "connection refused; everything running there is killed (power cut)",
    "mute": "TCP connects but sshd never says a word (banner time-out)",
    "freeze": "all processes stopped: live connections go silent, new ones are mute",
    "kick": "live SSH connections are killed once; what they started lives on",
    "drop": "=SECONDS: each connection is killed that long after it opened",
    "refuse": "=K: the next K connections are closed before the banner",
    "slow": "=KB/S: bandwidth of each new connection, each way",
    "latency": "=MS: delay added to each new connection, each way",
    "diskfull": "no byte left on the machine's disk",
    "nosudo": "sudo asks for a password that nobody has",
    "nopython": "no python3 under /usr/bin",
    "rekey": "the SSH host key changes (known_hosts no longer matches)",
}
_REPEATABLE = ("drop", "refuse", "slow", "latency")
_TAKEN = {"nosudo": "sudoers", "nopython": "python", "rekey": "ssh_host"}
_HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"


class Faults:
    """The faults in force and those armed; `listen`, `deafen` and `kick` reach into the machine's PID 1."""

    def __init__(
        self, disk_mb: int, listen: Callable[[], None], deafen: Callable[[], None], kick: Callable[[], None]
    ) -> None:
        self._disk_mb, self._listen, self._deafen, self._kick = disk_mb, listen, deafen, kick
        self.active: dict[str, str | None] = {}
        self.armed: list[dict] = []  # wait for a process to appear
        self._saved: dict[str, tuple] = {}  # files taken away by a fault

    def command(self, message: dict) -> dict:
        """Carry out one order of the supervisor; the answer says how it went."""
        try:
            if message["op"] == "heal":
                name = message.get("name")
                self.armed = [a for a in self.armed if name not in (None, a["name"])]
                for one in [name] if name else list(self.active):
                    self._heal(one)
            elif message.get("on"):
                self.armed.append(message)
            else:
                self._strike(message["name"], message.get("value"))
            return {"ok": True, "faults": self.active, "armed": len(self.armed)}
        except Exception as error:  # noqa: BLE001  # PID 1 must live; the caller gets the text
            return {"ok": False, "error": repr(error)}

    def check_armed(self) -> None:
        """Strike where a process has shown up whose command line an armed fault waits for."""
        if not self.armed:
            return
        commands = []
        for pid in _pids():
            with contextlib.suppress(OSError):
                raw = Path(f"/proc/{pid}/cmdline").read_bytes()
                commands.append(raw.replace(b"\0", b" ").decode(errors="replace"))
        for message in list(self.armed):
            if "at" not in message and any(re.search(message["on"], c) for c in commands):
                message["at"] = time.monotonic() + float(message.get("after") or 0)
            if message.get("at", float("inf")) <= time.monotonic():
                self.armed.remove(message)
                self._strike(message["name"], message.get("value"))

    def _strike(self, name: str, value: str | None) -> None:
        if name not in FAULTS:
            raise ValueError(f"no such fault: {name}; one of {', '.join(FAULTS)}")
        if FAULTS[name].startswith("=") and value is None:
            raise ValueError(f"{name} needs a value: {FAULTS[name]}")
        if name == "kick":  # one-shot, nothing to heal
            self._kick()
            return
        if name in self.active and name not in _REPEATABLE:
            return
        if name == "down":
            self._deafen()
            _signal_all(signal.SIGKILL)
        elif name == "freeze":
            _signal_all(signal.SIGSTOP)
        elif name == "diskfull":  # shrink the disk to what is used: costs no memory
            root = os.statvfs("/")
            disk.resize((root.f_blocks - root.f_bfree) * root.f_frsize)
        elif name == "nosudo":
            self._take_away("/etc/sudoers.d/fleet")
        elif name == "nopython":
            for file in list(Path("/usr/bin").iterdir()):
                if re.fullmatch(r"python3?(\.\d+)?", file.name):
                    self._take_away(str(file))
        elif name == "rekey":
            self._take_away(_HOST_KEY)
            self._take_away(_HOST_KEY + ".pub")
            keygen(Path(_HOST_KEY), "replaced")
        self.active[name] = value

    def _heal(self, name: str) -> None:
        if name not in self.active:
            return
        if name == "down":
            self._listen()
        elif name == "freeze":
            _signal_all(signal.SIGCONT)
        elif name == "diskfull":
            disk.resize(self._disk_mb << 20)
        elif name in _TAKEN:
            for path in [p for p in self._saved if _TAKEN[name] in p]:
                self._give_back(path)
        del self.active[name]

    def _take_away(self, path: str) -> None:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            self._saved[path] = (Path(path).readlink(), None)
        else:  # the open file outlives its name
            self._saved[path] = (os.open(path, os.O_RDONLY), stat.S_IMODE(status.st_mode))
        Path(path).unlink()

    def _give_back(self, path: str) -> None:
        kept, mode = self._saved.pop(path)
        Path(path).unlink(missing_ok=True)
        if mode is None:
            Path(path).symlink_to(kept)
            return
        out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        while os.sendfile(out, kept, None, 1 << 20):
            pass
        os.close(out)
        os.close(kept)


def keygen(path: Path, comment: str) -> None:
    """A new ed25519 key pair at `path` and `path`.pub."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _pids() -> list[int]:
    """Every process of this machine but PID 1."""
    return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and p.name != "1"]


def _signal_all(number: int) -> None:
    for _ in range(2 if number != signal.SIGCONT else 1):  # twice: forks in flight
        for pid in _pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
