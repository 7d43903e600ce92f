"""Each real probe is killed once in the middle of its work; the run goes on, and no other probe suffers."""

import os
import signal
import subprocess

import pytest

from auditor.probes.engine import catalogue, process_tree

KEYS = [probe.key for probe in catalogue.probes()]


def busy_with(root):
    """The workers below the audit, watcher and CUDA's door left out."""
    found = set()
    for process in process_tree.descendants(root):
        try:
            with open(f"/proc/{process.pid}/cmdline", "rb") as file:  # noqa: PTH123
                words = file.read().split(b"\0")
        except OSError:
            continue
        if b"--as" in words and b"worker" in words:
            found.add(process.pid)
    return found


def kill_each(process):
    """Kill all workers as soon as a probe says that it runs; returns the probes that were hit."""
    import json

    hit = []
    for line in process.stderr:
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("event") == "probe" and event["status"] == "running" and event["probe"] not in hit:
            hit.append(event["probe"])
            for pid in busy_with(process.pid):
                os.kill(pid, signal.SIGKILL)
    return hit


def go(command, device):
    """One audit of all probes in which every one is killed; its outcome and what was hit."""
    process = command.start("--device", device)
    hit = kill_each(process)
    return command.ended(process, timeout=600), hit


def judge(outcome, hit):
    """Every probe has its row; those that were hit say so."""
    assert outcome.code == 0
    assert {row["probe"] for row in outcome.record["probes"]} == set(KEYS)
    for key in hit:
        for row in outcome.rows(key).values():
            assert (row["status"], "SIGKILL" in (row["reason"] or "")) in {
                ("failed", True),
                ("measured", False),  # it was quicker than the killer
                ("not_applicable", False),
            }, row
    failed = {row["probe"] for row in outcome.record["probes"] if row["status"] == "failed"}
    assert failed <= set(hit)
    return failed


@pytest.mark.scale
def test_each_probe_that_runs_on_a_cpu(command):
    """Facts, products, memory, collectives, heat, training, host, storage."""
    pytest.importorskip("torch")
    outcome, hit = go(command, "cpu")
    failed = judge(outcome, hit)
    assert {"matmul", "memory_bandwidth", "collectives", "thermal", "training_step", "host_cpu", "host_memory",
            "storage"} <= failed  # fmt: skip


@pytest.mark.gpu
def test_each_probe_that_runs_on_a_gpu(command):
    """The same with contexts on real GPUs; afterwards none of ours is on them."""
    outcome, hit = go(command, "cuda")
    failed = judge(outcome, hit)
    assert {"time_slicing", "matmul", "memory_bandwidth", "memory_capacity", "l2_cache", "host_copy", "latency",
            "thermal"} <= failed  # fmt: skip
    query = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    assert subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip() == ""
