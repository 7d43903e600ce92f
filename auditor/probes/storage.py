"""Storage: sequential and random rates of one file past the page cache, and what a data loader reads.

One new file under the named path (never a device): 1 MiB blocks in order, 8 in flight; 4 KiB blocks at
random places, 32 in flight; O_DIRECT, random data (compressing disks gain nothing). Where fio is on the
PATH it takes the same pattern on the same file and its raw JSON goes to the controller; quick then leaves
the own pattern out but for the write that lays the file out. Without O_DIRECT (tmpfs, some overlays) the
figures are the page cache's: `direct` says so. A short window on a cloud volume shows its burst credit.

The data loader: files of 128 KiB (an image), written, flushed, dropped from the cache, read by threads.
"""

import os
import random
import shutil
import threading
import time
from typing import Any, Iterator, List, Optional, Sequence, Tuple

from auditor.probes.engine import direct_io, programs
from auditor.records import Reading

KEY = "storage"
SCOPE = "server"
DEVICES = ("cuda", "cpu")
NEEDS: Tuple[str, ...] = ()
SECONDS = {"quick": 3.0, "standard": 30.0, "soak": 60.0}
METHOD = 1
ORDER = 82

MIB = 1 << 20
SEQUENTIAL, RANDOM = (MIB, 8), (4096, 32)  # block, in flight
FILE_BYTES = {"quick": 512 * MIB, "standard": 2048 * MIB, "soak": 4096 * MIB}
WINDOW = {"quick": 0.3, "standard": 2.5, "soak": 8.0}
LOADER_FILE = 128 * 1024
LOADER_FILES = {"quick": 512, "standard": 4096, "soak": 8192}
FREE_FACTOR = 3
PATTERNS = (
    ("read", "sequential", "read"),
    ("read", "random", "randread"),
    ("write", "random", "randwrite"),
    ("write", "sequential", "write"),
)
_FIO_GRACE = 5.0


def applies(context: Any) -> Optional[str]:
    """Not on a full or read-only disk: three times what is written must be free."""
    path = _path(context)
    try:
        free = _free(path)
    except OSError as error:
        return "skipped: %s: %s" % (path, error.strerror)
    need = FREE_FACTOR * (FILE_BYTES[context.profile] + LOADER_FILE * LOADER_FILES[context.profile])
    if free < need:
        return "skipped: %.1f GB free on %s, %.1f GB wanted (3 times what is written)" % (free / 1e9, path, need / 1e9)
    if not os.access(path, os.W_OK | os.X_OK) or os.statvfs(path).f_flag & os.ST_RDONLY:
        return "skipped: %s cannot be written" % path
    return None


