"""A small GPT trained for real: bf16 weights, AdamW with float32 masters, torch's DistributedDataParallel.

What the other probes measure one by one, together: tokens a second, step time, the share of the measured
matmul rate that becomes model FLOP (MFU), memory against 2 + 2 + 12 bytes a parameter, a loss that falls, the
speed-up from 1 GPU to all, and what communication costs: the same step with and without the exchange of
gradients. Batches lie on the GPU: no data loading is in it. On the CPU a far smaller model, float32, gloo.
"""

import os
import statistics
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Callable, Dict, Iterator, List, Optional

from auditor.probes.training import gpt
from auditor.probes.training.adamw import MasterAdamW
from auditor.records import Reading

KEY = "training_step"
SCOPE = "all"
DEVICES = ("cuda", "cpu")
NEEDS = ("torch",)
SECONDS = {"quick": 6.0, "standard": 40.0, "soak": 120.0}
METHOD = 1
ORDER = 70
GRACE = 20.0  # a busy host's CPUs take their time for the last steps

WINDOW = {"quick": 1.0, "standard": 4.0, "soak": 20.0}
WARM = {"quick": 0.25, "standard": 2.0, "soak": 2.0}
FIRST_STEPS = 2  # libraries are loaded and buckets are laid out in them
LEAST_STEPS, MOST_STEPS = 8, 2000
SHORT_STEPS = 3  # where eight would take half of the time that is left: a busy host's CPUs
WITHOUT_EXCHANGE = 0.3  # of the window
CONTROL_SECONDS = 1.0  # the period of a GPU's power controller: means over it repeat, single steps do not
BATCHES = 4
RATE = 3e-4


def applies(context: Any) -> Optional[str]:
    """Everywhere; a single GPU trains without exchange."""
    return None


def run(context: Any) -> Iterator[Reading]:
    """Train on 1 rank, then on 2, 4 and 8 as far as there are (quick: on 1 and on all)."""
    import torch

    bench = Bench(torch, context)
    alone: Optional[float] = None
    with bench.distributed():
        for ranks in counts(context.ranks, context.profile):
            context.barrier()
            with context.sampling() as samples:
                with gpt.attention(torch):
                    outcome = bench.train(ranks) if context.rank < ranks else None
                context.barrier()  # who is left out still samples: an idle GPU beside busy ones is the baseline
            if outcome is None:
                continue
            if context.rank == 0:
                alone = outcome.tokens_per_second if ranks == 1 else alone
                for reading in _of_server(context, bench, outcome, ranks, alone):
                    yield reading
            if ranks == context.ranks:
                for reading in _of_gpu(context, samples):
                    yield reading
    if context.profile == "quick" and context.rank == 0 and context.ranks > 2:
        context.cut("ranks between 1 and %d" % context.ranks)


def counts(ranks: int, profile: str) -> List[int]:
    """How many ranks train, one after the other: powers of two and all; quick: one and all."""
    steps = [1] if profile == "quick" else [n for n in (1, 2, 4, 8) if n < ranks]
    return sorted(set(steps + [ranks]))


class Outcome:
    """One training run of one rank: step seconds, losses, peak bytes, and step seconds without the exchange."""

    def __init__(self, seconds: List[float], losses: List[float], peak: Optional[int], quiet: List[float], tokens: int):
        self.seconds, self.losses, self.peak, self.quiet = seconds, losses, peak, quiet
        self.tokens_per_second = tokens * len(seconds) / sum(seconds)


