"""One process that owns all machines: starts them, passes faults on, restarts them. Their life ends with it."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import gc
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from tests.fleet import plan as plans
from tests.fleet.machine import Machine
from tests.fleet.plan import Plan, Spec
from tests.fleet.syscalls import adopt_orphans


@dataclasses.dataclass
class _Line:
    """The supervisor's line to one machine's PID 1."""

    spec: Spec
    channel: socket.socket
    file: TextIO


class Supervisor:
    """The machines of one plan, by name."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.lines: dict[str, _Line] = {}
        adopt_orphans()  # their PID 1s become ours

    def run(self) -> None:
        """Start all machines, say "ready", then obey until told to stop."""
        folder = Path(self.plan.folder)
        gc.freeze()
        for spec in self.plan.machines:
            self._start(spec)
        for name in self.lines:
            self._wait_ready(name)
        self._save()
        control = socket.socket(socket.AF_UNIX)
        with short(folder) as path:  # unix socket paths may be 107 bytes at most
            control.bind(f"{path}/ctl")
        control.listen(16)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        print("ready", flush=True)  # the parent waits for this line
        sys.stdout.close()
        try:
            while self._serve(control.accept()[0]):
                pass
        finally:
            self._stop_all()

    def _serve(self, client: socket.socket) -> bool:
        with client, client.makefile("rw") as file:
            message = json.loads(file.readline())
            try:
                reply = self._handle(message)
            except Exception as error:  # noqa: BLE001  # the fleet lives on; the caller gets the text
                reply = {"ok": False, "error": repr(error)}
            file.write(json.dumps(reply) + "\n")
            file.flush()
            return message["op"] != "stop"

    def _start(self, spec: Spec, disk_of: int | None = None) -> None:
        ours, theirs = socket.socketpair()
        if os.fork() == 0:
            try:
                for line in self.lines.values():
                    line.channel.close()
                ours.close()
                Machine(self.plan, spec, theirs).boot(disk_of)
            except BaseException as error:  # noqa: BLE001  # a fork must never return into the supervisor
                with contextlib.suppress(OSError):
                    theirs.sendall(json.dumps({"error": repr(error)}).encode() + b"\n")
            finally:
                os._exit(1)
        theirs.close()
        ours.settimeout(60)
        self.lines[spec.name] = _Line(spec, ours, ours.makefile("r"))

    def _wait_ready(self, name: str) -> None:
        line = self.lines[name]
        line.spec.pid, ready = None, False  # a restarted machine still had its old one
        while not (ready and line.spec.pid):  # the two messages come from two processes, in any order
            text = line.file.readline()
            message = json.loads(text) if text else {"error": "died while starting"}
            if "error" in message:
                raise RuntimeError(f"{name}: {message['error']}; see {self.plan.folder}/hosts/{name}/log")
            line.spec.pid = message.get("pid", line.spec.pid)
            ready = ready or "ready" in message

    def _handle(self, message: dict) -> dict:
        if message["op"] in ("ping", "stop"):
            return {"ok": True}
        chosen = [n for n in self.lines if any(fnmatch.fnmatch(n, p) for p in message["hosts"])]
        if not chosen:
            raise ValueError(f"no machine matches {message['hosts']}")
        if message["op"] == "reboot":  # same address and host key; the old disk is kept by the mounts it is in
            for name in chosen:
                spec = self.lines[name].spec
                disk_of = os.open(f"/proc/{spec.pid}/ns/mnt", os.O_RDONLY) if message.get("keep") else None
                self._kill(name)
                self._start(spec, disk_of)
                if disk_of is not None:
                    os.close(disk_of)
                self._wait_ready(name)
            self._save()
            return {"ok": True}
        out = {name: self._ask(name, message) for name in chosen}
        bad = {name: reply["error"] for name, reply in out.items() if not reply["ok"]}
        return {"ok": not bad, "error": str(bad), "hosts": out}

    def _ask(self, name: str, message: dict) -> dict:
        line = self.lines[name]
        try:
            line.channel.sendall(json.dumps(message).encode())
            return json.loads(line.file.readline() or '{"ok": false, "error": "machine is dead"}')
        except OSError as error:
            return {"ok": False, "error": repr(error)}

    def _kill(self, name: str) -> None:
        line = self.lines[name]
        line.file.close()
        line.channel.close()
        pid = line.spec.pid
        if not pid:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}").exists():  # its address is free only then
            with contextlib.suppress(ChildProcessError):  # its first parent may still be there to be told
                os.waitpid(pid, 0)
            time.sleep(0.002)

    def _stop_all(self) -> None:
        for line in self.lines.values():  # all at once, then wait
            with contextlib.suppress(ProcessLookupError):
                if line.spec.pid:
                    os.kill(line.spec.pid, signal.SIGKILL)
        for name in self.lines:
            self._kill(name)

    def _save(self) -> None:
        self.plan.supervisor = os.getpid()
        self.plan.save(Path(self.plan.folder, "fleet.json"))


@contextlib.contextmanager
def short(folder: Path) -> Iterator[str]:
    """A short path to a folder, however long its real one is."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


def main(folder: str) -> None:
    """Run the supervisor of the plan that lies in `folder`."""
    Supervisor(plans.load(Path(folder, "plan.json"))).run()
