"""Runs the probe `gpu_health` on a machine profile at the start of an audit and on another at its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditor.records import Reading
from tests.nvml_double import Machine, Profile

ROOT = Path(__file__).parents[2]
# Loaded in a process of its own, so that the real pynvml finds the double where a driver would be.
_CHILD = """
import json, sys
from pathlib import Path
from auditor.probes import gpu_health
from auditor.probes.engine import kernel_log
from auditor.probes.engine.context import reading_on_the_wire
from auditor.probes.engine.gpu_facts import GpuFacts
from tests.probes.desk import desk
gpus = tuple(GpuFacts(**one) for one in json.loads(sys.argv[1]))
with desk("gpu_health", Path(sys.argv[2]), device="cuda", gpus=gpus) as at:
    rows = [reading_on_the_wire(r) for r in gpu_health.run(at.context)]
    print(json.dumps(rows), flush=True)
    sys.stdin.readline()
    print(json.dumps([reading_on_the_wire(r) for r in gpu_health.finish(at.context)]), flush=True)
print(json.dumps(at.said), flush=True)
"""


@dataclass(frozen=True)
class Told:
    """What the probe told at the start and at the end of an audit."""

    before: list[dict[str, Any]]
    after: list[dict[str, Any]]
    said: list[dict[str, Any]]

    def value(self, quantity: str, subject: str = "gpu0", **conditions: Any) -> Any:
        """The one value under exactly these conditions; None when it was not told."""
        rows = [
            row["value"]
            for row in self.before + self.after
            if (row["metric"], row["subject"], row["with"]) == (f"gpu_health_{quantity}", subject, conditions)
        ]
        assert len(rows) <= 1, rows
        return rows[0] if rows else None

    @property
    def readings(self) -> list[Reading]:
        """All that was told, as the controller decodes it."""
        return [
            Reading(**{**{name: value for name, value in row.items() if name != "with"}, "conditions": row["with"]})
            for row in self.before + self.after
        ]


def told(folder: Path, libraries: Path, start: Profile, end: Profile | None = None) -> Told:
    """What the probe tells on `start`, and on `end` where the machine changes meanwhile."""
    machine = Machine(folder / "machine", libraries, start)
    gpus = [
        {"index": index, "uuid": gpu["nvmlDeviceGetUUID"], "pci": gpu["nvmlDeviceGetPciInfo"]["busId"][4:].lower()}
        for index, gpu in enumerate(start["gpus"])
    ]
    argv = [sys.executable, "-c", _CHILD, json.dumps(gpus), str(folder)]
    environment = {**os.environ, **machine.environment}
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        before = child.stdout.readline()
        if end is not None:
            machine.change(end)
        child.stdin.write("\n")
        child.stdin.flush()
        after, said = child.stdout.readline(), child.stdout.readline()
    assert child.returncode == 0
    return Told(json.loads(before), json.loads(after), json.loads(said))
