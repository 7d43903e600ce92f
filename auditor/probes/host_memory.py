"""Host memory bandwidth by STREAM's method: copy, scale, add, triad over arrays far larger than the caches.

STREAM (McCalpin): float64, each array at least four times the last-level caches, the best of several
passes, bytes counted as the kernel states them (copy and scale 2 streams, add and triad 3), the extra read
that a store may cost not counted. torch's own vectorized loops on all CPUs; first touched by the same
threads that use it, so that memory lies on their NUMA node. Any worker that has torch measures it.
"""

import os
import re
import statistics
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from auditor.probes.engine.every_cpu import every_cpu
from auditor.records import Reading

KEY = "host_memory"
SCOPE = "any"
DEVICES = ("cuda", "cpu")
NEEDS = ("torch",)
SECONDS = {"quick": 1.2, "standard": 10.0, "soak": 20.0}
METHOD = 1
ORDER = 81

STREAMS = {"copy": 2, "scale": 2, "add": 3, "triad": 3}
CACHE_FACTOR = 4
LARGEST_ARRAY = {"quick": 1 << 30, "standard": 4 << 30, "soak": 4 << 30}
SMALLEST_ARRAY = 64 << 20
REPEATS = {"quick": 5, "standard": 20, "soak": 60}


def applies(context: Any) -> Optional[str]:
    """Everywhere with room for three arrays of the smallest size."""
    if available_bytes() < 8 * SMALLEST_ARRAY:
        return "skipped: less than %d MiB of memory are free" % (8 * SMALLEST_ARRAY >> 20)
    return None


def run(context: Any) -> Iterator[Reading]:
    """The four kernels of STREAM, best pass of each."""
    import torch

    size, wanted = array_bytes(context.profile)
    if size < wanted:
        context.cut("arrays below %d times the caches" % CACHE_FACTOR)
    with every_cpu(torch) as threads:
        passes = measure(torch, size, REPEATS[context.profile], context.remaining)
    for op, seconds in passes.items():
        rates = [STREAMS[op] * size / s for s in seconds]
        spread = statistics.pstdev(rates) / statistics.fmean(rates) if len(rates) > 1 else None
        yield context.reading(
            "bytes_per_second",
            max(rates),
            spread=spread,
            n=len(rates),
            subject="server",
            op=op,
            threads=threads,
            bytes=size,
        )


def measure(torch: Any, size: int, repeats: int, remaining: Callable[[], float]) -> Dict[str, List[float]]:
    """Seconds of each pass of each kernel on three float64 arrays of `size` bytes; the first pass is not kept."""
    work = kernels(torch, *arrays(torch, size))
    passes: Dict[str, List[float]] = {op: [] for op in STREAMS}
    for number in range(repeats + 1):
        begun = time.perf_counter()
        for op, kernel in work.items():
            started = time.perf_counter()
            kernel()
            if number:
                passes[op].append(time.perf_counter() - started)
        if number >= 2 and remaining() < 2 * (time.perf_counter() - begun):
            break
    return passes


def arrays(torch: Any, size: int) -> List[Any]:
    """STREAM's three arrays, each touched first by the threads that will use it."""
    return [torch.empty(size // 8, dtype=torch.float64).fill_(value) for value in (1.0, 2.0, 0.5)]


def kernels(torch: Any, a: Any, b: Any, c: Any) -> Dict[str, Callable[[], Any]]:
    """STREAM's four kernels on its three arrays, in its order."""
    return {
        "copy": lambda: torch.add(a, 0.0, out=c),
        "scale": lambda: torch.mul(c, 3.0, out=b),
        "add": lambda: torch.add(a, b, out=c),
        "triad": lambda: torch.add(b, c, alpha=3.0, out=a),
    }


def array_bytes(profile: str, sysfs: str = "/sys") -> Tuple[int, int]:
    """Bytes of one array, and what STREAM's rule asks for; less where memory or the budget does not give it."""
    wanted = max(SMALLEST_ARRAY, CACHE_FACTOR * last_level_cache_bytes(sysfs))
    size = max(SMALLEST_ARRAY, min(wanted, LARGEST_ARRAY[profile], available_bytes() // 8))
    return size // 4096 * 4096, wanted


def last_level_cache_bytes(sysfs: str = "/sys") -> int:
    """Bytes of all last-level caches together, each counted once; 0 where the kernel does not say."""
    caches: Dict[str, int] = {}
    folder = os.path.join(sysfs, "devices/system/cpu")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    for cpu in (name for name in names if re.fullmatch(r"cpu\d+", name)):
        levels = os.path.join(folder, cpu, "cache")
        indexes = sorted(os.listdir(levels)) if os.path.isdir(levels) else []
        found = [name for name in indexes if re.fullmatch(r"index\d+", name)]
        if not found:
            continue
        last = max(found, key=lambda name: int(_text(levels, name, "level") or 0))
        match = re.fullmatch(r"(\d+)([KMG]?)", _text(levels, last, "size"))
        if match:
            size = int(match.group(1)) << {"": 0, "K": 10, "M": 20, "G": 30}[match.group(2)]
            caches[_text(levels, last, "shared_cpu_list") or cpu] = size
    return sum(caches.values())


def available_bytes(meminfo: str = "/proc/meminfo", cgroup: str = "/sys/fs/cgroup") -> int:
    """Memory we may take: what the kernel calls available, less where the cgroup grants less."""
    with open(meminfo, encoding="ascii") as file:
        available = next((int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")), 0)
    limit, used = _text(cgroup, "memory.max"), _text(cgroup, "memory.current")
    if limit.isdigit() and used.isdigit():
        available = min(available, max(0, int(limit) - int(used)))
    return available


def _text(*parts: str) -> str:
    try:
        with open(os.path.join(*parts), encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
