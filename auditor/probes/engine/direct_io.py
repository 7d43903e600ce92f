"""Reading and writing a file past the page cache, many operations in flight, from one thread.

O_DIRECT with the kernel's own asynchronous interface (io_setup/io_submit/io_getevents, called by
number: no library needed), the pattern `fio --ioengine=libaio --direct=1` uses. Where the file system
has no O_DIRECT (tmpfs, some overlays) or the kernel refuses the interface (a sandbox), plain
preadv/pwritev one at a time, and the caller is told so. A figure without O_DIRECT is the page cache's.
"""

import ctypes
import errno
import itertools
import mmap
import os
import platform
import time
from dataclasses import dataclass
from typing import Iterator, List, Optional, Sequence, Tuple

# setup, destroy, submit, getevents: fixed for ever by each architecture's system call table.
_CALLS = {"x86_64": (206, 207, 209, 208), "aarch64": (0, 1, 2, 4)}
_PREAD, _PWRITE = 0, 1
_IOCB_WORDS, _EVENT_WORDS = 8, 4  # struct iocb is 64 bytes, struct io_event 32
_ALIGN = 4096
_OFFSET = 5  # word of struct iocb
_AT_ONCE = 2  # submitted with one call: as much work a call as fio's loop does; more would leave the disk idle


class _NotForThisFile(Exception):
    """The file takes no asynchronous I/O."""


class Aio:
    """One kernel context of asynchronous input and output; `close` gives it back."""

    def __init__(self, depth: int) -> None:
        """Raises OSError where the kernel or a sandbox does not offer it."""
        numbers = _CALLS.get(platform.machine())
        if numbers is None:
            raise OSError(errno.ENOSYS, "asynchronous I/O is not known on this architecture")
        setup, self._destroy, self._submit, self._getevents = numbers
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._call.argtypes = [ctypes.c_long, ctypes.c_ulong] + [ctypes.c_long] * 2 + [ctypes.c_void_p] * 2
        context = ctypes.c_ulong(0)
        if self._call(setup, depth, ctypes.addressof(context), 0, None, None) != 0:
            raise OSError(ctypes.get_errno(), "io_setup")
        self._context = context.value

    def submit(self, count: int, pointers: int) -> None:
        """Hand over the control blocks whose addresses stand at `pointers`; a full queue takes them in parts."""
        handed = 0
        while handed < count:
            taken = self._call(self._submit, self._context, count - handed, pointers + 8 * handed, None, None)
            handed += taken if taken > 0 else self._fail("io_submit")

    def events(self, most: int, into: int) -> int:
        """Wait for an operation to end; the events of all that have ended are written at `into`."""
        count = self._call(self._getevents, self._context, 1, most, into, None)
        return count if count > 0 else self._fail("io_getevents")

    def close(self) -> None:
        """Give the context back; the kernel waits for what is in flight."""
        if self._context:
            self._call(self._destroy, self._context, 0, 0, None, None)
            self._context = 0

    @staticmethod
    def _fail(name: str) -> int:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (name, os.strerror(number)))


@dataclass(frozen=True)
class Moved:
    """What one window of reading or writing came to; latencies in seconds, empty where not sampled."""

    bytes: int
    operations: int
    seconds: float
    latencies: Tuple[float, ...] = ()

    @property
    def bytes_per_second(self) -> float:
        """Bytes moved a second over the whole window."""
        return self.bytes / self.seconds if self.seconds > 0 else 0.0


def aligned(size: int, fill: Optional[bytes] = None) -> mmap.mmap:
    """Page-aligned memory of `size` bytes, filled with `fill` over and over."""
    memory = mmap.mmap(-1, max(_ALIGN, size))
    if fill:
        memory.write((fill * (size // len(fill) + 1))[:size])
    return memory


def open_direct(path: str, flags: int) -> Tuple[int, bool]:
    """Open with O_DIRECT where the file system takes it; the bool says whether it did.

    Opening can succeed and the first read fail (some overlays), so one block is tried.
    """
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        handle = os.open(path, flags | os.O_DIRECT, 0o600)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
        return os.open(path, flags, 0o600), False
    trial = aligned(_ALIGN)
    try:
        if flags & (os.O_WRONLY | os.O_RDWR) and os.fstat(handle).st_size == 0:
            os.pwritev(handle, [trial], 0)
            os.ftruncate(handle, 0)
        elif os.fstat(handle).st_size >= _ALIGN and not flags & os.O_WRONLY:
            os.preadv(handle, [trial], 0)
    except OSError as error:
        os.close(handle)
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
        return os.open(path, flags & ~(os.O_TRUNC | os.O_EXCL), 0o600), False
    finally:
        trial.close()
    return handle, True


def move(
    handle: int,
    write: bool,
    block: int,
    offsets: Sequence[int],
    depth: int,
    until: float,
    fill: bytes = b"",
    endless: bool = True,
) -> Moved:
    """Read or write `block` bytes at each of `offsets` with `depth` in flight until `until` (monotonic).

    `endless` starts over at the end of `offsets`. Raises OSError with what the disk answered; a short
    transfer is an error too (ENOSPC where it was a write).
    """
    depth = max(1, min(depth, len(offsets)))
    order = itertools.cycle(offsets) if endless else iter(offsets)
    try:
        aio = Aio(depth)
    except OSError:
        return _one_by_one(handle, write, block, order, until, fill)
    memory = aligned(block * depth, fill)
    try:
        return _in_flight(aio, memory, handle, write, block, order, depth, until)
    except _NotForThisFile:
        order = itertools.cycle(offsets) if endless else iter(offsets)
        return _one_by_one(handle, write, block, order, until, fill)
    finally:
        memory.close()


def _in_flight(
    aio: Aio,
    memory: mmap.mmap,
    handle: int,
    write: bool,
    block: int,
    offsets: Iterator[int],
    depth: int,
    until: float,
) -> Moved:
    blocks, events, pointers = mmap.mmap(-1, 64 * depth), mmap.mmap(-1, 32 * depth), mmap.mmap(-1, 8 * depth)
    anchors = [ctypes.c_char.from_buffer(part) for part in (memory, blocks, events, pointers)]
    data_at, blocks_at, events_at, pointers_at = (ctypes.addressof(anchor) for anchor in anchors)
    words, ended, ready = (memoryview(part).cast("q") for part in (blocks, events, pointers))
    for slot in range(depth):
        at = slot * _IOCB_WORDS
        # The word that comes back with the event is where this block's offset stands.
        words[at], words[at + 2] = at + _OFFSET, (_PWRITE if write else _PREAD) | handle << 32
        words[at + 3], words[at + 4] = data_at + slot * block, block
    latencies: List[float] = []
    done = flying = 0
    clock, follow = time.monotonic, offsets.__next__
    begun = now = first = clock()
    try:
        for slot, offset in zip(range(depth), offsets):
            words[slot * _IOCB_WORDS + _OFFSET] = offset
            ready[0] = blocks_at + slot * 64
            try:
                aio.submit(1, pointers_at)
            except OSError as error:
                if flying or error.errno != errno.EINVAL:
                    raise
                raise _NotForThisFile from None
            flying += 1
        while flying:
            count = aio.events(depth, events_at)
            now = clock()
            flying -= count
            done += count
            waiting = 0
            for at in range(0, count * _EVENT_WORDS, _EVENT_WORDS):
                if ended[at + 2] != block:
                    raise _short(ended[at + 2], write)
                place = ended[at]
                if place == _OFFSET:  # one slot's latencies stand for all: noting each would slow the loop down
                    latencies.append(now - first)
                    first = now
                if now >= until:
                    continue
                try:
                    words[place] = follow()
                except StopIteration:
                    continue
                ready[waiting] = ended[at + 1]
                waiting += 1
                if waiting == _AT_ONCE:
                    aio.submit(waiting, pointers_at)
                    flying, waiting = flying + waiting, 0
            if waiting:
                aio.submit(waiting, pointers_at)
                flying += waiting
    finally:
        aio.close()  # waits for what is in flight: the kernel must not write into memory given back
        for view in (words, ended, ready):
            view.release()
        del anchors
        for part in (blocks, events, pointers):
            part.close()
    return Moved(done * block, done, now - begun, tuple(latencies))


def _one_by_one(handle: int, write: bool, block: int, offsets: Iterator[int], until: float, fill: bytes) -> Moved:
    memory = aligned(block, fill)
    view = memoryview(memory)[:block]
    begun = now = time.monotonic()
    latencies: List[float] = []
    done = 0
    try:
        for offset in offsets:
            moved = os.pwritev(handle, [view], offset) if write else os.preadv(handle, [view], offset)
            if moved != block:
                raise _short(moved, write)
            last, now = now, time.monotonic()
            done += 1
            latencies.append(now - last)
            if now >= until:
                break
    finally:
        view.release()
        memory.close()
    return Moved(done * block, done, now - begun, tuple(latencies))


def _short(answer: int, write: bool) -> OSError:
    number = -answer if answer < 0 else (errno.ENOSPC if write else errno.EIO)
    return OSError(number, os.strerror(number))
