"""Runs one probe of the server's scope in a process of its own, on a doubled driver, without the whole engine.

Started as `python -m tests.probes.asked PROBE` with the double's environment; prints readings, notes and fault.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from auditor.probes.engine import cuda_door, watcher
from auditor.probes.engine.context import reading_on_the_wire
from auditor.probes.engine.nvml import Nvml

from .desk import desk


def main(key: str) -> None:
    """The probe's readings as JSON."""
    module = importlib.import_module(f"auditor.probes.{key}")
    nvml = Nvml()
    gpus = watcher.list_gpus(nvml)
    usage = watcher.Usage(nvml)
    answers = {
        "cuda": cuda_door.ask(),
        "first_look": {str(gpu.index): usage.of(gpu) for gpu in gpus if gpu.fault is None},
    }
    with tempfile.TemporaryDirectory() as folder, desk(
        key, Path(folder), device="cuda", gpus=tuple(gpus), answers=answers
    ) as at:  # fmt: skip
        readings = [reading_on_the_wire(reading) for reading in module.run(at.context)]
    notes = "; ".join(message["text"] for message in at.heard("note"))
    row = {"probe": key, "subject": "server", "status": "measured", "reason": notes or None}
    print(json.dumps({"readings": readings, "probes": [row]}))


def ask(key: str, environment: dict[str, str]) -> dict:
    """The readings of a probe on a machine."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.probes.asked", key],
        env={**os.environ, **environment},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
