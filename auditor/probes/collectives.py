"""How fast the GPUs of one server exchange data, as training does it: NCCL through torch.distributed.

algbw is bytes over time as a program sees it, busbw is comparable with the links' speed (nccl-tests' definitions).
8 MiB to 256 MiB and the documents' 400 MB of float32 for all-reduce; in standard every operation from 1 KiB to
8 GiB, float32 and bf16, over 2, 4, 8 of the GPUs. Two calls to warm up, then at least five, the slowest rank's mean.
Every operation's result is checked element by element. Without a GPU: gloo between two processes.
"""

import datetime
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from auditor.records import Reading

from .measuring import exchange, laps, multicast, spread

KEY = "collectives"
SCOPE = "all"
DEVICES = ("cuda", "cpu")
NEEDS = ("torch",)
METHOD = 1
ORDER = 50
SECONDS = {"quick": 25.0, "standard": 120.0, "soak": 120.0}

MIB = 1 << 20
DOCUMENTED = tuple(MIB << power for power in range(3, 9))  # 8 MiB ... 256 MiB
SNIPPET = 400_000_000  # 100 million float32, the documents' own test
_WIDE = tuple(1024 << (2 * power) for power in range(12)) + (8 << 30,)  # 1 KiB ... 4 GiB, 8 GiB
_CHECK_AT = 16 * MIB
_AIM_SECONDS = 0.05
_LOAD_SECONDS = 1.0
STABLE = 0.05
"""Single exchanges of some ms jitter more than products: healthy servers' repeats stay within 2-3 %."""
STABLE_ON_CPU = 0.25
"""gloo's two processes share the CPUs with everything else."""


class Part(NamedTuple):
    """One figure to take."""

    op: str
    ranks: int
    dtype: str
    bytes: int

    @property
    def name(self) -> str:
        """As it stands among what the budget cut."""
        return f"{self.op} {self.dtype} {self.bytes} bytes, {self.ranks} ranks"


def applies(context: Any) -> Optional[str]:
    """One GPU has nobody to talk to."""
    return "one GPU: nothing to exchange" if context.device == "cuda" and len(context.gpus) < 2 else None


def plan(profile: str, ranks: int, device: str) -> List[Part]:
    """All figures, the documents' ones first."""
    parts = [Part("all_reduce", ranks, "float32", size) for size in (SNIPPET, *reversed(DOCUMENTED))]
    if device == "cpu":
        return parts
    others = [op for op in exchange.OPS if op != "all_reduce"]
    parts += [Part(op, ranks, "float32", 256 * MIB) for op in others]
    parts.append(Part("all_reduce", ranks, "bf16", 256 * MIB))
    if profile == "quick":
        return parts
    groups = [ranks, *(size for size in (2, 4, 8) if size < ranks)]
    for size in sorted({*DOCUMENTED, *_WIDE}, key=lambda size: abs(size - 256 * MIB)):
        for group in groups:
            parts += [Part(op, group, dtype, size) for op in exchange.OPS for dtype in exchange.ITEM]
    parts += [Part("all_reduce", group, "float32", SNIPPET) for group in groups[1:]]
    return list(dict.fromkeys(parts))


def run(context: Any) -> Iterator[Reading]:
    """One process group over all GPUs; rank 0 decides what the budget allows and tells the figures."""
    import torch.distributed as dist

    log = _listen(context)
    store = dist.FileStore(context.rendezvous, context.ranks)
    # The engine's deadline comes first: it says timed_out and ends the whole job; this only bounds a leftover.
    limit = datetime.timedelta(seconds=context.remaining() + 120)
    backend = "nccl" if context.device == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=context.rank, world_size=context.ranks, timeout=limit)
    try:
        job = _Job(context, dist, dist.PrefixStore("audit", store))
        if context.rank == 0:
            yield from _about(context, backend)
        yield from job.run()
        if context.device == "cuda":
            yield from job.use()
    finally:
        dist.destroy_process_group()
    if context.rank == 0 and log is not None:
        yield from _heard(context, log)


