"""The JSON document of report, quick and triage; its schema is docs/schema/report-1.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from auditor.finding import USES, Evidence, Finding, ServerResult
from auditor.records import Reading
from auditor.report.formats import Sink, Whole
from auditor.report.texts import load
from auditor.report.view import Judged, Report, Seen

NAME = "json"
FILE = "report.json"
SCHEMA = 1
Unreadable = Mapping[str, Iterable[Mapping[str, Any]]]


def document(
    judged: Judged,
    lang: str = "en",
    unreadable: Unreadable | None = None,
    files: Mapping[str, list[str]] | None = None,
    note: str | None = None,
) -> dict[str, Any]:
    """The whole document of one judgement in memory.

    Where texts were read, `unreadable` and `files` tell by server what came of them, and `note` what they can prove.
    """
    report = Report([judged], load(lang))
    servers = []
    for seen in report.seen():
        one = server_document(report, seen)
        one["unreadable"] = [dict(row) for row in (unreadable or {}).get(seen.server.name, ())]
        if files is not None:
            one["files"] = files.get(seen.server.name, [])
        servers.append(one)
    noted = {"note": report.texts._(note)} if note else {}
    return {**head(report), "servers": servers, "ranking": ranking(report), **noted}


def head(report: Report) -> dict[str, Any]:
    """What the document says before its servers."""
    judgements = [part.judgement for part in report.parts]
    return {
        "schema": SCHEMA,
        "tool": {"name": "auditor", "version": judgements[0].version if judgements else ""},
        "lang": report.texts.code,
        "synthetic": report.synthetic,
        "run": judgements[0].run if len(judgements) == 1 else None,
        "runs": [
            {
                "run": one.run,
                "inventory": one.inventory,
                "started": one.started,
                "finished": one.finished,
                "of_inventory": one.of_inventory,
                "policy_sha256": one.policy_sha256,
                "catalog_sha256": one.catalog_sha256,
                "weights": one.weights,
            }
            for one in judgements
        ],
        "verdicts": dict(report.verdicts()),
    }


def server_document(report: Report, seen: Seen) -> dict[str, Any]:
    """One server: verdict, findings in words, and every reading."""
    server = seen.server
    return {
        "name": server.name,
        "label": server.label,
        "inventory": seen.provider,
        "verdict": server.verdict,
        "reason": server.reason,
        "phase": server.phase,
        "missing": list(server.missing),
        "order": _order(server),
        "model": server.model,
        "machine": server.level,
        "profile": server.profile,
        "device": server.device,
        "synthetic": server.synthetic,
        "text_only": server.text_only,
        "started": server.started,
        "seconds": server.seconds,
        "sha256": server.sha256,
        "figures": {name: value for name, value in server.figures.items() if value is not None},
        "gpus": [
            {
                "subject": gpu.subject,
                "index": gpu.index,
                "uuid": gpu.uuid,
                "pci": gpu.pci,
                "name": gpu.name,
                "model": gpu.model,
                "figures": {name: value for name, value in gpu.figures.items() if value is not None},
            }
            for gpu in server.gpus
        ],
        "scores": [msgspec.to_builtins(score) for score in server.scores],
        "cost": msgspec.to_builtins(server.cost) if server.cost else None,
        "findings": [_finding(report, seen, finding) for finding in server.findings],
        "readings": [_reading(one) for one in (seen.record.readings if seen.record else ())],
        "unreadable": [],
    }


def ranking(report: Report) -> dict[str, list[dict[str, Any]]]:
    """By use: the ranked servers, best first."""
    out: dict[str, list[dict[str, Any]]] = {}
    for use in USES:
        rows = [
            {
                "server": server.name,
                "inventory": provider,
                "rank": score.rank,
                "score": score.value,
                "tied_with": list(score.tied_with),
            }
            for provider, server in report
            for score in server.scores
            if score.use == use and score.rank is not None
        ]
        out[use] = sorted(rows, key=lambda row: (row["rank"], row["inventory"], row["server"]))
    return out


def _order(server: ServerResult) -> Any:
    if server.order is None:
        return None
    return {key: value for key, value in msgspec.to_builtins(server.order).items() if value is not None}


def _finding(report: Report, seen: Seen, finding: Finding) -> dict[str, Any]:
    said = report.rendered(finding)
    return {
        "id": finding.id,
        "category": finding.category,
        "severity": finding.severity,
        "subject": finding.subject,
        "uuid": finding.uuid,
        "title": said.title,
        "observed": said.observed,
        "expected": said.expected,
        "meaning": said.meaning,
        "ask": said.ask,
        "basis": finding.basis,
        "source": finding.source,
        "key": finding.key,
        "root": finding.root,
        "parameters": finding.parameters,
        "evidence": [_evidence(seen, one) for one in finding.evidence],
    }


def _evidence(seen: Seen, one: Evidence) -> dict[str, Any]:
    return {
        "metric": one.metric,
        "subject": one.subject,
        "with": one.conditions,
        "value": one.value,
        "source": one.source,
        "spread": one.spread,
        "method": one.method,
        "reading": seen.reading_number(one),
    }


def _reading(one: Reading) -> dict[str, Any]:
    out: dict[str, Any] = {
        "metric": one.metric,
        "subject": one.subject,
        "with": one.conditions,
        "value": one.value,
        "source": one.source,
    }
    for name in ("spread", "n", "stable"):
        value = getattr(one, name)
        if value is not None:
            out[name] = value
    return out


class _Document:
    """Written server by server: a thousand of them do not have to be in memory together."""

    def __init__(self, report: Report, path: Path) -> None:
        self.report = report
        self.whole = Whole(path)
        self.whole.file.write(_text(head(report))[:-1] + ',"servers":[')
        self.first = True

    def take(self, seen: Seen) -> None:
        """Append one server."""
        self.whole.file.write(("\n" if self.first else ",\n") + _text(server_document(self.report, seen)))
        self.first = False

    def end(self) -> list[Path]:
        """Close the list, add the ranking."""
        self.whole.file.write('\n],"ranking":' + _text(ranking(self.report)) + "}\n")
        return self.whole.done()


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def start(report: Report, path: Path) -> Sink:
    """Begin the document."""
    return _Document(report, path)
