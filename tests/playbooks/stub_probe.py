"""A probe for the transport's tests: the real one's command line, a small synthetic record, and bad manners on demand.

Packed into a .pyz by the fixture `stub_probe`. What it does beside the happy path stands in /opt/stub.json on the
machine it runs on: {"seconds": 2, "until": "/a/file/that/ends/it",
"manner": "die" | "half" | "huge" | "busy" | "orphan" | "deaf" | "hostile"}.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def record(wish: argparse.Namespace) -> dict:
    """A record that says of itself that it is synthetic."""
    row = {"probe": "server_facts", "method": 1, "subject": "server", "status": "measured", "seconds": 0.1}
    common = {"probe": "server_facts", "subject": "server", "with": {}}
    python = f"{sys.executable} {sys.version_info[0]}.{sys.version_info[1]}"
    readings = [
        {**common, "metric": "server_facts_hostname", "value": os.uname().nodename, "source": "kernel/sysfs"},
        {**common, "metric": "server_facts_interpreter", "value": python, "source": "measured"},
    ]
    return {
        "schema": 1,
        "tool": {"name": "stub", "version": "0"},
        "run": wish.run,
        "server": wish.server,
        "profile": wish.profile,
        "device": "cpu",
        "synthetic": True,
        "nonce": wish.nonce,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": {"total": 1.0, "fixed": 0.1, "measuring": 0.9},
        "subjects": [{"id": "server", "kind": "server"}],
        "probes": [row],
        "readings": readings,
        "series": [],
        "attachments": {},
    }


def tell(path: Path, **status: object) -> None:
    """status.json, written whole."""
    new = path.with_name("status.new")
    new.write_text(json.dumps({"pid": os.getpid(), **status}))
    new.replace(path)


def main() -> int:
    """The happy path, or the manner asked for."""
    parser = argparse.ArgumentParser()
    for name in ("--server", "--run", "--nonce", "--profile", "--out", "--status"):
        parser.add_argument(name)
    wish, _ = parser.parse_known_args()
    plan = Path("/opt/stub.json")
    wanted = json.loads(plan.read_text()) if plan.exists() else {}
    manner, seconds = wanted.get("manner"), float(wanted.get("seconds", 0))
    out, status = Path(wish.out), Path(wish.status)
    whole = json.dumps(record(wish)).encode()
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # held back by who started it
    if "environment" in wanted:
        Path(wanted["environment"]).write_bytes(Path("/proc/self/environ").read_bytes().replace(b"\0", b"\n"))
    if manner == "die":
        tell(status, percent=10, step="about to die", finished=False, exit=None)
        print("RuntimeError: \x1b[31mthe device fell off the bus\x1b[0m", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if manner == "orphan":
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
    begin = time.monotonic()
    enough = Path(wanted.get("until", "/nonexistent"))
    while time.monotonic() - begin < seconds and not enough.exists() and (not stopped or manner == "deaf"):
        share = (time.monotonic() - begin) / seconds
        figures = {"matmul_sustained_flops_per_second": 1.5e11 * share}
        tell(status, percent=round(100 * share), step="matmul", figures=figures, finished=False, exit=None)
        time.sleep(0.1)
    if manner == "half":
        whole = whole[: len(whole) // 2]
    if manner == "huge":
        whole = b"[" * (9 << 20)
    if manner == "hostile":
        tell(status, percent="\x1b]0;owned\x07", step="\x1b[2J../../../etc/passwd", finished=True, exit=0)
    out.write_bytes(whole)
    if manner != "hostile":
        tell(status, percent=100, step="done", figures={}, finished=True, exit=0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
