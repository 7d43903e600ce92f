"""The probe's progress lines, as a stranger may write them."""

from __future__ import annotations

import json

import pytest

from auditor.quick.events import Event, Figure, Probed, Progress, Sample

READING = {
    "t": 1.0, "event": "reading", "probe": "matmul", "metric": "matmul_sustained_flops_per_second", "subject": "gpu0",
    "with": {"dtype": "bf16", "n": 8192}, "value": 6.5e14, "spread": 0.002, "n": 3, "stable": True,
    "source": "measured"
}  # fmt: skip


def fed(*pieces: bytes) -> list[Event]:
    """The events of some pieces."""
    events: list[Event] = []
    progress = Progress("gpu-01", events.append)
    for piece in pieces:
        progress.feed(piece)
    return events


def test_lines_become_events_however_they_are_cut() -> None:
    """A line cut anywhere gives the same event."""
    wire = (
        json.dumps(READING) + "\n" + json.dumps({"event": "sample", "subject": "gpu0", "watts": 600}) + "\n"
    ).encode()
    for cut in range(len(wire)):
        figure, sample = fed(wire[:cut], wire[cut:])
        assert isinstance(figure, Figure)
        assert figure.reading.conditions == {"dtype": "bf16", "n": 8192}
        assert sample == Sample("gpu-01", "gpu0", watts=600.0)


def test_a_probe_that_ended_carries_its_reason() -> None:
    """Status and reason reach the screen."""
    line = {"event": "probe", "probe": "thermal", "subject": "gpu3", "status": "failed", "reason": "lost"}
    assert fed(json.dumps(line).encode() + b"\n") == [Probed("gpu-01", "thermal", "gpu3", "failed", reason="lost")]


@pytest.mark.parametrize(
    "line",
    [b"", b"warning: something", b"{", b"[]", b"{}", b'{"event": "rm -rf"}', b'{"event": "sample", "watts": "many"}',
     b'{"event": "reading", "probe": 1}', b'{"event":"sample","watts":' + b"[" * 5000, b'\xff\xfe', b'{"event": NaN}'],
)  # fmt: skip
def test_what_is_no_progress_is_left_out(line: bytes) -> None:
    """Noise, wrong types and unknown words make no event and no error."""
    assert fed(line + b"\n") == []


def test_C05_a_line_without_end_is_dropped() -> None:
    """Ten megabytes without a newline leave nothing behind, and the next line is understood again."""
    events: list[Event] = []
    progress = Progress("gpu-01", events.append)
    for _ in range(160):
        progress.feed(b"x" * 65536)
        assert len(progress._rest) <= 16384 + 65536
    progress.feed(b"\n" + json.dumps(READING).encode() + b"\n")
    assert len(events) == 1


def test_R12_texts_of_a_server_cannot_steer_the_terminal() -> None:
    """Escapes in any text of a progress line are visible, not alive."""
    evil = "\x1b]52;c;aGk=\x07\x1b[2J"
    rows = [
        {**READING, "metric": "gpu_identity_name", "value": evil, "with": {"dtype": evil}, "subject": evil},
        {"event": "probe", "probe": evil, "subject": evil, "status": evil, "reason": evil},
        {"event": "sample", "subject": evil},
    ]
    events = fed(*(json.dumps(row).encode() + b"\n" for row in rows))
    assert len(events) == 3
    assert "\x1b" not in repr(events).replace("\\x1b", "") and "\x07" not in "".join(map(repr, events))
    assert all("\x1b" not in str(getattr(event, "subject", "")) for event in events)
