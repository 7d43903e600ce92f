"""Finding our frames in a stranger's output."""

from __future__ import annotations

import pytest

from auditor.quick.frames import Frame, Frames
from auditor.quick.link import Ended, Flooded, Spoiled
from tests.quick.conftest import Said

MARK = "auditor-" + "0" * 32


def framed(kind: str, payload: bytes) -> bytes:
    """One frame as the agent writes it."""
    return b"\n%s %s %d\n%s\n" % (MARK.encode(), kind.encode(), len(payload), payload)


def test_frames_are_found_between_noise_whatever_the_pieces() -> None:
    """Cut at every byte, the same frames come out; banners around them do not matter."""
    wire = b"Welcome to Ubuntu\n" + framed("hello", b"{}") + b"bash: warning\n" + framed("progress", b"a\nb\n")
    for cut in range(1, len(wire)):
        frames = Frames(Said(wire[:cut], wire[cut:]), MARK)
        assert frames.next(1) == Frame("hello", b"{}")
        assert frames.next(1) == Frame("progress", b"a\nb\n")
        with pytest.raises(Ended):
            frames.next(1)


def test_one_byte_at_a_time() -> None:
    """The slowest network gives the same."""
    wire = b"motd" + framed("tick", b"") + framed("record", b"{}")
    frames = Frames(Said(*(wire[i : i + 1] for i in range(len(wire)))), MARK)
    assert [frames.next(9), frames.next(9)] == [Frame("tick", b""), Frame("record", b"{}")]


def test_silence_is_told_from_the_end() -> None:
    """None means wait on; the end is an end."""
    assert Frames(Said(b"half", ends=False), MARK).next(0.01) is None
    with pytest.raises(Ended):
        Frames(Said(b"half"), MARK).next(0.01)


def test_C05_a_flood_is_stopped_in_bounded_memory() -> None:
    """A shell that prints for ever is left after a mebibyte."""
    frames = Frames(Said(*[b"y\n" * 32768] * 1000, ends=False), MARK)
    with pytest.raises(Flooded, match="no answer of ours"):
        while frames.next(0.01) is None:
            assert len(frames._buffer) < 1 << 18


@pytest.mark.parametrize(
    ("kind", "size"), [("record", 8 * 1024 * 1024 + 1), ("hello", 999_999_999), ("progress", 65537), ("other", 1)]
)
def test_C04_a_frame_past_its_size_or_of_another_kind_is_refused(kind: str, size: int) -> None:
    """The length a stranger announces is believed only up to that kind's limit."""
    with pytest.raises(Spoiled, match=kind):
        Frames(Said(b"\n%s %s %d\n" % (MARK.encode(), kind.encode(), size)), MARK).next(1)


def test_another_marker_is_noise() -> None:
    """What a server replays from an earlier connection is no frame of this one."""
    old = framed("hello", b"{}").replace(b"0" * 32, b"1" * 32)
    frames = Frames(Said(old), MARK)
    with pytest.raises(Ended):
        frames.next(1)
    assert frames.said() == "{}"


def test_the_last_line_that_was_said_can_be_quoted() -> None:
    """Why a shell ended stands in its last line, on stdout or stderr."""
    said = Said(b'Please login as the user "ubuntu" rather than the user "root".\n\n')
    frames = Frames(said, MARK)
    with pytest.raises(Ended):
        frames.next(1)
    assert frames.said().startswith("Please login as")
    said.noise += b"bash: line 1: syntax error\n"
    assert frames.said() == "bash: line 1: syntax error"