class _Job:
    """This rank's side of the exchange."""

    def __init__(self, context: Any, dist: Any, store: Any) -> None:
        self.context, self.dist, self.store = context, dist, store
        self.parts = plan(context.profile, context.ranks, context.device)
        self.groups: Dict[int, Any] = {
            ranks: dist.group.WORLD if ranks == context.ranks else dist.new_group(list(range(ranks)))
            for ranks in sorted({part.ranks for part in self.parts})
        }
        self.checked: Dict[Tuple[str, int, str], bool] = {}

    def run(self) -> Iterator[Reading]:
        """All parts that fit into memory and budget."""
        for number, part in enumerate(self.parts):
            if not self._agreed(number, part):
                self.context.cut(part.name)
            elif self.context.rank < part.ranks:
                yield from self._part(part)

    def _agreed(self, number: int, part: Part) -> bool:
        """Rank 0's word on whether there is time and memory for a part; without it ranks would wait for each other."""
        key = f"part{number}"
        if self.context.rank == 0:
            self.store.set(key, "go" if self._affordable(part) else "cut")
        return bool(self.store.get(key) == b"go")

    def _affordable(self, part: Part) -> bool:
        if self.context.remaining() < 1.5 + _LOAD_SECONDS + part.bytes / 2e9:
            return False
        if self.context.device != "cuda":
            return True
        import torch

        torch.cuda.empty_cache()
        return bool(exchange.memory(part.op, part.bytes) < 0.8 * torch.cuda.mem_get_info()[0])

    def _part(self, part: Part) -> Iterator[Reading]:
        context = self.context
        what = (part.op, part.ranks, part.dtype)
        if what not in self.checked:
            self.checked[what] = True
            wrong = self._check(part)
            if context.rank == 0:
                yield context.reading("errors_total", wrong, op=part.op, ranks=part.ranks, dtype=part.dtype)
        count = exchange.elements(part.bytes, part.dtype, part.ranks)
        ready = self._prepare(part, count)
        moved = count * exchange.ITEM[part.dtype]
        calls = self._warm(part, ready)
        for attempt in (1, 2):
            rate = self._timed(part, ready, calls, moved)
            if self._slowest(part.ranks, float(rate.stable is False)) == 0 or attempt == 2:
                break
        if context.rank == 0:
            conditions: Dict[str, Any] = {
                "op": part.op, "ranks": part.ranks, "dtype": part.dtype, "bytes": part.bytes,
            }  # fmt: skip
            facts = rate.spread, rate.n, rate.stable
            yield context.reading("algbw_bytes_per_second", rate.value, *facts, **conditions)
            bus = rate.value * exchange.bus_factor(part.op, part.ranks)
            yield context.reading("busbw_bytes_per_second", bus, *facts, **conditions)

    def _prepare(self, part: Part, count: int) -> exchange.Exchange:
        context = self.context
        group = self.groups[part.ranks]
        return exchange.prepare(part.op, group, context.rank, part.ranks, count, part.dtype, context.device)

    def _check(self, part: Part) -> int:
        """Wrong elements over all ranks, at a size that fills every channel."""
        count = exchange.elements(min(part.bytes, _CHECK_AT), part.dtype, part.ranks)
        wrong = exchange.check(self._prepare(part, count))
        return int(self._over(part.ranks, float(wrong), self.dist.ReduceOp.SUM))

    def _warm(self, part: Part, ready: exchange.Exchange) -> int:
        """How many calls fill the window: the same number on every rank."""
        ends = laps.run(ready.call, self.context.device, calls=3)
        seconds = self._slowest(part.ranks, ends.calls(2, 3).device_seconds)
        least = 5 if self.context.device == "cuda" else 3  # gloo takes most of a second where NCCL takes milliseconds
        return max(least, min(50, int(_AIM_SECONDS / max(seconds, 1e-6))))

    def _timed(self, part: Part, ready: exchange.Exchange, calls: int, moved: int) -> spread.Repeats:
        ends = laps.run(ready.call, self.context.device, calls=calls + 1)
        times = [after - before for before, after in zip(ends.device[1:], ends.device[2:])]
        limit = STABLE if self.context.device == "cuda" else STABLE_ON_CPU
        each = spread.of([moved / seconds for seconds in times], limit)
        return each._replace(value=moved / self._slowest(part.ranks, sum(times) / len(times)))

    def _slowest(self, ranks: int, value: float) -> float:
        return self._over(ranks, value, self.dist.ReduceOp.MAX)

    def _over(self, ranks: int, value: float, op: Any) -> float:
        import torch

        # float32 on purpose: some backends lack float64; six digits are enough for a time.
        tensor = torch.tensor([value], dtype=torch.float32, device=self.context.device)
        self.dist.all_reduce(tensor, op=op, group=self.groups[ranks])
        return float(tensor.item())

    def use(self) -> Iterator[Reading]:
        """One second of the largest all-reduce with NVML sampled: what the links and the bus carry meanwhile."""
        context = self.context
        part = Part("all_reduce", context.ranks, "float32", SNIPPET)
        ready = self._prepare(part, exchange.elements(part.bytes, part.dtype, part.ranks))
        seconds = self._slowest(
            part.ranks, laps.run(ready.call, context.device, calls=3).calls(1, 3).device_seconds / 2
        )
        calls = max(5, int(_LOAD_SECONDS / seconds))
        with context.sampling() as samples:
            laps.run(ready.call, context.device, calls=calls)
        yield from _use(context, samples.rows)