class Bench:
    """The model's shape, the device and the process groups; models live only inside `train`."""

    def __init__(self, torch: Any, context: Any) -> None:
        self.torch, self.context = torch, context
        self.cuda = context.device == "cuda"
        self.device = torch.device("cuda", torch.cuda.current_device()) if self.cuda else torch.device("cpu")
        self.shape = gpt.shape_for(torch.cuda.mem_get_info()[0]) if self.cuda else gpt.TINY
        self.dtype = torch.bfloat16 if self.cuda else torch.float32
        self.groups: Dict[int, Any] = {}

    @contextmanager
    def distributed(self) -> Iterator[None]:
        """Join the other ranks; a rank that is gone ends the wait after a minute, not after torch's ten."""
        if self.context.ranks == 1:
            yield
            return
        dist = self.torch.distributed
        store = dist.FileStore(str(self.context.rendezvous), self.context.ranks)
        dist.init_process_group(
            "nccl" if self.cuda else "gloo",
            store=store,
            rank=self.context.rank,
            world_size=self.context.ranks,
            timeout=timedelta(seconds=60),
        )
        try:
            for ranks in counts(self.context.ranks, self.context.profile)[:-1]:
                self.groups[ranks] = dist.new_group(list(range(ranks))) if ranks > 1 else None
            self.groups[self.context.ranks] = dist.group.WORLD
            yield
        finally:
            dist.destroy_process_group()

    def train(self, ranks: int) -> Outcome:
        """Warm up, then train for the window; then the same steps without the exchange of gradients."""
        torch, context = self.torch, self.context
        torch.manual_seed(context.seed % 2**31)
        if not self.cuda:
            torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // ranks))
        model = gpt.build(torch, self.shape, self.device, self.dtype)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer = MasterAdamW(torch, list(model.parameters()), RATE)
        data = gpt.batches(torch, self.shape, self.device, context.seed % 2**31 + context.rank, BATCHES)
        runner: Any = model
        silence: Optional[Callable[[], Any]] = None
        if ranks > 1:
            runner = torch.nn.parallel.DistributedDataParallel(
                model,
                device_ids=[self.device.index] if self.cuda else None,
                process_group=self.groups[ranks],
                gradient_as_bucket_view=True,
                broadcast_buffers=False,
            )
            silence = runner.no_sync
        losses: List[Any] = []

        def step() -> None:
            for parameter in model.parameters():
                parameter.grad.zero_()
            loss = runner(data[len(losses) % BATCHES])
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())

        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        for _ in range(FIRST_STEPS):
            step()
        trial = statistics.median(self.timed(step, 2))
        self.timed(step, self.agreed(WARM[context.profile], trial, ranks))
        number = self.agreed(WINDOW[context.profile], trial, ranks)
        seconds = self.timed(step, number)
        peak = torch.cuda.max_memory_allocated() if self.cuda else None
        kept = [float(loss) for loss in losses]
        quiet: List[float] = []
        if silence is not None:
            with silence():
                step()
                quiet = self.timed(step, max(4, int(number * WITHOUT_EXCHANGE)))
        return Outcome(seconds, kept, peak, quiet, self.shape.tokens * ranks)

    def agreed(self, window: float, trial: float, ranks: int) -> int:
        """How many steps fill a window, or a quarter of the time that is left: the same number on every rank."""
        # A CPU has no power controller to wait for.
        left = self.context.remaining()
        seconds = min(window if self.cuda else 0.4 * window, left / 4)
        least = LEAST_STEPS if LEAST_STEPS * trial < left / 2 else SHORT_STEPS
        number: int = max(least, min(MOST_STEPS, round(seconds / max(trial, 1e-6))))
        if ranks > 1:
            fewest = self.torch.tensor([number], device=self.device)
            self.torch.distributed.all_reduce(fewest, self.torch.distributed.ReduceOp.MIN, self.groups[ranks])
            number = int(fewest)
        return number

    def timed(self, step: Callable[[], None], number: int) -> List[float]:
        """Seconds of each of `number` steps: by events on a GPU, by the clock on the CPU."""
        if not self.cuda:
            stamps = [time.perf_counter()]
            for _ in range(number):
                step()
                stamps.append(time.perf_counter())
            return [later - earlier for earlier, later in zip(stamps, stamps[1:])]
        marks = [self.torch.cuda.Event(enable_timing=True) for _ in range(number + 1)]
        marks[0].record()
        for mark in marks[1:]:
            step()
            mark.record()
        self.torch.cuda.synchronize()
        return [earlier.elapsed_time(later) / 1e3 for earlier, later in zip(marks, marks[1:])]


