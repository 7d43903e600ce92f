"""Start, break and stop a fleet, from a test or a shell."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.fleet import plan as plans
from tests.fleet.faults import FAULTS, keygen
from tests.fleet.machine import SSHD
from tests.fleet.plan import Plan, Spec
from tests.fleet.supervisor import short

_ROOT = Path(__file__).parents[2]


def why_not() -> str | None:
    """Why no fleet can be started here, or None where it can."""
    if os.geteuid() != 0:
        return "the test fleet needs root: it makes namespaces and mounts"
    for tool in (SSHD, "/usr/bin/ssh-keygen", "/usr/bin/sudo"):
        if not Path(tool).exists():
            return f"{tool} is missing: apt-get install --no-install-recommends openssh-server sudo"
    return None


class Fleet:
    """`count` machines named h001, h002, …; use as a context manager. `Fleet.open(folder)` joins a running one."""

    def __init__(self, count: int, folder: str | os.PathLike[str], *, net: str = "127.77", **wishes: Any) -> None:
        self.folder = Path(folder).absolute()
        machines = [Spec(f"h{i:03d}", f"{net}.{(i - 1) // 250}.{(i - 1) % 250 + 1}") for i in range(1, count + 1)]
        for pairs in ("bind", "copy"):
            wishes[pairs] = [(str(source), str(target)) for source, target in wishes.get(pairs, ())]
        self.plan = Plan(str(self.folder), machines, **wishes)
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Fleet:
        """Join the fleet that runs in `folder`."""
        self = cls(0, folder)
        self.plan = plans.load(self.folder / "fleet.json")
        return self

    def start(self) -> Fleet:
        """Start all machines; returns when every one answers."""
        if reason := why_not():
            raise RuntimeError(reason)
        if (self.folder / "ctl").exists():  # join the living, bury the dead
            with contextlib.suppress(OSError, ValueError):
                self._call(op="ping")
                raise RuntimeError(f"a fleet runs already in {self.folder}")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o700)
        keygen(self.folder / "id_ed25519", "fleet")
        self.plan.pubkey = (self.folder / "id_ed25519.pub").read_text()
        self.plan.save(self.folder / "plan.json")
        code = "import sys; sys.path.insert(0, sys.argv[1]); from tests.fleet.supervisor import main; main(sys.argv[2])"
        with (self.folder / "supervisor.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-IS", "-c", code, str(_ROOT), str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert process.stdout
        with process.stdout:
            if process.stdout.readline() != b"ready\n":
                process.wait()
                raise RuntimeError("the fleet did not start:\n" + (self.folder / "supervisor.log").read_text())
        self._process = process
        self.plan = plans.load(self.folder / "fleet.json")
        self._write_client_files()
        return self

    def stop(self) -> None:
        """Stop all machines; nothing of them stays but the folder."""
        with contextlib.suppress(OSError, ValueError):
            self._call(op="stop")
        if self._process:
            self._process.wait(timeout=60)
        else:  # not our child: wait until it has gone
            end = time.monotonic() + 30
            while Path(f"/proc/{self.plan.supervisor}").exists() and time.monotonic() < end:
                time.sleep(0.02)
        (self.folder / "ctl").unlink(missing_ok=True)

    __enter__ = start

    def __exit__(self, *_: object) -> None:
        self.stop()

    def fault(
        self, hosts: str, name: str, value: object = None, *, on: str | None = None, after: float = 0
    ) -> dict[str, Any]:
        """Break machines (names or globs, comma-separated).

        With `on`, the fault strikes `after` seconds after a process whose command line matches is seen.
        """
        if name not in FAULTS:
            raise ValueError(f"no such fault: {name}; one of {', '.join(FAULTS)}")
        text = None if value is None else str(value)
        return self._call(op="fault", hosts=hosts.split(","), name=name, value=text, on=on, after=after)

    def heal(self, hosts: str, name: str | None = None) -> dict[str, Any]:
        """Undo one fault, or all, and disarm."""
        return self._call(op="heal", hosts=hosts.split(","), name=name)

    def reboot(self, hosts: str, *, keep: bool = False) -> None:
        """Kill the machines and start them with an empty disk, or with `keep` with the one they had.

        Address and host key stay. A machine that keeps its disk runs its /etc/rc.local before it answers.
        """
        self._call(op="reboot", hosts=hosts.split(","), keep=keep)
        self.plan = plans.load(self.folder / "fleet.json")

    def root(self, name: str) -> Path:
        """The machine's file system, as seen from here: read or plant files through it.

        An absolute symlink in the path would lead to the controller's own files.
        """
        return Path(f"/proc/{self.plan.machine(name).pid}/root")

    def ssh(self, name: str, command: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run a command there over SSH as the machine's user."""
        options = {"capture_output": True, "text": True, "timeout": 60, "stdin": subprocess.DEVNULL, **more}
        batch = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=5"]
        return subprocess.run(["ssh", "-F", str(self.folder / "ssh_config"), *batch, name, command], **options)

    @property
    def names(self) -> list[str]:
        """The machines' names."""
        return [m.name for m in self.plan.machines]

    @property
    def inventory(self) -> Path:
        """A plain Ansible inventory of the fleet."""
        return self.folder / "inventory.ini"

    def _call(self, **message: Any) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as client, short(self.folder) as path:
            client.settimeout(120)
            client.connect(f"{path}/ctl")
            with client.makefile("rw") as file:
                file.write(json.dumps(message) + "\n")
                file.flush()
                reply: dict[str, Any] = json.loads(file.readline())
        if not reply["ok"]:
            raise RuntimeError(reply["error"])
        return reply

    def _write_client_files(self) -> None:
        folder, plan = self.folder, self.plan
        known, hosts, ssh = [], [], []
        for machine in plan.machines:
            key = (folder / "hosts" / machine.name / "ssh_host_ed25519_key.pub").read_text().split()[:2]
            known.append(f"[{machine.address}]:{plan.port} {' '.join(key)}\n")
            hosts.append(f"{machine.name} ansible_host={machine.address}\n")
            ssh.append(f"Host {machine.name}\n  HostName {machine.address}\n")
        (folder / "known_hosts").write_text("".join(known))
        (folder / "inventory.ini").write_text(
            "[fleet]\n" + "".join(hosts) + f"\n[fleet:vars]\nansible_port={plan.port}\nansible_user={plan.user}\n"
            f"ansible_ssh_private_key_file={folder}/id_ed25519\n"
            f"ansible_ssh_common_args='-o UserKnownHostsFile={folder}/known_hosts'\n"
        )
        (folder / "ssh_config").write_text(
            "".join(ssh) + f"Host *\n  Port {plan.port}\n  User {plan.user}\n  IdentityFile {folder}/id_ed25519\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {folder}/known_hosts\n  StrictHostKeyChecking yes\n"
        )