def _use(context: Any, rows: List[Any]) -> Iterator[Reading]:
    subject, driver = f"gpu{context.gpu.index}", "driver/nvml"
    links = [(row.t, row.nvlink_bytes) for row in rows if row.nvlink_bytes is not None]
    if len(links) > 1 and links[-1][0] > links[0][0]:
        rate = (links[-1][1] - links[0][1]) / (links[-1][0] - links[0][0])
        yield context.reading("nvlink_bytes_per_second", rate, source=driver, subject=subject)
    for direction in ("rx", "tx"):
        values = [getattr(row, "pcie_" + direction) for row in rows]
        known = [value for value in values if value is not None]
        if known:
            mean = sum(known) / len(known)
            yield context.reading("pcie_bytes_per_second", mean, source=driver, subject=subject, direction=direction)
    use = [row.memory_use_ratio for row in rows if row.memory_use_ratio is not None]
    if use:
        yield context.reading("memory_use_ratio", sum(use) / len(use), source=driver, subject=subject)


def _about(context: Any, backend: str) -> Iterator[Reading]:
    yield context.reading("backend", backend)
    settings = " ".join(f"{name}={os.environ[name]}" for name in sorted(os.environ) if name.startswith("NCCL_"))
    if backend == "nccl":
        import torch

        yield context.reading("nccl_version", ".".join(str(part) for part in torch.cuda.nccl.version()))
        yield context.reading("settings", settings)
        yield context.reading("nvls", multicast.usable(os.environ))


def _listen(context: Any) -> Optional[str]:
    """Let NCCL write its choice of paths into our own folder, unless somebody already set where it writes."""
    if context.device != "cuda" or context.rank != 0 or "NCCL_DEBUG" in os.environ:
        return None
    path = os.path.join(context.directory, "nccl.log")
    os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,GRAPH,ENV", NCCL_DEBUG_FILE=path)
    return path


def _heard(context: Any, path: str) -> Iterator[Reading]:
    for name in ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"):
        os.environ.pop(name, None)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(200_000)
    except OSError:
        return
    context.attach("nccl-init.txt", text)
    said = multicast.heard(text)
    if said:
        yield context.reading("paths", said)
