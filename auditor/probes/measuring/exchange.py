"""The collective operations as calls on given buffers, with the patterns that show a wrong result.

Bytes are counted as nccl-tests counts them: the larger of what one rank gives and receives. busbw is algbw times a
factor that makes it comparable with a link's speed whatever the number of ranks (nccl-tests, doc/PERFORMANCE.md).
"""

from typing import Any, Callable, Dict, NamedTuple

OPS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv")
ITEM = {"float32": 4, "bf16": 2}


class Exchange(NamedTuple):
    """One operation on its buffers: what is given and received, the call, and what values to give and to expect."""

    given: Any
    received: Any
    call: Callable[[], Any]
    value: Callable[[], Any]
    wanted: Callable[[], Any]


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

    kind = {"float32": torch.float32, "bf16": torch.bfloat16}[dtype]
    whole = torch.zeros(count, dtype=kind, device=device)
    return _BUILD[op](_Party(group, rank, ranks), whole)


def check(exchange: Exchange) -> int:
    """Fill what is given, poison what is received, run once, and count this rank's wrong elements."""
    import torch

    if exchange.received is not exchange.given:
        exchange.received.fill_(-1)
    exchange.given.copy_(exchange.value())
    exchange.call()
    if exchange.given.is_cuda:
        torch.cuda.synchronize()
    return int((exchange.received != exchange.wanted()).sum())


class _Party(NamedTuple):
    group: Any
    rank: int
    ranks: int

    def share(self, whole: Any) -> Any:
        """This rank's part of a tensor."""
        part = whole.numel() // self.ranks
        return whole[self.rank * part : (self.rank + 1) * part]

    def part_like(self, whole: Any) -> Any:
        """A fresh tensor of one rank's part."""
        return whole.new_zeros(whole.numel() // self.ranks)

    def all_parts(self, of: Callable[[int], Any]) -> Any:
        """What each rank has, one after the other."""
        import torch

        return torch.cat([of(rank) for rank in range(self.ranks)])


def _all_reduce(party: _Party, whole: Any) -> Exchange:
    import torch.distributed as dist

    return Exchange(
        whole,
        whole,
        lambda: dist.all_reduce(whole, group=party.group),
        lambda: _addend(party.rank, whole),
        lambda: _sum(party.ranks, whole),
    )


def _broadcast(party: _Party, whole: Any) -> Exchange:
    import torch.distributed as dist

    return Exchange(
        whole,
        whole,
        lambda: dist.broadcast(whole, src=0, group=party.group),
        lambda: _own(party.rank, whole),
        lambda: _own(0, whole),
    )


def _all_gather(party: _Party, whole: Any) -> Exchange:
    import torch.distributed as dist

    mine = party.part_like(whole)
    return Exchange(
        mine,
        whole,
        lambda: dist.all_gather_into_tensor(whole, mine, group=party.group),
        lambda: _own(party.rank, mine),
        lambda: party.all_parts(lambda rank: _own(rank, mine)),
    )


def _reduce_scatter(party: _Party, whole: Any) -> Exchange:
    import torch.distributed as dist

    mine = party.part_like(whole)
    return Exchange(
        whole,
        mine,
        lambda: dist.reduce_scatter_tensor(mine, whole, group=party.group),
        lambda: _addend(party.rank, whole),
        lambda: party.share(_sum(party.ranks, whole)),
    )


def _all_to_all(party: _Party, whole: Any) -> Exchange:
    import torch
    import torch.distributed as dist

    out = torch.zeros_like(whole)
    return Exchange(
        whole,
        out,
        lambda: dist.all_to_all_single(out, whole, group=party.group),
        lambda: _own(party.rank, whole),
        lambda: party.all_parts(lambda rank: party.share(_own(rank, whole))),
    )


def _send_recv(party: _Party, whole: Any) -> Exchange:
    """A ring: every rank sends to the next and receives from the one before."""
    import torch
    import torch.distributed as dist

    out, before, after = torch.zeros_like(whole), (party.rank - 1) % party.ranks, (party.rank + 1) % party.ranks

    def ring() -> None:
        there = dist.P2POp(dist.isend, whole, after, group=party.group)
        here = dist.P2POp(dist.irecv, out, before, group=party.group)
        for work in dist.batch_isend_irecv([there, here]):
            work.wait()

    return Exchange(whole, out, ring, lambda: _own(party.rank, whole), lambda: _own(before, whole))


_BUILD: Dict[str, Callable[[_Party, Any], Exchange]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "broadcast": _broadcast,
    "all_to_all": _all_to_all,
    "send_recv": _send_recv,
}


def _places(like: Any) -> Any:
    import torch

    return torch.arange(like.numel(), device=like.device, dtype=torch.int32)


def _own(rank: int, like: Any) -> Any:
    """What a rank hands on: whole numbers below 251, so that bf16 holds them exactly."""
    return ((_places(like) * 7 + rank * 31) % 251).to(like.dtype)


def _addend(rank: int, like: Any) -> Any:
    """What a rank adds: so small that the sum over 32 ranks is still exact in bf16."""
    return (_places(like) % 3 + rank % 4).to(like.dtype)


def _sum(ranks: int, like: Any) -> Any:
    return (_places(like) % 3 * ranks + sum(rank % 4 for rank in range(ranks))).to(like.dtype)