def run(context: Any) -> Iterator[Reading]:
    """Lay one file out, read and write it, then read many small ones; everything is removed again."""
    path = _path(context)
    total, _, file_system = facts(path)
    yield context.reading("file_system", file_system, source="kernel/sysfs", path=path)
    yield context.reading("capacity_bytes", total, source="kernel/sysfs", path=path)
    yield context.reading("disks_bytes", disks_bytes(), source="kernel/sysfs")
    folder = os.path.join(path, ".auditor-storage-%d" % os.getpid())
    os.mkdir(folder, 0o700)
    try:
        for reading in _file(context, os.path.join(folder, "data")):
            yield reading
        for reading in _loader(context, os.path.join(folder, "loader")):
            yield reading
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _file(context: Any, name: str) -> Iterator[Reading]:
    window = WINDOW[context.profile]
    fill = os.urandom(4 * MIB)
    handle, direct = direct_io.open_direct(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        block, depth = SEQUENTIAL
        places = range(0, FILE_BYTES[context.profile], block)
        # Twice the window for the layout: everything after it works on what was laid out.
        until = time.monotonic() + 2 * window
        moved = direct_io.move(handle, True, block, places, depth, until, fill, endless=False)
        if not direct:
            moved = _flushed(handle, moved)
        for reading in _readings(context, moved, "write", "sequential", block, direct):
            yield reading
        # fio starts a job in a third of a second: quick has the sequential write from the layout.
        patterns = PATTERNS[:3] if context.profile == "quick" else PATTERNS
        fio = shutil.which("fio") if direct and moved.bytes >= 16 * MIB else None
        text = run_fio(fio, name, moved.bytes, window, patterns) if fio else None
        if text is not None:
            context.attach("fio.json", text)
            if context.profile == "quick":
                context.cut("own pattern: fio took it")
                return
        for op, pattern, _ in PATTERNS[:3]:
            for reading in own(context, handle, op, pattern, moved.bytes, direct, fill, window):
                yield reading
    finally:
        os.close(handle)


def own(
    context: Any, handle: int, op: str, pattern: str, size: int, direct: bool, fill: bytes, window: float
) -> List[Reading]:
    """One pattern on the laid-out `size` bytes of the open file, for `window` seconds."""
    block, depth = SEQUENTIAL if pattern == "sequential" else RANDOM
    if not direct:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    until = time.monotonic() + window
    moved = direct_io.move(handle, op == "write", block, places(pattern, size, block, context.seed), depth, until, fill)
    if not direct and op == "write":
        moved = _flushed(handle, moved)
    return list(_readings(context, moved, op, pattern, block, direct))


def places(pattern: str, size: int, block: int, seed: int) -> Sequence[int]:
    """Offsets in the order they are visited: from the front, or at random with returns allowed."""
    if pattern == "sequential":
        return range(0, size - block + 1, block)
    draw, blocks = random.Random(seed), size // block  # noqa: S311  # a pattern, not a secret
    return [draw.randrange(blocks) * block for _ in range(65536)]


def run_fio(program: str, name: str, size: int, window: float, patterns: Any = PATTERNS) -> Optional[str]:
    """fio's raw JSON for the patterns on the file that lies there, one after the other; None = it failed."""
    argv = [program, "--output-format=json", "--ioengine=libaio", "--direct=1", "--thread", "--norandommap"]
    argv += ["--filename=" + name, "--size=%d" % size, "--runtime=%dms" % (window * 1000)]
    for op, pattern, word in patterns:
        block, depth = SEQUENTIAL if pattern == "sequential" else RANDOM
        argv += ["--name=%s-%s" % (pattern, op), "--stonewall", "--rw=" + word]
        argv += ["--bs=%d" % block, "--iodepth=%d" % depth]
        # Reads go round for the whole window; writes end at the file's size, so that little is written.
        if op == "read":
            argv.append("--time_based=1")
    done = programs.run(argv, os.path.dirname(name), len(patterns) * window + _FIO_GRACE)
    return done.out if done and done.code == 0 and done.out.strip() else None


def _flushed(handle: int, moved: direct_io.Moved) -> direct_io.Moved:
    """The same window with the time the disk still needed: what is only in memory is not written."""
    begun = time.monotonic()
    os.fsync(handle)
    seconds = moved.seconds + time.monotonic() - begun
    return direct_io.Moved(moved.bytes, moved.operations, seconds, moved.latencies)


def _readings(
    context: Any, moved: direct_io.Moved, op: str, pattern: str, block: int, direct: bool
) -> Iterator[Reading]:
    size = FILE_BYTES[context.profile]
    conditions = {"op": op, "pattern": pattern, "block": block, "bytes": size, "direct": direct, "tool": "own"}
    if pattern == "random":
        yield context.reading("operations_per_second", moved.operations / max(moved.seconds, 1e-9), **conditions)
    else:
        yield context.reading("bytes_per_second", moved.bytes_per_second, **conditions)
    ordered = sorted(moved.latencies)
    if ordered and pattern == "random":
        for stat, share in (("p50", 0.5), ("p99", 0.99)):
            value = ordered[min(len(ordered) - 1, int(share * len(ordered)))]
            yield context.reading(
                "latency_seconds", value, op=op, pattern=pattern, stat=stat, direct=direct, tool="own"
            )


def _loader(context: Any, folder: str) -> Iterator[Reading]:
    os.mkdir(folder, 0o700)
    names = [os.path.join(folder, "%05d" % number) for number in range(LOADER_FILES[context.profile])]
    fill = os.urandom(LOADER_FILE)
    until = time.monotonic() + WINDOW[context.profile]
    written: List[str] = []
    for name in names:
        with open(name, "xb", buffering=0) as file:
            file.write(fill)
        written.append(name)
        if time.monotonic() > until:
            break
    written = _dropped(written, time.monotonic() + WINDOW[context.profile])
    random.Random(context.seed).shuffle(written)  # noqa: S311  # a pattern, not a secret
    workers = max(1, min(8, len(os.sched_getaffinity(0))))
    files, size, seconds = read_files(written, workers, WINDOW[context.profile])
    if files:
        yield context.reading("files_per_second", files / seconds, bytes=LOADER_FILE, workers=workers)
        yield context.reading("loader_bytes_per_second", size / seconds, bytes=LOADER_FILE, workers=workers)


def _dropped(names: Sequence[str], until: float) -> List[str]:
    """The files that are on the disk and out of the page cache by `until`: what is read next comes from the disk."""
    dropped: List[str] = []
    for name in names:
        handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        os.fdatasync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)
        dropped.append(name)
        if time.monotonic() > until:
            break
    return dropped


def read_files(names: Sequence[str], workers: int, seconds: float) -> Tuple[int, int, float]:
    """Read whole files with `workers` threads until all are read or `seconds` are over: files, bytes, seconds."""
    counts = [(0, 0)] * workers
    begun = time.monotonic()

    def worker(number: int) -> None:
        files = size = 0
        for name in names[number::workers]:
            if time.monotonic() - begun > seconds:
                break
            with open(name, "rb", buffering=0) as file:
                size += len(file.read())
            files += 1
        counts[number] = (files, size)

    threads = [threading.Thread(target=worker, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(c[0] for c in counts), sum(c[1] for c in counts), max(time.monotonic() - begun, 1e-9)


def facts(path: str, mountinfo: str = "/proc/self/mountinfo") -> Tuple[int, int, str]:
    """Total bytes, free bytes and kind of the file system that holds `path`."""
    status = os.statvfs(path)
    device = os.stat(path).st_dev
    wanted, kind = "%d:%d" % (os.major(device), os.minor(device)), "unknown"
    with open(mountinfo, encoding="utf-8", errors="replace") as file:
        for line in file:
            left, _, right = line.partition(" - ")
            if left.split()[2] == wanted and right:
                kind = right.split()[0]
    return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize, kind


def disks_bytes(sysfs: str = "/sys") -> int:
    """Bytes of all disks the kernel knows, without loop, memory and stacked devices."""
    total, folder = 0, os.path.join(sysfs, "block")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if name.startswith(("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd")):
            continue
        with open(os.path.join(folder, name, "size"), encoding="ascii") as file:
            total += int(file.read()) * 512
    return total


def _path(context: Any) -> str:
    return str(context.path or context.directory)


def _free(path: str) -> int:
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize
