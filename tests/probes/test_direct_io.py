"""engine/direct_io: what is read and written, what happens on a full disk, and without O_DIRECT."""

from __future__ import annotations

import errno
import itertools
import os
import time
from pathlib import Path

import pytest

from auditor.probes.engine import direct_io

BLOCK = 4096


def _soon() -> float:
    return time.monotonic() + 20


def _blocks(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]


def test_each_block_is_written_once_where_it_belongs(tmp_path: Path) -> None:
    """A pass over shuffled offsets writes every block, whole, at its place."""
    handle, _ = direct_io.open_direct(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT | os.O_EXCL)
    fill = os.urandom(BLOCK)
    offsets = [number * BLOCK for number in (3, 0, 7, 1, 2, 6, 5, 4)]
    moved = direct_io.move(handle, True, BLOCK, offsets, 4, _soon(), fill, endless=False)
    os.close(handle)
    assert (moved.operations, moved.bytes) == (8, 8 * BLOCK)
    assert _blocks(tmp_path / "f") == [fill] * 8


def test_reading_goes_round_until_the_time_is_over(tmp_path: Path) -> None:
    """An endless window ends by the clock, with everything in flight taken in."""
    (tmp_path / "f").write_bytes(bytes(16 * BLOCK))
    handle, _ = direct_io.open_direct(str(tmp_path / "f"), os.O_RDWR)
    begun = time.monotonic()
    moved = direct_io.move(handle, False, BLOCK, [n * BLOCK for n in range(16)], 8, begun + 0.2)
    os.close(handle)
    assert moved.operations > 16
    assert 0.15 <= moved.seconds < 2
    assert 0 < min(moved.latencies) <= max(moved.latencies) <= moved.seconds


def test_a_full_disk_says_so() -> None:
    """ENOSPC of the kernel comes out as ENOSPC."""
    handle = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match="No space") as caught:
        direct_io.move(handle, True, BLOCK, [0], 1, _soon(), b"x")
    os.close(handle)
    assert caught.value.errno == errno.ENOSPC


def test_a_file_that_ends_early_is_an_error(tmp_path: Path) -> None:
    """A short read is no measurement."""
    (tmp_path / "f").write_bytes(bytes(BLOCK))
    handle, _ = direct_io.open_direct(str(tmp_path / "f"), os.O_RDWR)
    with pytest.raises(OSError, match="Input/output"):
        direct_io.move(handle, False, BLOCK, [0, BLOCK], 2, _soon(), endless=False)
    os.close(handle)


def test_a_broken_window_leaves_the_file_usable(tmp_path: Path) -> None:
    """After an error nothing is in flight any more: the same file can be written at once."""
    (tmp_path / "f").write_bytes(bytes(4 * BLOCK))
    handle, _ = direct_io.open_direct(str(tmp_path / "f"), os.O_RDWR)
    with pytest.raises(OSError, match="Input/output"):
        direct_io.move(handle, False, BLOCK, [0, BLOCK, 9 * BLOCK, 2 * BLOCK], 4, _soon(), endless=False)
    moved = direct_io.move(handle, True, BLOCK, range(0, 4 * BLOCK, BLOCK), 4, _soon(), b"ab", endless=False)
    os.close(handle)
    assert moved.operations == 4
    assert _blocks(tmp_path / "f") == [b"ab" * (BLOCK // 2)] * 4


def test_without_o_direct_the_file_opens_and_says_so() -> None:
    """tmpfs of older kernels and some overlays refuse O_DIRECT: the figure is then the page cache's."""
    folder = Path("/dev/shm")
    if not folder.is_dir():
        pytest.skip("no tmpfs here")
    name = folder / f"auditor-test-{os.getpid()}"
    handle, direct = direct_io.open_direct(str(name), os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        refused = False
        try:
            os.close(os.open(name, os.O_RDONLY | os.O_DIRECT))
        except OSError:
            refused = True
        assert direct is not refused
        moved = direct_io.move(handle, True, BLOCK, [0, BLOCK], 2, _soon(), b"z", endless=False)
        assert moved.bytes == 2 * BLOCK
        assert name.read_bytes() == b"z" * 2 * BLOCK
    finally:
        os.close(handle)
        name.unlink()


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A path that somebody turned into a link is refused, so that nothing of theirs is overwritten."""
    (tmp_path / "theirs").write_bytes(b"precious")
    (tmp_path / "f").symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="symbolic links"):
        direct_io.open_direct(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT)
    assert (tmp_path / "theirs").read_bytes() == b"precious"


def test_one_at_a_time_does_the_same(tmp_path: Path) -> None:
    """Where the kernel's interface is closed, plain calls move the same blocks."""
    handle, _ = direct_io.open_direct(str(tmp_path / "f"), os.O_RDWR | os.O_CREAT | os.O_EXCL)
    moved = direct_io._one_by_one(handle, True, BLOCK, iter(range(0, 3 * BLOCK, BLOCK)), _soon(), b"q")
    again = direct_io._one_by_one(handle, False, BLOCK, itertools.cycle([0]), time.monotonic() + 0.05, b"")
    os.close(handle)
    assert moved.operations == 3
    assert _blocks(tmp_path / "f") == [b"q" * BLOCK] * 3
    assert again.operations >= 1
