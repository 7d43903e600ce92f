"""From a judgement to what people and programs read: workbook, pages, documents, terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from auditor.errors import UserError
from auditor.report import formats as _formats
from auditor.report.redact import redacted
from auditor.report.show import show
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
    judged: Sequence[Judged],
    targets: Mapping[str, Path],
    lang: str = "en",
    redact: bool = False,
    server: str | None = None,
) -> list[Path]:
    """Write each format to its path; every record is read once for all of them.

    With `server` the page is of that one server alone.

    Raises:
        UserError: there is no such server.
    """
    parts = redacted(judged) if redact else list(judged)
    if server is not None:
        judged, parts = _only(judged, parts, server)
        server = parts[0].judgement.servers[_place(judged[0], server) or 0].name
    report = Report(parts, load(lang))
    known = _formats.modules()
    alone = {"html": {"server": server}} if server is not None else {}
    sinks = [known[name].start(report, path, **alone.get(name, {})) for name, path in targets.items()]
    for seen in report.seen():
        for sink in sinks:
            sink.take(seen)
    return [path for sink in sinks for path in sink.end()]


def _only(judged: Sequence[Judged], parts: Sequence[Judged], server: str) -> tuple[list[Judged], list[Judged]]:
    """The one run that holds the server, as it is and as it is shown."""
    for original, shown in zip(judged, parts, strict=True):
        if _place(original, server) is not None:
            return [original], [shown]
    known = ", ".join(one.name for part in judged for one in part.judgement.servers[:20])
    raise UserError(f"report: there is no server {show(server)!r}; there is {show(known, 400) or 'none at all'}.")


def _place(judged: Judged, server: str) -> int | None:
    names = [one.name for one in judged.judgement.servers]
    return names.index(server) if server in names else None
