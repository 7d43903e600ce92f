"""CPU seconds and peak memory of a command and everything it starts, the machines of the fleet left out.

A control group counts also what detaches itself (ssh's masters), which getrusage does not.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

_V1, _V2 = Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup/cgroup.controllers")


class Cost(NamedTuple):
    """What a command took: CPU seconds, peak bytes (file cache included), exit code, output."""

    cpu_seconds: float
    peak_bytes: int
    code: int
    out: str


def available() -> bool:
    """Whether this machine lets us make control groups that count."""
    return os.geteuid() == 0 and (_V1.is_dir() or _V2.exists())


def measured(argv: list[str], **more: Any) -> Cost:
    """Run a command in control groups of its own."""
    name = f"auditor-meter-{os.getpid()}"
    roots = [_V1, Path("/sys/fs/cgroup/memory")] if _V1.is_dir() else [Path("/sys/fs/cgroup")]
    groups = [root / name for root in roots]
    for group in groups:
        group.mkdir(exist_ok=True)

    def enter() -> None:
        for group in groups:
            (group / "cgroup.procs").write_text("0")

    try:
        done = subprocess.run(
            argv, preexec_fn=enter, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, **more,
        )  # fmt: skip
        return Cost(_cpu(groups[0]), _peak(groups[-1]), done.returncode, done.stdout)
    finally:
        for group in groups:
            _leave(group)


def _cpu(group: Path) -> float:
    if (group / "cpuacct.usage").exists():
        return int((group / "cpuacct.usage").read_text()) / 1e9
    return int((group / "cpu.stat").read_text().split()[1]) / 1e6


def _peak(group: Path) -> int:
    name = "memory.max_usage_in_bytes" if (group / "memory.max_usage_in_bytes").exists() else "memory.peak"
    return int((group / name).read_text())


def _leave(group: Path) -> None:
    """What still runs (ssh's masters, for a minute) goes back to where it came from."""
    for pid in (group / "cgroup.procs").read_text().split():
        try:
            (group.parent / "cgroup.procs").write_text(pid)
        except OSError:
            continue
    with contextlib.suppress(OSError):
        group.rmdir()
