"""Bytes of pasted files to clean lines."""

from __future__ import annotations

import pytest

from auditor.readers import text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_every_encoding_of_a_terminal_gives_the_same_text(encoding: str) -> None:
    """A paste saved as UTF-8, UTF-16 or UTF-32, with or without mark, decodes to the same lines."""
    line = "GPU0\tX\tNV18\n"
    assert text.clean(text.decode(line.encode(encoding))) == line


def test_a_chinese_editors_own_encoding_is_read() -> None:
    """Notepad of a Chinese Windows writes GB18030: the words stay words, and degree signs do not become Chinese."""
    assert text.decode("第一台：\nGPU0\tX\n谢谢".encode("gb18030")) == "第一台：\nGPU0\tX\n谢谢"
    assert "°C" in text.decode("31°C 45°C 50°C 61°C".encode("cp1252"))


def test_latin_1_is_the_last_resort() -> None:
    """Bytes that are no UTF-8 are read as Windows Latin-1, not dropped."""
    assert "°" in text.decode("31°C ".encode("cp1252") * 20)


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("\x1b[4mGPU0\x1b[0m", "GPU0"),
        ("\x1b[1;31mred\x1b[m", "red"),
        ("\ufffd[4mGPU0\ufffd[0m", "GPU0"),
        ("\ufffd [4mGPU0", "GPU0"),
        ("[4mGPU0[0m", "GPU0"),
        ("^[[4mGPU0^[[0m", "GPU0"),
        ("\\033[4mGPU0\\e[0m", "GPU0"),
        ("a\x1b[8Cb", "a        b"),
        ("\x1b]0;title\x07prompt", "prompt"),
        ("N\x08NA\x08A", "NA"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("“quoted” „low“ «french» 「corner」", '"quoted" "low" "french" "corner"'),
        ("GPU0\u00a0\u3000X", "GPU0  X"),
        ("\u200bGPU0\ufeff", "GPU0"),
        ("├─01.0", "+-01.0"),
        ("```GPU 0: one\nGPU 1: two```\n```bash\nls\n```", "GPU 0: one\nGPU 1: two\n```bash\nls\n```"),
    ],
)
def test_what_terminals_and_word_processors_add_is_taken_off(raw: str, plain: str) -> None:
    """Escape codes (also broken ones), cursor moves, typographic marks and hidden characters."""
    assert text.clean(raw) == plain


@pytest.mark.parametrize("kept", ["[mlx5_0]", "took [10min]", "[0-9m]", "array[3]", "[12345.678901] NVRM", "a > b"])
def test_brackets_that_are_no_escape_codes_stay(kept: str) -> None:
    """Only what has the form of a colour code is taken off."""
    assert text.clean(kept) == kept


def test_cleaning_keeps_the_number_of_lines() -> None:
    """Line numbers of messages name the lines the sender sees."""
    raw = "\x1b[2K> one\r\n> \x1b[0m\r\n>> two\n> three"
    assert text.clean(raw) == "one\n\ntwo\nthree"


def test_quoting_is_taken_off_only_where_most_lines_have_it() -> None:
    """A prompt that ends in > is not mail quoting."""
    raw = "> nvidia-smi\nGPU0\nGPU1\nGPU2"
    assert text.clean(raw) == raw
