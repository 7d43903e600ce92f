"""collectives: the documents' sizes first, every operation's result checked."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from auditor.probes import collectives
from auditor.probes.engine.gpu_facts import GpuFacts
from auditor.probes.measuring import exchange
from tests.probes.desk import desk

MIB = 1 << 20

SEVERAL = """
import json, os, sys
from types import SimpleNamespace
import torch.distributed as dist
from auditor.probes import collectives
from auditor.probes.measuring import exchange

what, folder, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
ranks = 3

def check(rank):
    store = dist.FileStore(folder + "/store", ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    told = []
    for op in exchange.OPS:
        for dtype in exchange.ITEM:
            count = exchange.elements(50_000, dtype, ranks)
            ready = exchange.prepare(op, dist.group.WORLD, rank, ranks, count, dtype, "cpu")
            right = exchange.check(ready)
            spoilt = ready._replace(call=lambda: (ready.call(), ready.received[3].add_(1)))
            told.append([op, dtype, right, exchange.check(spoilt)])
    dist.destroy_process_group()
    return told

def job(rank):
    collectives.plan = lambda profile, ranks, device: [
        collectives.Part(op, group, dtype, 65536)
        for op in exchange.OPS for group in (2, ranks) for dtype in exchange.ITEM
    ]
    cut = []
    context = SimpleNamespace(
        profile="standard", device="cpu", rank=rank, ranks=ranks, rendezvous=folder + "/store", directory=folder,
        gpus=(), remaining=lambda: seconds if rank == 0 else 1e9, cut=cut.append,
        reading=lambda quantity, value, *facts, **conditions: [quantity, value, conditions],
    )
    return {"readings": list(collectives.run(context)), "cut": cut}

children = []
for rank in range(ranks):
    children.append(os.fork())
    if children[-1] == 0:
        told = {"check": check, "job": job}[what](rank)
        with open(folder + "/told%d" % rank, "w") as file:
            json.dump(told, file)
        os._exit(0)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


def several(what: str, folder: Path, seconds: float = 1e9) -> list[Any]:
    """What each of three ranks told; one process imports torch and becomes three."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL, what, str(folder), str(seconds)],
        cwd=root,
        env={"PYTHONPATH": str(root), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"told{rank}").read_text()) for rank in range(3)]


def test_every_operation_is_checked_against_what_must_come_out(tmp_path: Path) -> None:
    """Three ranks, all operations, both dtypes: no wrong element, and a single spoilt one is counted as one."""
    for told in several("check", tmp_path):
        assert told == [[op, dtype, 0, 1] for op in exchange.OPS for dtype in exchange.ITEM]


def test_every_operation_over_subsets_and_all_is_told_once_by_rank_0(tmp_path: Path) -> None:
    """Groups of 2 of 3 ranks and of all: algbw, busbw by its factor, no wrong element; the others tell nothing."""
    first, *others = several("job", tmp_path)
    assert all(other["readings"] == [] for other in others)
    found = {(q, w["op"], w["ranks"], w["dtype"]): value for q, value, w in first["readings"] if "op" in w}
    assert len(found) == 3 * 2 * 2 * len(exchange.OPS)
    for (quantity, op, ranks, dtype), value in found.items():
        if quantity == "errors_total":
            assert value == 0
        if quantity == "busbw_bytes_per_second":
            algbw = found["algbw_bytes_per_second", op, ranks, dtype]
            assert value == pytest.approx(algbw * exchange.bus_factor(op, ranks))


def test_what_rank_0_has_no_time_for_no_rank_waits_for(tmp_path: Path) -> None:
    """One rank thinks there is time, rank 0 knows there is none: all leave the parts out, nobody hangs."""
    for told in several("job", tmp_path, 0.5):
        assert [quantity for quantity, _, what in told["readings"] if "op" in what] == []
        assert len(told["cut"]) == 2 * 2 * len(exchange.OPS)


def test_one_gpu_has_nobody_to_talk_to(tmp_path: Path) -> None:
    """The reason says why there is nothing to measure; a CPU has its two processes."""
    with desk("collectives", tmp_path, device="cuda", gpus=(GpuFacts(0),)) as at:
        assert collectives.applies(at.context) == "one GPU: nothing to exchange"
    with desk("collectives", tmp_path) as at:
        assert collectives.applies(at.context) is None


def test_the_documents_sizes_come_first() -> None:
    """400 MB of float32, then 256 MiB down to 8 MiB: a budget that cuts takes the rest."""
    parts = collectives.plan("quick", 8, "cuda")
    assert [part.bytes for part in parts[:7]] == [400_000_000, *(MIB << power for power in range(8, 2, -1))]
    assert {part.op for part in parts} == set(exchange.OPS)


@pytest.mark.parametrize("ranks", [2, 3, 5, 7, 8, 16])
def test_standard_covers_all_sizes_and_subsets(ranks: int) -> None:
    """1 KiB to 8 GiB, both dtypes, 2, 4, 8 and all of the GPUs, nothing twice."""
    parts = collectives.plan("standard", ranks, "cuda")
    assert len(parts) == len(set(parts))
    assert {part.ranks for part in parts} == {size for size in (2, 4, 8) if size < ranks} | {ranks}
    assert {part.dtype for part in parts} == {"float32", "bf16"}
    assert (min(part.bytes for part in parts), max(part.bytes for part in parts)) == (1024, 8 << 30)


def test_loopback_is_there_for_gloo() -> None:
    """The job between two processes needs nothing but the loopback interface."""
    assert any(name == "lo" for _, name in socket.if_nameindex())
