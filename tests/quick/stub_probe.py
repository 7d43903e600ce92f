"""A probe file that behaves as the test wants: the command line and progress of the real one, no measuring.

`--only` names the behaviour. Runs on a test server under any Python >= 3.8.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

GATE = pathlib.Path("/tmp/stub-gate")  # noqa: S108  # on a test server, whose /tmp is its own


def main():
    parser = argparse.ArgumentParser()
    for name in ("server", "run", "nonce", "profile", "only", "out", "status", "lock"):
        parser.add_argument("--" + name)
    given, _ = parser.parse_known_args()
    lock = pathlib.Path(given.lock or "/run/lock/auditor-probe.lock")
    lock.write_text(f"run {given.run}, pid {os.getpid()}")  # as the real one; without a lock it does not begin
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append("stop"))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # held back by who started it
    how = given.only or "short"
    readings = []
    say(event="probe", probe="matmul", subject="gpu0", status="running", percent=10)
    reading(readings, "gpu_identity", "gpu_identity_name", "NVIDIA H200", "driver/nvml")
    if how == "crash":
        print("Traceback: the stub fell over", file=sys.stderr)
        sys.exit(3)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = "import signal,time;signal.signal(signal.SIGTERM,signal.SIG_IGN);time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
        time.sleep(600)
    if how == "chatter":
        while not asked:
            print("x" * 100000, file=sys.stderr)
    for step in range(4):
        reading(
            readings, "matmul", "matmul_sustained_flops_per_second", 6.5e14, "measured", dtype="bf16", n=1024 * step
        )
        say(event="sample", subject="gpu0", celsius=50 + step, watts=600, hertz=1.7e9)
        while how == "long" and not asked and not GATE.exists():
            time.sleep(0.02)
    if how == "waits":  # for a worker that does not hear, as a probe on a busy server does
        subprocess.run([sys.executable, "-c", "import time;time.sleep(600)"], start_new_session=True)
    say(event="probe", probe="matmul", subject="gpu0", status="timed_out" if asked else "measured", percent=90)
    pathlib.Path(given.out).write_text(record(given, how, readings, asked))
    lock.unlink()
    say(event="done", out=given.out)


def say(**line):
    print(json.dumps({"t": 0.1, **line}), file=sys.stderr, flush=True)


def reading(readings, probe, metric, value, source, **conditions):
    row = {"probe": probe, "metric": metric, "subject": "gpu0", "with": conditions, "value": value, "spread": 0.002,
           "n": 3, "stable": True, "source": source}  # fmt: skip
    readings.append(row)
    say(event="reading", **row)


def record(given, how, readings, asked):
    if how == "huge":
        return "x" * (9 << 20)
    if how == "lies":
        return '{"schema": 1, "schema": 1}'
    status = "timed_out" if asked else "measured"
    document = {
        "schema": 1, "tool": {"name": "stub", "version": "0"}, "run": given.run, "server": given.server,
        "profile": given.profile, "device": "cuda", "synthetic": True, "nonce": given.nonce,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": {"total": 1.0, "fixed": 0.1, "measuring": 0.9},
        "subjects": [{"id": "server", "kind": "server"}, {"id": "gpu0", "kind": "gpu", "index": 0}],
        "probes": [{"probe": "matmul", "method": 1, "subject": "gpu0", "status": status, "reason": None}],
        "readings": readings, "series": [], "attachments": {},
    }  # fmt: skip
    return json.dumps(document)


if __name__ == "__main__":
    main()
