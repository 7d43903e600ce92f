"""The one reader of records: bytes from a stranger in, a `Record` or a reason out.

Size cap, UTF-8, depth scan, strict JSON (duplicate keys, NaN, infinity refused), schema, then
`msgspec.convert` into the dataclasses of `auditor.records`. Nothing else opens a fetched file.
Threats R01-R08, R15, R16, R18, R19 of the threat list are answered here.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import math
import os
import re
import stat
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from auditor import records
from auditor.records import Record

_KNOWN = {
    "record": {f.name for f in dataclasses.fields(records.Record)},
    "subjects": {f.name for f in dataclasses.fields(records.Subject)},
    "probes": {f.name for f in dataclasses.fields(records.ProbeRow)},
    "readings": {f.name for f in dataclasses.fields(records.Reading)} - {"conditions"} | {"with"},
    "series": {f.name for f in dataclasses.fields(records.Series)},
}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,127}")
_SUBJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,95}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)")  # RFC 3339
_MAX_TEXT = 32_000
_MAX_ROWS = 200_000


@dataclasses.dataclass(frozen=True)
class Refused:
    """A record that was not accepted: `reason` is a fixed word, `detail` names the place."""

    reason: str
    detail: str
    sha256: str | None = None

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


@dataclasses.dataclass(frozen=True)
class Read:
    """An accepted record, with the hash of its bytes and the count of keys that were not understood."""

    record: Record
    sha256: str
    unknown_keys: int = 0


class _Refusal(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


def read_file(path: Path) -> Read | Refused:
    """Read one record from a regular file; never follows a link, never reads past the cap."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        why = "a link, which is not followed" if error.errno == errno.ELOOP else error.strerror
        return Refused("unreadable", f"{path.name}: {why}")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return Refused("unreadable", f"{path.name}: not a regular file")
    with os.fdopen(handle, "rb") as file:
        data = file.read(records.MAX_RECORD_BYTES + 1)
    return read_bytes(data)


def read_bytes(data: bytes) -> Read | Refused:
    """Read one record from bytes. Never raises for anything the bytes may hold."""
    if len(data) > records.MAX_RECORD_BYTES:
        return Refused("too_large", f"more than {records.MAX_RECORD_BYTES} bytes")
    digest = hashlib.sha256(data).hexdigest()
    try:
        document = _strict_json(data)
        unknown = _shape(document)
        return Read(_convert(document, surrogates=b"\\ud" in data or b"\\uD" in data), digest, unknown)
    except _Refusal as refusal:
        return Refused(refusal.reason, refusal.detail, digest)


def _strict_json(data: bytes) -> dict[str, Any]:
    if not data.strip(b"\0 \t\r\n"):
        raise _Refusal("unreadable", "the file is empty")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _Refusal("unreadable", f"not UTF-8 at byte {error.start}") from None
    _depth(data)
    try:
        document = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite, parse_int=_int
        )
    except ValueError as error:
        raise _Refusal("unreadable", f"not one JSON document: {str(error)[:120]}") from None
    if not isinstance(document, dict):
        raise _Refusal("malformed", "the record is no JSON object")
    return document


_OUTSIDE = bytes(set(range(256)) - set(b'[]{}"'))


def _depth(data: bytes) -> None:
    """Refuse nesting past the cap before the parser recurses; brackets inside strings do not count.

    Without escapes the quotes of a JSON text alternate, so every other piece between them is outside of strings.
    """
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = b"".join(data.translate(None, _OUTSIDE).split(b'"')[::2])
    depth = 0
    for mark in marks:
        if mark in b"[{":
            depth += 1
            if depth > records.MAX_DEPTH:
                raise _Refusal("too_deep", f"nested deeper than {records.MAX_DEPTH}")
        else:
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Refusal("duplicate_key", f"the key {twice[:60]!r} stands twice in one object")
    return out


def _no_constant(word: str) -> float:
    raise _Refusal("not_finite", f"{word} is no figure")


