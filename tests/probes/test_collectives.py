"""collectives: the documents' sizes first, every operation's result checked."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from auditor.probes import collectives
from auditor.probes.engine.gpu_facts import GpuFacts
from auditor.probes.measuring import exchange
from tests.probes.desk import desk

MIB = 1 << 20

CHECK = """
import sys
import torch.distributed as dist
from auditor.probes.measuring import exchange
rank, ranks, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", store=dist.FileStore(path, ranks), rank=rank, world_size=ranks)
for op in exchange.OPS:
    for dtype in exchange.ITEM:
        count = exchange.elements(50_000, dtype, ranks)
        ready = exchange.prepare(op, dist.group.WORLD, rank, ranks, count, dtype, "cpu")
        right = exchange.check(ready)
        spoilt = ready._replace(call=lambda: (ready.call(), ready.received[3].add_(1)))
        print(op, dtype, right, exchange.check(spoilt), flush=True)
dist.destroy_process_group()
"""


def test_every_operation_is_checked_against_what_must_come_out(tmp_path: Path) -> None:
    """Three ranks, all operations, both dtypes: no wrong element, and a single spoilt one is counted as one."""
    root = Path(__file__).resolve().parents[2]
    argv = [sys.executable, "-c", CHECK]
    processes = [
        subprocess.Popen(
            [*argv, str(rank), "3", str(tmp_path / "store")],
            cwd=root,
            env={"PYTHONPATH": str(root), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        lines = [line.split() for line in out.splitlines() if line.split()[0] in exchange.OPS]
        assert [line[:2] for line in lines] == [[op, dtype] for op in exchange.OPS for dtype in exchange.ITEM]
        assert all(line[2:] == ["0", "1"] for line in lines), out


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
