"""Everything the record will hold, as it comes; and the record, within the limits of the wire."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Tuple

from auditor import records
from auditor.records import ProbeRow, Reading, Record, Series, Subject

from .gpu_facts import GpuFacts

_KINDS = (("/link", "link"), ("-", "pair"), ("gpu", "gpu"), ("nic", "nic"))
_MAX_TEXT = 16_000


class Ledger:
    """Readings (the latest of each identity counts), rows, series, attachments."""

    def __init__(self) -> None:
        self.rows: List[ProbeRow] = []
        self._readings: Dict[Tuple[str, str, str, str], Reading] = {}
        self._series: Dict[Tuple[str, str], Series] = {}
        self._attachments: Dict[str, str] = {}
        self.changed = False

    @property
    def readings(self) -> List[Reading]:
        """All readings, in the order of their first coming."""
        return list(self._readings.values())

    def add(self, wire: Dict[str, Any]) -> Reading:
        """A reading from a worker."""
        value = wire["value"]
        if isinstance(value, str):
            value = _clean(value)[:_MAX_TEXT]
        reading = Reading(
            probe=wire["probe"],
            metric=wire["metric"],
            subject=wire["subject"],
            value=value,
            source=wire["source"],
            conditions={k: _clean(v) if isinstance(v, str) else v for k, v in wire["with"].items()},
            spread=wire["spread"],
            n=wire["n"],
            stable=wire["stable"],
        )
        key = (reading.metric, reading.subject, json.dumps(reading.conditions, sort_keys=True), reading.source)
        self._readings[key] = reading
        self.changed = True
        return reading

    def add_series(self, metric: str, subject: str, t: List[float], v: List[Optional[float]]) -> None:
        """A series, thinned evenly to what the wire allows."""
        step = -(-len(t) // records.MAX_SERIES_POINTS) or 1
        self._series[metric, subject] = Series(metric, subject, tuple(t[::step]), tuple(v[::step]))

    def attach(self, name: str, text: str) -> None:
        """Another tool's output; what is over the cap loses its middle, and says so."""
        raw = _clean(text).encode()
        cap = records.MAX_ATTACHMENT_BYTES
        if len(raw) > cap:
            half = cap // 2 - 64
            raw = raw[:half] + b"\n[... %d bytes left out ...]\n" % (len(raw) - 2 * half) + raw[-half:]
        self._attachments[name] = raw.decode("utf-8", "ignore")

    def facts(self) -> str:
        """The readings so far as JSON, for the probes that build on them."""
        self.changed = False
        return json.dumps(
            [{"metric": r.metric, "subject": r.subject, "with": r.conditions, "value": r.value} for r in self.readings]
        )

    def document(self, gpus: List[GpuFacts], **head: Any) -> bytes:
        """The record as bytes. Past the cap the largest attachments go first, then the series."""
        attachments, series = dict(self._attachments), list(self._series.values())
        while True:
            record = Record(
                schema=records.SCHEMA,
                subjects=tuple(self._subjects(gpus)),
                probes=tuple(self.rows),
                readings=tuple(self.readings),
                series=tuple(series),
                attachments=attachments,
                **head,
            )
            data = json.dumps(records.to_document(record), allow_nan=False, ensure_ascii=False).encode()
            surplus = len(data) - records.MAX_RECORD_BYTES
            if surplus <= 0 or not (attachments or series):
                return data
            for name in sorted(attachments, key=lambda name: -len(attachments[name])):
                if surplus > 0:
                    surplus -= len(json.dumps(attachments.pop(name), ensure_ascii=False).encode())
            if surplus > 0:
                series.clear()

    def _subjects(self, gpus: List[GpuFacts]) -> List[Subject]:
        named = [Subject("server", "server")]
        named += [Subject(gpu.subject, "gpu", gpu.index, gpu.uuid, gpu.pci, gpu.name) for gpu in gpus]
        known = {subject.id for subject in named}
        names = {r.subject: r.value for r in self.readings if r.metric == "topology_nic_name"}
        for identity in sorted({r.subject for r in self.readings} | {r.subject for r in self.rows}):
            if identity not in known:
                name = names.get(identity)
                named.append(Subject(identity, _kind(identity), name=name if isinstance(name, str) else None))
        return named


def _kind(identity: str) -> str:
    return next((kind for mark, kind in _KINDS if mark in identity), "server")


def _clean(text: str) -> str:
    """Text of a machine may hold what is no character; the record is UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
