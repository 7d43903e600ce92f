"""The live display: a row a server, lines that last, nothing a server said can steer."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from auditor.transport.board import Board


@pytest.fixture
def now() -> list[float]:
    """A clock that a test moves."""
    return [0.0]


def board(now: list[float], *, plain: bool = True, height: int = 20) -> tuple[Board, io.StringIO]:
    """A board that draws into a text."""
    out = io.StringIO()
    console = Console(file=out, width=120, height=height, force_terminal=not plain, color_system=None, highlight=False)
    return Board(console, plain=plain, clock=lambda: now[0]), out


def test_plain_lines_say_each_new_step_once(now: list[float]) -> None:
    """The same step again says nothing until a quarter of a minute has passed."""
    shown, out = board(now)
    shown.open(["a", "b"])
    for moment in (0, 1, 2, 16):
        now[0] = moment
        shown.update("a", "measuring", "matmul", 10 * moment, {"matmul_sustained_flops_per_second": 6.55e14})
    shown.update("a", "done", "measured")
    lines = out.getvalue().splitlines()
    assert [line.split()[:3] for line in lines] == [["▸", "a", "matmul"], ["▸", "a", "matmul"], ["✔", "a", "measured"]]
    assert "matmul sustained 655 TFLOPS" in lines[-1]


def test_R12_text_of_a_server_is_shown_tame(now: list[float]) -> None:
    """Escape codes, line breaks and forged marks stay inside their line."""
    shown, out = board(now)
    shown.update("a", "trouble", "x\x1b]0;t\x07\n✔ b  measured", "\x1b[2J", {"\x1b[2J": 1.0, "ok": "text"})
    assert "\x1b" not in out.getvalue() and len(out.getvalue().splitlines()) == 1


def test_the_table_shows_the_busy_ones_where_not_all_fit(now: list[float]) -> None:
    """Of a thousand servers those that run come first, and a line counts all."""
    shown, _ = board(now, plain=False, height=10)
    shown.open([f"s{i:04d}" for i in range(1000)])
    shown.update("s0500", "measuring", "thermal", 50)
    shown.update("s0600", "done", "measured", 100)
    out = io.StringIO()
    Console(file=out, width=100, color_system=None).print(shown.table())
    assert "s0500" in out.getvalue() and "thermal" in out.getvalue()
    assert "1 of 1000 measured · 1 running" in out.getvalue()
    assert len(out.getvalue().splitlines()) <= 10
    shown.close()


def test_the_table_goes_and_its_lines_stay(now: list[float]) -> None:
    """After the end the terminal holds one line a server and no half-drawn table."""
    shown, out = board(now, plain=False)
    shown.open(["a"])
    shown.update("a", "measuring", "matmul", 50)
    shown.update("a", "done", "measured", 100)
    shown.close()
    assert "✔ a  measured" in out.getvalue()
