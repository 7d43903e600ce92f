"""Finds the readers by walking this folder, and asks them whose text it is."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import lru_cache
from typing import Protocol, cast

import auditor.readers
from auditor.readers.parsed import Parsed


class Reader(Protocol):
    """A module of this folder that reads one tool's output."""

    KIND: str
    HINTS: tuple[str, ...]
    BEGINS: re.Pattern[str]

    def recognise(self, text: str) -> float:
        """How sure it is that the text is its own, 0..1."""

    def read(self, text: str) -> Parsed:
        """What the text says."""


@lru_cache
def readers() -> tuple[Reader, ...]:
    """Every reader, in the order of its kind."""
    found = []
    for info in pkgutil.iter_modules(auditor.readers.__path__):
        module = importlib.import_module(f"{auditor.readers.__name__}.{info.name}")
        if all(hasattr(module, name) for name in ("KIND", "HINTS", "BEGINS", "recognise", "read")):
            found.append(cast(Reader, module))
    return tuple(sorted(found, key=lambda reader: reader.KIND))


def surest(text: str, among: tuple[Reader, ...] | None = None) -> Reader | None:
    """The reader that is surest of the text; None when none knows it."""
    scored = [(float(reader.recognise(text)), reader.KIND, reader) for reader in among or readers()]
    best = max(scored, key=lambda row: (row[0], row[1]), default=None)
    return best[2] if best and best[0] > 0 else None
