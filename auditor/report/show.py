"""How texts are fitted into cells and lines: `show` for text from strangers, `clean` for our own, and widths."""

from __future__ import annotations

import unicodedata

from auditor.showing import show as show

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def clean(text: str) -> str:
    """A text that may hold line breaks: those stay, everything hidden becomes a visible escape (threats R08, R12)."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char == "\n" or unicodedata.category(char) not in _HIDDEN else _escape(char) for char in text
    )


def width(text: str) -> int:
    """How many columns the text takes: wide and full-width characters count two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
