"""PID 1 of one machine: namespaces, its own root, and a loop that starts sshd for every connection.

The listening socket is bound in the controller's network namespace before the machine moves into its own;
a socket stays in the namespace it was made in. So there is no bridge, route or firewall rule, all traffic
stays in 127.0.0.0/8, and network faults happen here, in the accept loop.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.fleet import disk
from tests.fleet.faults import Faults, keygen
from tests.fleet.plan import Plan, Spec
from tests.fleet.relay import relay
from tests.fleet.syscalls import NEWCGROUP, NEWIPC, NEWNET, NEWNS, NEWPID, NEWUTS, call, loopback_up

SSHD = "/usr/sbin/sshd"
_PATH = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"}


class Machine:
    """One machine, built in a fork of the supervisor; `boot` does not return."""

    def __init__(self, plan: Plan, spec: Spec, channel: socket.socket) -> None:
        self.plan, self.spec, self.channel = plan, spec, channel
        self.home = Path(plan.folder, "hosts", spec.name)
        self.connections: dict[int, float] = {}  # pid of a connection's sshd -> when to kill it
        self.listener: socket.socket | None = None
        self.faults = Faults(plan.disk_mb, self._listen_again, self._deafen, self._kick)

    def boot(self, disk_of: int | None = None) -> None:
        """Become a machine: new namespaces, then a fork whose child is PID 1 there.

        `disk_of` is the mount namespace of the machine before a reboot that keeps the disk.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        key = self.home / "ssh_host_ed25519_key"
        if not key.exists():  # kept over a reboot, as on a real machine
            keygen(key, self.spec.name)
        log = os.open(self.home / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.outer_net = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.listener = self._bound()
        if disk_of is not None:
            call("setns", disk_of, NEWNS)
            os.close(disk_of)
        call("unshare", (NEWNS if disk_of is None else 0) | NEWUTS | NEWIPC | NEWPID | NEWNET | NEWCGROUP)
        pid = os.fork()
        if pid:  # tell the supervisor PID 1's outside pid
            self._say({"pid": pid})
            os._exit(0)
        if disk_of is None:
            disk.enter(self.plan, self.spec, self.home, key)
        else:
            disk.enter_again()
        socket.sethostname(self.spec.name)
        loopback_up()
        null = os.open("/dev/null", os.O_RDWR)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        if disk_of is not None and os.access("/etc/rc.local", os.X_OK):  # as a machine that boots from its disk does
            subprocess.run(["/etc/rc.local"], env=_PATH, check=False)
        self._run()

    def _say(self, message: dict) -> None:
        self.channel.sendall(json.dumps(message).encode() + b"\n")

    def _bound(self) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.spec.address, self.plan.port))
        listener.listen(128)
        listener.setblocking(False)
        return listener

    def _listen_again(self) -> None:
        inner = os.open("/proc/self/ns/net", os.O_RDONLY)
        call("setns", self.outer_net, NEWNET)
        try:
            self.listener = self._bound()
        finally:
            call("setns", inner, NEWNET)
            os.close(inner)

    def _deafen(self) -> None:
        if self.listener:
            self.listener.close()
        self.listener = None

    def _kick(self) -> None:
        for pid in list(self.connections):
            self._kill_connection(pid)

    def _run(self) -> None:
        gc.disable()
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._say({"ready": 1})
        while True:
            watch: list = [self.channel, wake_read]
            if self.listener and not {"mute", "freeze"} & self.faults.active.keys():
                watch.append(self.listener)
            due = min(self.connections.values(), default=float("inf")) - time.monotonic()
            timeout = 0.05 if self.faults.armed else None if due == float("inf") else max(due, 0)
            ready = select.select(watch, [], [], timeout)[0]
            if wake_read in ready:
                os.read(wake_read, 4096)
            with contextlib.suppress(ChildProcessError):  # reap everybody's orphans
                while pid := os.waitpid(-1, os.WNOHANG)[0]:
                    self.connections.pop(pid, None)
            if self.channel in ready:
                line = self.channel.recv(65536)
                if not line:  # the supervisor has gone: power off
                    os._exit(0)
                self._say(self.faults.command(json.loads(line)))
            if self.listener and self.listener in ready:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    self._accept(self.listener.accept()[0])
            for pid in [p for p, at in self.connections.items() if at <= time.monotonic()]:
                self._kill_connection(pid)
            self.faults.check_armed()

    def _accept(self, connection: socket.socket) -> None:
        active = self.faults.active
        left = int(active.get("refuse") or 0)
        if left:
            active["refuse"] = str(left - 1)
            connection.close()
            return
        pid = os.fork()
        if pid:
            connection.close()
            life = active.get("drop")
            self.connections[pid] = time.monotonic() + float(life) if life else float("inf")
            return
        try:
            self._serve(connection)
        except BaseException as error:  # noqa: BLE001  # never fall back into PID 1's loop
            os.write(2, f"connection failed: {error!r}\n".encode())
        finally:
            os._exit(1)

    def _serve(self, connection: socket.socket) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()  # so that the whole connection can be killed
        rate, delay = (float(self.faults.active.get(k) or 0) for k in ("slow", "latency"))
        connection.setblocking(True)
        if rate or delay:
            ours, theirs = socket.socketpair()
            if os.fork():
                theirs.close()
                relay(connection, ours, rate * 1000, delay / 1000)
                os._exit(0)
            connection = theirs
        os.dup2(connection.fileno(), 0)
        os.dup2(connection.fileno(), 1)
        os.execve(SSHD, [SSHD, "-i", "-e", "-f", "/etc/ssh/sshd_config"], _PATH)

    def _kill_connection(self, pid: int) -> None:
        self.connections.pop(pid, None)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