def _of_server(context: Any, bench: Bench, outcome: Outcome, ranks: int, alone: Optional[float]) -> Iterator[Reading]:
    shape, seconds = bench.shape, sorted(outcome.seconds)
    what = {"ranks": ranks, "parameters": shape.parameters}
    n = len(seconds)
    periods = period_means(outcome.seconds)
    spread = statistics.pstdev(periods) / statistics.fmean(periods) if len(periods) > 1 else None
    yield context.reading("tokens_per_second", outcome.tokens_per_second, spread, n, **what)
    yield context.reading("variation_ratio", statistics.pstdev(seconds) / statistics.fmean(seconds), n=n, **what)
    if spread is not None:
        yield context.reading("mean_variation_ratio", spread, n=len(periods), **what)
    for stat, share in (("p50", 0.5), ("p99", 0.99)):
        yield context.reading("seconds", _percentile(seconds, share), n=n, stat=stat, **what)
    model_rate = shape.flops * ranks / statistics.fmean(seconds)
    yield context.reading("model_flops_per_second", model_rate, spread, n, **what)
    sustained = matmul_rate(context, ranks, bench.cuda)
    if sustained:
        yield context.reading("mfu_ratio", model_rate / sustained, **what)
    if outcome.peak is not None:
        yield context.reading("memory_bytes", outcome.peak, **what)
        yield context.reading("memory_estimate_bytes", shape.memory_bytes(), **what)
    elif ranks == 1:
        context.cut("memory: the CPU has no allocator to ask")
    tail = outcome.losses[-BATCHES:]
    yield context.reading("loss", statistics.fmean(outcome.losses[:1]), at="first", **what)
    yield context.reading("loss", statistics.fmean(tail), at="last", **what)
    if ranks > 1 and alone:
        yield context.reading("speedup_ratio", outcome.tokens_per_second / alone, **what)
    if outcome.quiet:
        share = 1.0 - statistics.fmean(outcome.quiet) / statistics.fmean(seconds)
        yield context.reading("communication_ratio", max(0.0, share), **what)


def period_means(seconds: List[float]) -> List[float]:
    """The mean step of each whole period of the power controller."""
    means: List[float] = []
    period: List[float] = []
    for step in seconds:
        period.append(step)
        if sum(period) >= 0.999 * CONTROL_SECONDS:
            means.append(statistics.fmean(period))
            period = []
    return means


def matmul_rate(context: Any, ranks: int, cuda: bool) -> Optional[float]:
    """FLOP/s that `ranks` devices sustain in a plain product, as the matmul probe measured it in this audit."""
    if not cuda:
        known = context.known("matmul_sustained_flops_per_second", "server", dtype="fp32")
        return float(known) if known else None
    rates = [
        context.known("matmul_sustained_flops_per_second", "gpu%d" % gpu.index, dtype="bf16")
        for gpu in context.gpus[:ranks]
    ]
    return sum(map(float, rates)) if rates and all(rates) else None


def _of_gpu(context: Any, samples: Any) -> Iterator[Reading]:
    if context.gpu is None:
        return
    subject, rows = context.gpu.subject, _loaded(samples.rows)
    used = [row.memory_use_ratio for row in rows if row.memory_use_ratio is not None]
    if used:
        yield context.reading(
            "memory_use_ratio", statistics.fmean(used), n=len(used), subject=subject, source="driver/nvml"
        )
    for direction, values in (("rx", [r.pcie_rx for r in rows]), ("tx", [r.pcie_tx for r in rows])):
        known = [value for value in values if value is not None]
        if known:
            yield context.reading(
                "pcie_bytes_per_second",
                statistics.fmean(known),
                n=len(known),
                subject=subject,
                source="driver/nvml",
                direction=direction,
            )
    rate, capacity = _link_rate(rows), link_capacity(context, subject)
    if rate is not None and capacity:
        yield context.reading("nvlink_use_ratio", rate / capacity, subject=subject, source="driver/nvml")


def _loaded(rows: Any) -> List[Any]:
    """The samples under load: the GPU at work, not the building of the model around it."""
    busy = [row for row in rows if row.gpu_use_ratio is not None and row.gpu_use_ratio >= 0.5]
    return busy or list(rows)


def _link_rate(rows: Any) -> Optional[float]:
    """Bytes a second over all NVLinks, both ways, from the counter's first and last sample under load."""
    known = [(row.t, row.nvlink_bytes) for row in rows if row.nvlink_bytes is not None]
    if len(known) < 2 or known[-1][0] <= known[0][0] or known[-1][1] < known[0][1]:
        return None
    return float(known[-1][1] - known[0][1]) / float(known[-1][0] - known[0][0])


def link_capacity(context: Any, gpu: str) -> Optional[float]:
    """Bytes a second that this GPU's active NVLinks carry, both ways together."""
    links = context.known("topology_nvlinks_active_total", gpu)
    each = context.known("topology_link_bytes_per_second", "%s/link0" % gpu)
    return 2.0 * float(links) * float(each) if links and each else None


def _percentile(ordered: List[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
