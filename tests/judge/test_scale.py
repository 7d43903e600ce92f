"""Judging many servers: time and memory stay within what the design asks, and grow in a straight line."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from auditor import order, reading
from auditor.judge import ServerInput, judge
from auditor.records import Record, to_document
from tests import builders
from tests.judge.judged import METAL_H200

READINGS = 3000


def large() -> bytes:
    """The record of eight GPUs with 3,000 readings, as bytes."""
    base = builders.healthy()
    more = [
        builders.reading(
            "matmul_sweep_flops_per_second", 6e14 + i, f"gpu{i % 8}", spread=0.01, n=5, dtype="bf16", n_=1024 + i
        )
        for i in range(READINGS - len(base.readings))
    ]
    return json.dumps(to_document(builders.added(base, *more)), separators=(",", ":")).encode()


def small() -> bytes:
    """The record of a quick audit of two GPUs: what a run of 10,000 servers is made of."""
    return json.dumps(to_document(builders.healthy(gpus=2, profile="quick")), separators=(",", ":")).encode()


def measure(servers: int, make: Callable[[], bytes] = large, ordered: str = METAL_H200) -> tuple[float, float]:
    """CPU seconds and peak memory (GB) of reading and judging that many servers in this process."""
    data, paid = make(), order.parse(ordered, "test")
    readings = len(json.loads(data)["readings"])
    begin = time.process_time()

    def source() -> Iterator[ServerInput]:
        for index in range(servers):
            found = reading.read_bytes(data)
            assert isinstance(found, reading.Read)
            assert len(found.record.readings) == readings
            yield ServerInput(f"s{index:05d}", paid, record=_as(found.record, f"s{index:05d}"))

    judgement = judge(source)
    assert len(judgement.servers) == servers
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return time.process_time() - begin, peak


def _as(record: Record, name: str) -> Record:
    """The same record under another name (a field of a frozen dataclass, set without a copy of its readings)."""
    object.__setattr__(record, "server", name)
    return record


def _alone(servers: int, how: str = "") -> tuple[float, float]:
    """`measure` in a process of its own, so that memory is its own."""
    code = f"from tests.judge.test_scale import measure, small; print(*measure({servers}{how}))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, peak = out.stdout.split()
    return float(seconds), float(peak)


@pytest.mark.scale
def test_a_thousand_servers_in_a_minute() -> None:
    """1,000 servers x 8 GPUs x 3,000 readings, read from bytes and judged: below 60 s on one core, below 1 GB."""
    few, _ = _alone(250)
    seconds, peak = _alone(1000)
    print(f"\n1,000 servers, 3,000 readings each: {seconds:.1f} s CPU, {peak:.2f} GB; 250 servers: {few:.1f} s")
    assert seconds < 60
    assert peak < 1.0
    assert seconds < 4 * few * 1.5


@pytest.mark.scale
def test_ten_thousand_servers_grow_in_a_straight_line() -> None:
    """A server costs at 10,000 what it costs at 1,000: time within 25 %, what is kept of each within 40 KB."""
    cost = {}
    for servers in (1000, 4000, 10_000):
        cost[servers] = _alone(servers, ', small, "2x H200 nvswitch"')
        seconds, peak = cost[servers]
        print(
            f"\n{servers} servers: {seconds:.1f} s CPU, {1000 * seconds / servers:.2f} ms each, {peak:.3f} GB", end=""
        )
    (first, few), (_, some), (last, many) = cost.values()
    assert last / 10_000 < 1.25 * first / 1000
    kept = [(some - few) / 3000, (many - some) / 6000]
    print(f"; kept of each: {', '.join(f'{1e6 * one:.1f} KB' for one in kept)}")
    assert max(kept) < 40e-6


def test_a_few_servers_cost_what_they_may() -> None:
    """The small form: 12 servers stay below 0.2 s each even on a slow machine."""
    seconds, _ = measure(12)
    assert seconds < 12 * 0.2
