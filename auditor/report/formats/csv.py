"""All readings as CSV, values exact and in base units. A text that a spreadsheet would calculate gets a leading `'`."""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path

from auditor.records import Value
from auditor.report.figures import exact
from auditor.report.formats import Whole
from auditor.report.show import show
from auditor.report.view import Report, Seen, conditions_text

NAME = "csv"
FILE = "readings.csv"
HEADER = (
    "number",
    "inventory",
    "server",
    "subject",
    "metric",
    "conditions",
    "value",
    "spread",
    "repeats",
    "stable",
    "source",
)
_CALCULATES = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")


class Readings:
    """One row per reading, numbered as Findings names them."""

    def __init__(self, path: Path) -> None:
        self._whole = Whole(path, "utf-8-sig", "")
        self._writer = csv.writer(self._whole.file)
        self._writer.writerow(HEADER)

    def take(self, seen: Seen) -> None:
        """Write this server's readings."""
        provider, name = safe(show(seen.provider)), safe(show(seen.server.name))
        for index, one in enumerate(seen.record.readings if seen.record else ()):
            self._writer.writerow(
                (
                    seen.first_reading + index,
                    provider,
                    name,
                    _text(one.subject),
                    one.metric,
                    _text(conditions_text(one)),
                    _value(one.value),
                    exact(one.spread),
                    one.n,
                    exact(one.stable),
                    _text(one.source),
                )
            )

    def end(self) -> list[Path]:
        """The file is complete."""
        return self._whole.done()

    def drop(self) -> list[Path]:
        """The readings found room elsewhere."""
        return self._whole.dropped()


def start(report: Report, path: Path) -> Readings:
    """Begin the file."""
    return Readings(path)


def safe(text: str) -> str:
    """The text as a spreadsheet takes for text (threat R09)."""
    return f"'{text}" if text.startswith(_CALCULATES) else text


@lru_cache(4096)
def _text(text: str) -> str:
    """Subjects, sources and conditions are few and come in every row."""
    return safe(show(text))


def _value(value: Value) -> str:
    return safe(show(value, 32_000)) if isinstance(value, str) else exact(value)
