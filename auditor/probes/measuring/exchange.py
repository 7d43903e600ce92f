"""The collective operations as calls on given buffers, with the patterns that show a wrong result.

Bytes are counted as nccl-tests counts them: the larger of what one rank gives and receives. busbw is algbw times a
factor that makes it comparable with a link's speed whatever the number of ranks (nccl-tests, doc/PERFORMANCE.md).
"""

from typing import Any, Callable, Dict, NamedTuple

OPS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")
ITEM = {"float32": 4, "bf16": 2}


class Exchange(NamedTuple):
    """One operation ready to be called: `check()` counts this rank's wrong elements after a fresh call."""

    call: Callable[[], Any]
    check: Callable[[], int]


def bus_factor(op: str, ranks: int) -> float:
    """busbw = factor x algbw."""
    if op == "all_reduce":
        return 2.0 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if op in ("all_gather", "reduce_scatter", "all_to_all") else 1.0


def elements(bytes_wanted: int, dtype: str, ranks: int) -> int:
    """How many elements these bytes are, cut so that every rank has the same share."""
    return max(ranks, bytes_wanted // ITEM[dtype] // ranks * ranks)


def memory(op: str, size: int) -> int:
    """Bytes of buffers an operation of this size needs on one rank."""
    return size if op in ("all_reduce", "broadcast") else 2 * size


def prepare(op: str, group: Any, rank: int, ranks: int, count: int, dtype: str, device: str) -> Exchange:
    """Buffers for `count` elements and the call. `rank` is the rank inside the group, which starts at global rank 0."""
    import torch
    import torch.distributed as dist

    kind = {"float32": torch.float32, "bf16": torch.bfloat16}[dtype]

    def like(length: int) -> Any:
        return torch.zeros(length, dtype=kind, device=device)

    whole, part = like(count), count // ranks
    if op == "all_reduce":
        call = lambda: dist.all_reduce(whole, group=group)  # noqa: E731
        return Exchange(
            call, lambda: _checked(whole, call, whole, _addend(rank, count, whole), _sum(ranks, count, whole))
        )
    if op == "broadcast":
        call = lambda: dist.broadcast(whole, src=0, group=group)  # noqa: E731
        return Exchange(call, lambda: _checked(whole, call, whole, _own(rank, count, whole), _own(0, count, whole)))
    if op == "all_gather":
        mine = like(part)
        call = lambda: dist.all_gather_into_tensor(whole, mine, group=group)  # noqa: E731
        wanted = lambda: torch.cat([_own(other, part, mine) for other in range(ranks)])  # noqa: E731
        return Exchange(call, lambda: _checked(mine, call, whole, _own(rank, part, mine), wanted()))
    if op == "reduce_scatter":
        mine = like(part)
        call = lambda: dist.reduce_scatter_tensor(mine, whole, group=group)  # noqa: E731
        share = slice(rank * part, (rank + 1) * part)
        return Exchange(
            call, lambda: _checked(whole, call, mine, _addend(rank, count, whole), _sum(ranks, count, whole)[share])
        )
    out = like(count)
    if op == "all_to_all":
        call = lambda: dist.all_to_all_single(out, whole, group=group)  # noqa: E731
        share = slice(rank * part, (rank + 1) * part)
        wanted = lambda: torch.cat([_own(other, count, whole)[share] for other in range(ranks)])  # noqa: E731
        return Exchange(call, lambda: _checked(whole, call, out, _own(rank, count, whole), wanted()))
    before = (rank - 1) % ranks

    def ring() -> None:
        there = dist.P2POp(dist.isend, whole, (rank + 1) % ranks, group=group)
        here = dist.P2POp(dist.irecv, out, before, group=group)
        for work in dist.batch_isend_irecv([there, here]):
            work.wait()

    return Exchange(ring, lambda: _checked(whole, ring, out, _own(rank, count, whole), _own(before, count, whole)))


def _checked(given: Any, call: Callable[[], Any], received: Any, value: Any, wanted: Any) -> int:
    """Fill what is given, poison what is received, run, count what differs."""
    import torch

    if received is not given:
        received.fill_(-1)
    given.copy_(value)
    call()
    if given.is_cuda:
        torch.cuda.synchronize()
    return int((received != wanted).sum())


def _places(count: int, like: Any) -> Any:
    import torch

    return torch.arange(count, device=like.device, dtype=torch.int32)


def _own(rank: int, count: int, like: Any) -> Any:
    """What a rank hands on: whole numbers below 251, so that bf16 holds them exactly."""
    return ((_places(count, like) * 7 + rank * 31) % 251).to(like.dtype)


def _addend(rank: int, count: int, like: Any) -> Any:
    """What a rank adds: so small that the sum over 32 ranks is still exact in bf16."""
    return (_places(count, like) % 3 + rank % 4).to(like.dtype)


def _sum(ranks: int, count: int, like: Any) -> Any:
    return (_places(count, like) % 3 * ranks + sum(rank % 4 for rank in range(ranks))).to(like.dtype)


Prepared = Dict[str, Exchange]
