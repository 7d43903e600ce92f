"""Bytes of a pasted file to clean lines: encodings, terminal escape codes (also broken ones), typographic marks.

Cleaning never changes the number of lines, so that a line number names the line the sender sees.
"""

from __future__ import annotations

import codecs
import re

_ESCAPE = r"(?:\x1b|\x9b|\ufffd ?|\u241b|\^\[|\\033|\\e|\\x1b|\\u001b|\u2190)"
_FORWARD = re.compile(r"\x1b\[(\d{0,3})C")
_OSC = re.compile(r"\x1b\][^\x07\x1b\n]{0,300}(?:\x07|\x1b\\)?")
_CSI = re.compile(r"(?:\x1b\[|\x9b)[0-9;:?<=>!]*[ -/]*[@-~]")
_OTHER = re.compile(r"\x1b(?:[()*+][0-9A-Za-z]|[@-Z\\^_=><78c-z])?")
_BROKEN = re.compile(_ESCAPE + r"\[[0-9;]{0,11}[mKHJ]")
_BARE = re.compile(r"\[(?:[0-9]|[1-4][0-9]|9[0-7]|10[0-7])(?:;[0-9]{1,3}){0,4}m(?![a-z0-9])")
_OVERSTRUCK = re.compile(r"[^\n\x08]\x08")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)(?=\w*[^\w\n])|(?<=\S)[ \t]*(?:```|~~~)[ \t]*$", re.M)
_QUOTED = re.compile(r"[ \t]{0,3}(?:>[ \t]?)+")
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»「」『』〝〞＂", '"'),
        **dict.fromkeys("‘’‚‛‹›′＇", "'"),
        **dict.fromkeys("‐‑‒–—−", "-"),
        **dict.fromkeys(
            "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "
        ),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad"),
        **dict.fromkeys("│┃║", "|"),
        **dict.fromkeys("├┣╠┼╬╋┬┴", "+"),
        **dict.fromkeys("└┗╚", "\\"),
        **dict.fromkeys("─━", "-"),
        "═": "=",
        "：": ":",
        "，": ",",
    }
)
_GB = re.compile(rb"(?:[\x00-\x7f]|[\xa1-\xf7][\xa1-\xfe])*")
_NEWLINES = re.compile(r"\r\n|\r|\u2028|\u2029|\x85")


def decode(data: bytes) -> str:
    """The text of a file, whatever wrote it: UTF-8, UTF-16, UTF-32 (also without mark), GB18030, else Latin-1."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    head = data[:4096]
    if len(head) >= 4:
        even, odd = head[0::2].count(0), head[1::2].count(0)
        if odd > len(head) * 0.2 and even < odd / 4:
            return data.decode("utf-16-le", "replace")
        if even > len(head) * 0.2 and odd < even / 4:
            return data.decode("utf-16-be", "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    replaced = data.decode("utf-8", "replace")
    strange = sum(1 for byte in data if byte > 0x7F)
    if replaced.count("\ufffd") * 6 > strange >= 4 and _GB.fullmatch(data):
        return data.decode("gb18030", "replace")  # every strange byte is one of a pair of the Chinese table
    return replaced if replaced.count("\ufffd") * 50 < len(replaced) else data.decode("cp1252", "replace")


def clean(text: str) -> str:
    """The text without terminal codes and typographic marks, one `\\n` a line, mail quoting taken off."""
    if "\r" in text or not text.isascii():
        text = _NEWLINES.sub("\n", text)
    if "\x1b" in text or "\x9b" in text:
        text = _FORWARD.sub(lambda m: " " * min(int(m[1] or 1), 200), text)
        text = _OTHER.sub("", _CSI.sub("", _OSC.sub("", text)))
    if "[" in text:
        text = _BARE.sub("", _BROKEN.sub("", text))
    if "\x08" in text:
        text = _OVERSTRUCK.sub("", text)
    if not text.isprintable():
        text = _CONTROL.sub("", text)
    if not text.isascii():
        text = text.translate(_PLAIN)
    if "```" in text or "~~~" in text:
        text = _FENCE.sub("", text)  # a chat sets it into the first and last line of what it holds
    return _unquoted(text)


def _unquoted(text: str) -> str:
    if ">" not in text:
        return text
    lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    quoted = sum(1 for line in filled if line.lstrip().startswith(">"))
    if quoted * 3 < len(filled) * 2:
        return text
    return "\n".join(_QUOTED.sub("", line, count=1) if line.lstrip().startswith(">") else line for line in lines)
