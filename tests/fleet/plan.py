"""What a fleet is to look like: written by the caller as JSON, read by the supervisor."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path


@dataclasses.dataclass
class Spec:
    """One machine: its name, its address on the controller, and (once it runs) PID 1 as seen from outside."""

    name: str
    address: str
    pid: int | None = None


@dataclasses.dataclass
class Plan:
    """One fleet. `bind` and `copy` are pairs (path here, path on every machine)."""

    folder: str
    machines: list[Spec]
    user: str = "ubuntu"
    port: int = 2222
    disk_mb: int = 64
    sudo: bool = True
    root_login: bool = False
    bind: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    copy: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    sshd_extra: str = ""
    base: str = ""  # a folder with another Linux (debootstrap); without one the machines see the controller's
    pubkey: str = ""
    supervisor: int | None = None

    def machine(self, name: str) -> Spec:
        """The machine of that name."""
        return next(m for m in self.machines if m.name == name)

    def save(self, path: Path) -> None:
        """Write the plan whole: readers see the old one or the new one."""
        new = path.with_name(path.name + ".new")
        new.write_text(json.dumps(dataclasses.asdict(self), indent=1))
        new.replace(path)


def load(path: Path) -> Plan:
    """Read a plan that `save` wrote."""
    raw = json.loads(path.read_text())
    return Plan(**{**raw, "machines": [Spec(**m) for m in raw["machines"]]})
