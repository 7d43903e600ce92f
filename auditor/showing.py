"""Text of a stranger made fit for a terminal, a log and one line of a report (threats R12, R13).

Nothing is lost that a person could need: what is unfit is shown as an escape.
"""

from __future__ import annotations

import unicodedata

_UNFIT = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def show(text: object, limit: int = 200) -> str:
    """One line, at most `limit` characters, without control, format, bidi or combining-pile characters."""
    plain = str(text)
    if len(plain) <= limit and plain.isascii() and plain.isprintable():
        return " ".join(plain.split())
    out: list[str] = []
    pile = 0
    raw = unicodedata.normalize("NFC", plain[: 4 * limit])
    for character in " ".join(raw.split()):
        kind = unicodedata.category(character)
        pile = pile + 1 if kind.startswith("M") else 0
        if kind in _UNFIT or pile > 2:
            code = ord(character)
            out.append(f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}")
        else:
            out.append(character)
        if len(out) > limit:
            break
    line = "".join(out)
    return line if len(line) <= limit else line[: limit - 1] + "…"
