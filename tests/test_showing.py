"""Text of a stranger made fit for one line (threats R12, R13)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from auditor.showing import show


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain 第一台 ü", "plain 第一台 ü"), ("a\r\nb\tc", "a b c"), ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b31m", "\\x9b31m"), ("\u202egnp.exe", "\\u202egnp.exe"), ("a\u200bb", "a\\u200bb"), ("\ud800", "\\ud800"),
        ("e\u0301", "é"), (None, "None"), ("\U000e0041", "\\U000e0041"),
    ],
)  # fmt: skip
def test_what_is_unfit_becomes_an_escape(text: object, shown: str) -> None:
    """Controls, format characters and surrogates are visible; letters of any script stay."""
    assert show(text) == shown


def test_R13_a_pile_of_combining_marks_is_cut() -> None:
    """Two marks on a letter are a language, four hundred are an attack."""
    assert "\\u0301" in show("x" + "\u0301" * 400)


@given(some.text(max_size=2000))
def test_always_one_short_printable_line(text: str) -> None:
    """Whatever comes in."""
    line = show(text, 80)
    assert len(line) <= 80 and line.isprintable()
