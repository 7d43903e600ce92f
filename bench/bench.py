"""Each probe against a long careful reference on the same GPU in the same run; prints the table of docs/benchmarks.md.

make bench            all rows (about 8 minutes on one H200)
make bench ROWS=memory,host_copy
"""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from auditor.probes import host_copy, l2_cache, latency, memory_bandwidth, memory_capacity, time_slicing
from auditor.probes.measuring import products, rates, spread
from bench import reference
from bench.desk import Desk

SEED = 20261201
GPU_SPEC = {"NVIDIA H200": 4.8e12}


@dataclass
class Row:
    """One line of the table."""

    what: str
    probe: str
    reference: str
    deviation: str
    repeats: str
    seconds: str


def percent(value: float, of: float) -> str:
    """The deviation, signed."""
    return f"{(value / of - 1) * 100:+.2f} %"


def cv(values: list[float]) -> str:
    """Relative spread of repeats."""
    each = spread.of(values)
    return "–" if each.spread is None else f"CV {each.spread * 100:.2f} % of {each.n}"


def sustained(dtype: str, runs: int = 10, seconds: float = 20.0) -> Iterator[Row]:
    """The probe's 1.25 s, half of the runs before and half after the reference's 20 s, all from 2 s of rest."""

    def probe(times: int) -> list[float]:
        with products.precision(dtype):
            product = products.make(dtype, 8192, 8192, 8192, "cuda", SEED)
            for _ in range(3):
                product.call()
            found = []
            for _ in range(times):
                torch.cuda.synchronize()
                time.sleep(2.0)
                found.append(rates.sustained(product, "cuda").rate / 1e12)
            return found

    before = probe(runs // 2)
    with products.precision(dtype):
        long = reference.long_rate(dtype, 8192, seconds)["mean"]
    values = before + probe(runs - runs // 2)
    mean = math.fsum(values) / len(values)
    worst = max(values, key=lambda value: abs(value / long - 1))
    yield Row(
        f"sustained {dtype} 8192³",
        f"{mean:.1f} TFLOPS",
        f"{long:.1f} TFLOPS over {seconds:.0f} s",
        f"{percent(mean, long)}, worst {percent(worst, long)}",
        cv(values),
        "1.25 s of load",
    )


def boost(dtype: str = "bf16", runs: int = 10) -> Iterator[Row]:
    """Calls 2-4 after 0.35 s of rest; the first start after the set-up is warm-up."""
    product = products.make(dtype, 8192, 8192, 8192, "cuda", SEED)
    rates.boost(product, "cuda")
    values = []
    for _ in range(runs):
        torch.cuda.synchronize()
        time.sleep(0.35)
        values.append(rates.boost(product, "cuda") / 1e12)
    mean = math.fsum(values) / len(values)
    yield Row(f"boost {dtype} 8192³", f"{mean:.1f} TFLOPS", "–", "–", cv(values), "0.01 s of load")


def per_clock() -> Iterator[Row]:
    """randn and zeros, cold (2 s of rest) and hot (after 3 s of load): the four must agree."""
    desk = Desk("matmul")
    for dtype in ("bf16", "fp8", "fp32"):
        found = {}
        hertz = {}
        for data, scale in (("randn", 1.0), ("zeros", 0.0)):
            with products.precision(dtype):
                product = products.make(dtype, 8192, 8192, 8192, "cuda", SEED, scale)
                product.call()
                torch.cuda.synchronize()
                time.sleep(2.0)
                for state in ("cold", "hot"):
                    if state == "hot":
                        rates.laps.run(product.call, "cuda", seconds=3.0)
                    counted = rates.per_clock(desk.kernels, product)
                    found[data, state] = spread.median(counted.per_clock)
                    hertz[data, state] = counted.hertz
        values = list(found.values())
        middle = spread.median(values)
        yield Row(
            f"per clock {dtype} 8192³",
            f"{found['randn', 'cold']:.0f} FLOP/clock/SM at {hertz['randn', 'cold'] / 1e6:.0f} MHz counted",
            ", ".join(f"{' '.join(key)} {value:.0f}" for key, value in found.items()),
            f"largest {max(abs(value / middle - 1) for value in values) * 100:.2f} % from the median",
            "4 states",
            "0.12 s of load",
        )


def memory() -> Iterator[Row]:
    """All four operations; the reference runs 2 s each with 8 GiB buffers."""
    yield from _bandwidth(memory_bandwidth, reference.memory, "op", "device memory")


def host() -> Iterator[Row]:
    """Up and down; the reference runs 3 s each with 1 GiB of torch's pinned memory."""
    yield from _bandwidth(host_copy, reference.host, "direction", "pinned")


def _bandwidth(module: Any, long: Callable[[], dict[str, float]], key: str, name: str) -> Iterator[Row]:
    began = time.perf_counter()
    readings = [row for row in module.run(Desk(module.KEY)) if row.metric.endswith("_bytes_per_second")]
    seconds = time.perf_counter() - began
    torch.cuda.empty_cache()
    yardstick = long()
    torch.cuda.empty_cache()
    spec = GPU_SPEC.get(torch.cuda.get_device_name())
    for row in readings:
        if row.conditions.get("memory") == "pageable":
            continue
        which, value = str(row.conditions[key]), float(row.value or 0)
        other = yardstick.get(which)
        of_spec = f" = {value / spec * 100:.1f} % of spec" if spec and module is memory_bandwidth else ""
        yield Row(
            f"{name} {which}",
            f"{value / 1e9:.1f} GB/s{of_spec}",
            f"{other:.1f} GB/s" if other else "–",
            percent(value / 1e9, other) if other else "–",
            f"CV {(row.spread or 0) * 100:.2f} % of {row.n}",
            f"whole probe {seconds:.2f} s",
        )


def capacity() -> Iterator[Row]:
    """All memory written and verified."""
    began = time.perf_counter()
    readings = {row.metric: row.value for row in memory_capacity.run(Desk("memory_capacity"))}
    seconds = time.perf_counter() - began
    size, free = float(readings["memory_capacity_bytes"]), float(readings["memory_capacity_free_bytes"])  # type: ignore[arg-type]
    yield Row(
        "memory written and verified",
        f"{size / 2**30:.1f} GiB, {readings['memory_capacity_errors_total']} errors",
        f"{free / 2**30:.1f} GiB free",
        f"{size / free * 100:.1f} % of it",
        "1",
        f"{seconds:.2f} s",
    )


def cache() -> Iterator[Row]:
    """The knee against what CUDA reports."""
    began = time.perf_counter()
    readings = list(l2_cache.run(Desk("l2_cache", "standard")))
    seconds = time.perf_counter() - began
    reported = torch.cuda.get_device_properties(0).L2_cache_size
    steps = ", ".join(
        f"{int(row.conditions['bytes']) >> 20}: {float(row.value or 0) * 1e9:.0f}" for row in readings[1:]
    )
    knee = float(readings[0].value or 0)
    yield Row(
        "second-level cache",
        f"knee {knee / 2**20:.0f} MiB",
        f"{reported / 2**20:.0f} MiB reported",
        f"MiB: ns {steps}",
        "1",
        f"{seconds:.2f} s",
    )


def launches() -> Iterator[Row]:
    """Launch and synchronize by the host's clock."""
    began = time.perf_counter()
    readings = [float(row.value or 0) * 1e6 for row in latency.run(Desk("latency"))]
    seconds = time.perf_counter() - began
    yield Row(
        "launch + synchronize",
        "p50 {:.1f}, p99 {:.1f}, p99.9 {:.1f}, max {:.1f} µs".format(*readings),
        "–",
        "–",
        "10,000",
        f"{seconds:.2f} s",
    )


def gaps(runs: int = 20) -> Iterator[Row]:
    """No false alarm alone; found every time with a second process of ours multiplying on the same GPU."""
    desk = Desk("time_slicing")

    def look() -> list[tuple[int, float, float]]:
        return [time_slicing.watch(desk.kernels, time_slicing.WATCH_SECONDS) for _ in range(runs)]

    alone = look()
    argv = [sys.executable, "-m", "bench.reference", "120"]
    root = Path(__file__).resolve().parent.parent
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
    ) as tenant:
        try:
            assert tenant.stdout is not None
            tenant.stdout.readline()
            shared = look()
        finally:
            tenant.terminate()
    for name, found in (("alone", alone), ("with a second process", shared)):
        hits = sum(1 for count, _, _ in found if count)
        yield Row(
            f"time slicing, {name}",
            f"{hits} of {runs} runs with gaps",
            f"gaps {min(f[0] for f in found)}–{max(f[0] for f in found)}",
            f"largest {max(f[1] for f in found) * 1e3:.3f} ms",
            f"{runs}",
            f"{time_slicing.WATCH_SECONDS} s each",
        )


def sampling(runs: int = 5) -> Iterator[Row]:
    """Sustained bf16 with and without the engine's sampler beside it, by turns."""
    import socket
    import threading

    product = products.make("bf16", 8192, 8192, 8192, "cuda", SEED)
    product.call()
    ours, theirs = socket.socketpair()
    code = "import sys; from auditor.probes.engine.watcher import main; main(int(sys.argv[1]))"
    argv = [sys.executable, "-c", code, str(theirs.fileno())]
    root = str(Path(__file__).resolve().parent.parent)
    with (
        ours,
        subprocess.Popen(argv, pass_fds=[theirs.fileno()], cwd=root, env={**os.environ, "PYTHONPATH": root}) as watcher,
    ):
        theirs.close()
        seen: list[int] = []

        def drain() -> None:
            for line in ours.makefile("rb"):
                seen.append(b'"sample"' in line)

        reader = threading.Thread(target=drain, daemon=True)
        reader.start()
        time.sleep(2.0)
        found: dict[bool, list[float]] = {True: [], False: []}
        taken = 0
        for fast in [True, False, False, True] * (-(-runs // 2)):
            ours.sendall(json.dumps({"do": "pace", "fast": [0] if fast else []}).encode() + b"\n")
            time.sleep(2.0)
            before = sum(seen)
            found[fast].append(rates.sustained(product, "cuda").rate / 1e12)
            taken += (sum(seen) - before) * fast
        ours.sendall(b'{"do": "quit"}\n')
        watcher.wait(10)
        ours.shutdown(socket.SHUT_RDWR)
        reader.join(5)
    with_it, without = (spread.of(found[fast]) for fast in (True, False))
    yield Row(
        "sampling's cost, sustained bf16",
        f"{with_it.value:.1f} TFLOPS sampled at {taken / len(found[True]) / 2.25:.0f} Hz",
        f"{without.value:.1f} TFLOPS at 2 Hz",
        percent(with_it.value, without.value),
        f"{cv(found[True])} each",
        "1.25 s of load",
    )


def foreign() -> Iterator[Row]:
    """The specialist tools, where they are on the PATH: their own words, unread."""
    tools = {
        "nvbandwidth": [
            "nvbandwidth",
            "-t",
            "host_to_device_memcpy_ce",
            "device_to_host_memcpy_ce",
            "device_local_copy",
        ],
        "all_reduce_perf": [
            "all_reduce_perf",
            "-b",
            "8M",
            "-e",
            "256M",
            "-f",
            "2",
            "-g",
            str(torch.cuda.device_count()),
        ],
        "gpu_burn": ["gpu_burn", "-tc", "20"],
    }
    for name, argv in tools.items():
        if shutil.which(name) is None:
            yield Row(name, "not on the PATH", "–", "–", "–", "–")
            continue
        began = time.perf_counter()
        done = subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False)
        sys.stderr.write(done.stdout[-4000:])
        yield Row(
            name, f"exit {done.returncode}, output on stderr", "–", "–", "–", f"{time.perf_counter() - began:.1f} s"
        )


ROWS: dict[str, Callable[[], Iterator[Row]]] = {
    "memory": memory,
    "host_copy": host,
    "cache": cache,
    "latency": launches,
    "capacity": capacity,
    "boost": boost,
    "boost_fp64": lambda: boost("fp64"),
    "per_clock": per_clock,
    "time_slicing": gaps,
    **{
        f"sustained_{dtype}": (lambda dtype=dtype: sustained(dtype))
        for dtype in ("bf16", "fp8", "tf32", "fp32", "fp64")
    },
    "sampling": sampling,
    "foreign": foreign,
}


def main() -> int:
    """Measure the rows asked for, print each when it is there, and the table at the end."""
    if not torch.cuda.is_available():
        sys.stderr.write("bench: torch sees no CUDA GPU here; the bench compares figures of a GPU.\n")
        return 2
    wanted = [name for name in os.environ.get("ROWS", "").split(",") if name] or list(ROWS)
    rows: list[Row] = []
    for name in wanted:
        if name not in ROWS:
            sys.stderr.write(f"bench: no row {name!r}; there are {', '.join(ROWS)}\n")
            return 2
        for row in ROWS[name]():
            rows.append(row)
            sys.stderr.write(f"{row}\n")
            sys.stderr.flush()
        torch.cuda.empty_cache()
    head = ["what", "probe", "reference or state", "deviation", "repeats", "time"]
    lines = [head, ["---"] * len(head), *([str(v) for v in asdict(row).values()] for row in rows)]
    print("\n".join("| " + " | ".join(line) + " |" for line in lines))  # noqa: T201
    about = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    print(json.dumps(about))  # noqa: T201
    if "OUT" in os.environ:
        (Path(os.environ["OUT"]) / "bench.json").write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
