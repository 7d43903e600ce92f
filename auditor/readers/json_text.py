"""JSON out of pasted text: found between other words, read strictly, and said where it breaks."""

from __future__ import annotations

import json
import re
from typing import Any

_MAX_DEPTH = 32
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


class Broken(Exception):
    """No JSON document can be read; `line` is where it breaks."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line
        self.why = why


def document(text: str) -> tuple[dict[str, Any], int]:
    """The first JSON object of the text and the line it begins on.

    Raises:
        Broken: there is none, or it is cut, malformed or too deep.
    """
    start = text.find("{")
    if start < 0:
        raise Broken(1, "no JSON object in the text")
    first = text.count("\n", 0, start) + 1
    body = text[start : end(text, start) or len(text)]
    try:
        found, _ = json.JSONDecoder(parse_constant=_refuse).raw_decode(body)
    except json.JSONDecodeError as error:
        raise Broken(first + error.lineno - 1, f"the JSON breaks here: {error.msg}") from None
    except ValueError as error:
        raise Broken(first, str(error)) from None
    if not isinstance(found, dict):
        raise Broken(first, "the JSON is no object")
    return found, first


def end(text: str, at: int) -> int:
    """Where the object that begins at or after `at` ends; 0 when it was cut.

    Raises:
        Broken: nested too deep.
    """
    start = text.find("{", at)
    depth = 0
    for token in _TOKEN.finditer(text, start) if start >= 0 else ():
        mark = token[0]
        if mark in "[{":
            depth += 1
            if depth > _MAX_DEPTH:
                raise Broken(text.count("\n", 0, token.start()) + 1, f"nested deeper than {_MAX_DEPTH}")
        elif mark in "]}":
            depth -= 1
            if depth == 0:
                return token.end()
    return 0


def closing(text: str, at: int) -> int:
    """As `end`, and 0 for what is nested too deep to be read."""
    try:
        return end(text, at)
    except Broken:
        return 0


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is no figure")


def rows(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; null entries and other things (DCGM 3.1 writes them) are left out."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