def _finite(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise _Refusal("not_finite", f"{word[:40]} is out of range")
    return value


def _int(word: str) -> int:
    if len(word) > 19:
        raise _Refusal("out_of_range", f"an integer of {len(word)} digits")
    value = int(word)
    if not -(2**63) <= value < 2**63:
        raise _Refusal("out_of_range", f"the integer {word}")
    return value


def _shape(document: dict[str, Any]) -> int:
    """Check the schema number and the rows' outer form; returns how many keys were not understood."""
    schema = document.get("schema")
    if type(schema) is not int or schema != records.SCHEMA:
        raise _Refusal(
            "unsupported_version",
            f"schema {str(schema)[:20]!r}, this auditor reads {records.SCHEMA}; "
            "update the auditor if the record is newer (the raw file is kept)",
        )
    unknown = len(set(document) - _KNOWN["record"])
    for name in ("subjects", "probes", "readings", "series"):
        rows = document.get(name, [])
        if not isinstance(rows, list):
            raise _Refusal("malformed", f"{name} is no list")
        if len(rows) > _MAX_ROWS:
            raise _Refusal("too_large", f"{len(rows)} rows in {name}")
        for index, row in enumerate(rows):
            if not isinstance(row, dict):
                raise _Refusal("malformed", f"{name}[{index}] is no object")
            unknown += len(set(row) - _KNOWN[name])
            if name == "readings":
                if "conditions" in row:
                    raise _Refusal("malformed", f"readings[{index}]: `conditions` is written `with`")
                row["conditions"] = row.pop("with", {})
    return unknown


def _convert(document: dict[str, Any], surrogates: bool) -> Record:
    try:
        record = msgspec.convert(document, Record)
    except msgspec.ValidationError as error:
        raise _Refusal("malformed", str(error)[:200].replace("conditions", "with")) from None
    _check(record)
    if surrogates:  # only an escape can smuggle one past the UTF-8 decoder
        _no_surrogates(record)
    return record


def _check(record: Record) -> None:
    if record.profile not in records.PROFILES:
        raise _Refusal("malformed", f"profile {record.profile[:40]!r}")
    if not _is_time(record.started):
        raise _Refusal("malformed", f"started: {record.started[:40]!r} is no RFC 3339 time")
    for name, text in record.attachments.items():
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
            raise _Refusal("malformed", f"attachment name {name[:40]!r}")
        if len(text.encode("utf-8", "surrogatepass")) > records.MAX_ATTACHMENT_BYTES:
            raise _Refusal("too_large", f"attachment {name}")
    for index, subject in enumerate(record.subjects):
        if not _SUBJECT.fullmatch(subject.id) or subject.kind not in records.SUBJECT_KINDS:
            raise _Refusal("malformed", f"subjects[{index}]: {subject.id[:40]!r} of kind {subject.kind[:20]!r}")
    for index, row in enumerate(record.probes):
        if row.status not in records.STATUSES or not _NAME.fullmatch(row.probe):
            raise _Refusal("malformed", f"probes[{index}]: status {row.status[:20]!r}")
    known: set[tuple[str, str, str]] = set()
    for index, reading in enumerate(record.readings):
        named = (reading.metric, reading.subject, reading.source)
        if named not in known:
            _check_names(reading, f"readings[{index}]")
            known.add(named)
        if isinstance(reading.value, str) and len(reading.value) > _MAX_TEXT:
            raise _Refusal("too_large", f"readings[{index}]: a text of {len(reading.value)} characters")
    for index, series in enumerate(record.series):
        if len(series.t) != len(series.v) or len(series.t) > records.MAX_SERIES_POINTS:
            raise _Refusal("malformed", f"series[{index}]: {len(series.t)} times, {len(series.v)} values")


def _is_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _check_names(reading: records.Reading, where: str) -> None:
    if not _NAME.fullmatch(reading.metric) or not _SUBJECT.fullmatch(reading.subject):
        raise _Refusal("malformed", f"{where}: metric {reading.metric[:40]!r} of {reading.subject[:40]!r}")
    if records.family(reading.source) not in records.FAMILIES:
        raise _Refusal("malformed", f"{where}: source {reading.source[:40]!r}")


def _no_surrogates(record: Record) -> None:
    try:
        msgspec.json.encode(record)
    except (UnicodeEncodeError, ValueError):
        raise _Refusal("unreadable", "a lone surrogate in a text") from None
