"""memory_capacity: everything free is written and read back, and a wrong word is found."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from auditor.probes import memory_capacity
from auditor.probes.engine.kernels import Kernels
from tests.probes.desk import desk


def test_without_a_gpu_it_does_not_apply(tmp_path: Path) -> None:
    """Where no kernel of our own can run the reason says so."""
    with desk("memory_capacity", tmp_path, device="cuda") as at:
        reason = memory_capacity.applies(at.context)
    assert reason is None or "kernel" in reason


@pytest.mark.gpu
def test_all_free_memory_is_tested_and_given_back(tmp_path: Path) -> None:
    """At least 95 % of what is free, no error, and afterwards as much is free as before."""
    import torch

    with desk("memory_capacity", tmp_path, device="cuda", subject="gpu0", scope="gpu") as at:
        found = {r.metric: r.value for r in memory_capacity.run(at.context)}
    free = found["memory_capacity_free_bytes"]
    assert isinstance(free, int)
    assert float(found["memory_capacity_bytes"] or 0) >= 0.95 * free
    assert found["memory_capacity_errors_total"] == 0
    assert torch.cuda.mem_get_info()[0] >= free - (64 << 20)


@pytest.mark.gpu
def test_one_wrong_word_is_counted_as_one() -> None:
    """A single flipped bit anywhere shows; so does a chunk that holds another place's words."""
    import torch

    kernels = Kernels()
    fill, verify = (kernels.compile(memory_capacity.SOURCE, name) for name in ("fill", "verify"))
    chunks = [torch.empty(8 << 20, dtype=torch.uint8, device="cuda") for _ in range(2)]
    wrong = torch.zeros(1, dtype=torch.int64, device="cuda")
    memory_capacity._each(torch, fill, chunks, 7, [])
    chunks[1][12345] ^= 1
    memory_capacity._each(torch, verify, chunks, 7, [ctypes.c_void_p(wrong.data_ptr())])
    assert int(wrong.item()) == 1
    memory_capacity._each(torch, verify, [chunks[1], chunks[0]], 7, [ctypes.c_void_p(wrong.data_ptr())])
    assert int(wrong.item()) > 2_000_000
