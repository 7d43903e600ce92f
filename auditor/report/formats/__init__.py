"""What a report can be written as, one file each, found by walking this folder.

A format module has NAME (what --formats calls it), FILE (what it is called in the report folder) and
`start(report, path) -> Sink`. A sink takes every server once, then ends; its file appears whole or not at all.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import IO, Protocol

from auditor.report.view import Seen


class Sink(Protocol):
    """What a format does while servers pass."""

    def take(self, seen: Seen) -> None:
        """Look at one server."""

    def end(self) -> list[Path]:
        """All servers have passed; returns the files written."""


@cache
def modules() -> dict[str, ModuleType]:
    """Every format by name."""
    found = (importlib.import_module(f"{__name__}.{one.name}") for one in pkgutil.iter_modules(__path__))
    return {module.NAME: module for module in sorted(found, key=lambda module: module.NAME)}


_NUMBERS = itertools.count(1)


class Whole:
    """A text file that appears under its name only when it is complete."""

    def __init__(self, path: Path, encoding: str = "utf-8", newline: str | None = "\n") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._new = path.with_name(f"{path.name}.{next(_NUMBERS)}.new")  # two may become the same file
        self.file: IO[str] = self._new.open("w", encoding=encoding, newline=newline)

    def done(self) -> list[Path]:
        """Give the file its name."""
        self.file.close()
        self._new.replace(self.path)
        return [self.path]

    def dropped(self) -> list[Path]:
        """Nobody wants it."""
        self.file.close()
        self._new.unlink()
        return []
