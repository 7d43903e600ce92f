"""From a judgement to what people and programs read: workbook, pages, documents, terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from auditor.report import formats as _formats
from auditor.report.texts import load
from auditor.report.view import Judged, Report


def write(
    judged: Judged | Sequence[Judged], folder: Path, formats: Iterable[str], lang: str = "en", redact: bool = False
) -> list[Path]:
    """Write the report in the given formats into a folder; returns the files, in the order of the formats.

    `judged` may be several runs: they stand side by side.
    """
    parts = judged if isinstance(judged, Sequence) else [judged]
    known = _formats.modules()
    return produce(parts, {name: folder / known[name].FILE for name in formats}, lang, redact)


def produce(
    judged: Sequence[Judged], targets: Mapping[str, Path], lang: str = "en", redact: bool = False
) -> list[Path]:
    """Write each format to its path; every record is read once for all of them."""
    report = Report(judged, load(lang))
    known = _formats.modules()
    sinks = [known[name].start(report, path) for name, path in targets.items()]
    for seen in report.seen():
        for sink in sinks:
            sink.take(seen)
    return [path for sink in sinks for path in sink.end()]
