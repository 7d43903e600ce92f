"""`--redact`: addresses, host names, serials and UUIDs replaced, the same value always by the same name.

Names are numbered in the order of the inventory, so that two formats of one report agree. What a server calls
itself, what the inventory calls it, and its label all go; models, PCI addresses and figures stay, and so do the
audit's own sentences, whatever a server may be called.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from auditor import catalog
from auditor.finding import Evidence, Finding, Judgement, Score, ServerResult
from auditor.records import Condition, Reading, Record, Subject, Value
from auditor.report import texts
from auditor.report.view import Judged
from auditor.runs import Run

_UUID = re.compile(r"\b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b")
_MAC = re.compile(r"(?<![\w:])[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}(?![\w:])")
_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]|[A-Za-z0-9]")
_OURS = re.compile(r"(gpu|nic)\d+|server|localhost|none|gpu|true|false|yes|no|[a-z0-9]", re.IGNORECASE)
_SERIALS = ("gpu_identity_serial",)
_HOSTS = ("server_facts_hostname",)
_MODELS = ("gpu_identity_name",)
_MAKER = "nvidia "
_FREE_TEXT_LIMIT = 400  # longer raw texts may hold anything; they are left out


class Names:
    """Gives every secret value its stand-in."""

    def __init__(self) -> None:
        self._aliases: dict[tuple[str, str], str] = {}
        self._words: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._models = re.compile(
            rf"(?<![\w-])(?:{'|'.join(map(re.escape, _model_phrases()))})(?![\w-])", re.IGNORECASE
        )

    def alias(self, kind: str, value: str) -> str:
        """The stand-in of a value: `server-0001`, `uuid-0001`."""
        key = (kind, value if kind in ("server", "label") else value.casefold())
        if key not in self._aliases:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._aliases[key] = f"{kind}-{self._counts[kind]:04d}"
        return self._aliases[key]

    def word(self, kind: str, value: str) -> None:
        """From now on this word is replaced wherever it stands in a text."""
        if value and not _OURS.fullmatch(value):
            self._words.setdefault(value.casefold(), self.alias(kind, value))

    def text(self, text: str) -> str:
        """A text without anything that names a machine; a model's name in it stays whole."""
        text = self.ours(text)
        if not self._words:
            return text
        out, end = [], 0
        for model in self._models.finditer(text):
            out += [_WORD.sub(self._known, text[end : model.start()]), model[0]]
            end = model.end()
        return "".join(out) + _WORD.sub(self._known, text[end:])

    def ours(self, text: str) -> str:
        """A text of the audit itself: only what is an address or an identity by its very form is replaced."""
        text = _UUID.sub(lambda found: self.alias("uuid", found[0]), text)
        text = _MAC.sub(lambda found: self.alias("mac", found[0]), text)
        text = _IPV6.sub(self._address, text)
        return _IPV4.sub(self._address, text)

    def _address(self, found: re.Match[str]) -> str:
        try:
            address = ipaddress.ip_address(found[0])
        except ValueError:
            return found[0]
        return self.alias("address", str(address)) if address.compressed != "::" else found[0]

    def _known(self, found: re.Match[str]) -> str:
        word = found[0].casefold()
        known = self._words.get(word)
        if known is None and "." in word:  # gpu-01.example.com is gpu-01
            known = self._words.get(word.split(".", 1)[0])
        return known or found[0]


@cache
def _model_phrases() -> tuple[str, ...]:
    """Model names that no server bears by chance: of several words, or with their maker; longest first."""
    names = {name.casefold() for model in catalog.load().models for name in (model.name, *model.nvml_names)}
    names |= {_MAKER + name for name in names if not name.startswith(_MAKER)}
    return tuple(sorted((name for name in names if " " in name), key=lambda name: (-len(name), name)))


@cache
def _model_names() -> frozenset[str]:
    """Every name of a model, short ones too."""
    return frozenset(name.casefold() for model in catalog.load().models for name in (model.name, *model.nvml_names))


def _is_ours(text: str) -> bool:
    """True for a model's name and for the audit's own words: they came from no server."""
    known = texts.load("zh")
    return text.casefold() in _model_names() or known.has(text) or all(known.has(one) for one in text.split(", "))


def redacted(parts: Sequence[Judged]) -> list[Judged]:
    """The runs without anything that names a machine."""
    names = Names()
    for part in parts:
        for server in part.judgement.servers:
            names.word("server", server.name)
            names.word("label", server.label or "")
            record = part.record(server.name)
            for reading in record.readings if record else ():
                _learn(names, reading)
            if record is not None:
                names.word("server" if record.server == server.name else "host", record.server)
    return [Redacted(part, names) for part in parts]


def _learn(names: Names, reading: Reading) -> None:
    if isinstance(reading.value, str):
        if reading.metric in _SERIALS:
            names.word("serial", reading.value)
        elif reading.metric in _HOSTS:
            names.word("host", reading.value)


class Redacted:
    """A judged run seen through the stand-ins."""

    def __init__(self, part: Judged, names: Names) -> None:
        self._part, self._names = part, names
        self._original = {names.alias("server", server.name): server.name for server in part.judgement.servers}
        servers = tuple(_server(names, server) for server in part.judgement.servers)
        self._judgement = msgspec.structs.replace(part.judgement, servers=servers)

    @property
    def judgement(self) -> Judgement:
        """Everything the run came to."""
        return self._judgement

    @property
    def run(self) -> Run | None:
        """The run folder it came from."""
        return self._part.run

    def record(self, name: str) -> Record | None:
        """One server's record."""
        record = self._part.record(self._original.get(name, name))
        return None if record is None else _record(self._names, record, name)


def _server(names: Names, server: ServerResult) -> ServerResult:
    return msgspec.structs.replace(
        server,
        name=names.alias("server", server.name),
        label=None if server.label is None else names.alias("label", server.label),
        reason=_maybe(names, server.reason),
        findings=tuple(_finding(names, finding) for finding in server.findings),
        gpus=tuple(
            msgspec.structs.replace(gpu, uuid=_maybe(names, gpu.uuid), name=_model(names, gpu.name))
            for gpu in server.gpus
        ),
        scores=tuple(_score(names, score) for score in server.scores),
    )


def _score(names: Names, score: Score) -> Score:
    return msgspec.structs.replace(score, tied_with=tuple(names.alias("server", name) for name in score.tied_with))


def _finding(names: Names, finding: Finding) -> Finding:
    server = names.alias("server", finding.server)
    return msgspec.structs.replace(
        finding,
        server=server,
        root=_root(names, finding, server),
        source=names.ours(finding.source),
        parameters={key: _parameter(names, value) for key, value in finding.parameters.items()},
        evidence=tuple(_evidence(names, one) for one in finding.evidence),
        uuid=_maybe(names, finding.uuid),
    )


def _root(names: Names, finding: Finding, server: str) -> str | None:
    """A root's key begins with its server's name."""
    if finding.root is None:
        return None
    if finding.root.startswith(f"{finding.server}:"):
        return server + finding.root.removeprefix(finding.server)
    name, colon, rest = finding.root.partition(":")
    return names.alias("server", name) + colon + rest


def _evidence(names: Names, one: Evidence) -> Evidence:
    conditions = _conditions(names, one.conditions)
    value = _parameter(names, one.value) if one.metric in _MODELS else _value(names, one.value)
    return msgspec.structs.replace(one, value=value, conditions=conditions)


def _record(names: Names, record: Record, name: str) -> Record:
    """Attachments are other tools' raw output and may hold anything: they go."""
    return dataclasses.replace(
        record,
        server=name,
        nonce=None,
        subjects=tuple(_subject(names, one) for one in record.subjects),
        probes=tuple(dataclasses.replace(one, reason=_maybe(names, one.reason)) for one in record.probes),
        readings=tuple(_reading(names, one) for one in record.readings),
        attachments={},
    )


def _subject(names: Names, one: Subject) -> Subject:
    return dataclasses.replace(one, uuid=_maybe(names, one.uuid), name=_model(names, one.name))


def _reading(names: Names, one: Reading) -> Reading:
    if one.metric in _SERIALS and isinstance(one.value, str):
        return dataclasses.replace(one, value=names.alias("serial", one.value))
    if one.metric in _HOSTS and isinstance(one.value, str):
        return dataclasses.replace(one, value=names.alias("host", one.value))
    if one.metric in _MODELS:
        return dataclasses.replace(
            one, value=_parameter(names, one.value), conditions=_conditions(names, one.conditions)
        )
    if not isinstance(one.value, str) and not one.conditions:
        return one
    return dataclasses.replace(one, value=_value(names, one.value), conditions=_conditions(names, one.conditions))


def _conditions(names: Names, conditions: Mapping[str, Condition]) -> dict[str, Condition]:
    return {key: names.text(value) if isinstance(value, str) else value for key, value in conditions.items()}


def _value(names: Names, value: Value) -> Value:
    if not isinstance(value, str):
        return value
    return names.text(value) if len(value) <= _FREE_TEXT_LIMIT else "(left out: a long text)"


def _parameter(names: Names, value: Value) -> Value:
    """A parameter of a finding is a model, a word of ours, or what a server said."""
    return value if isinstance(value, str) and _is_ours(value) else _value(names, value)


def _model(names: Names, name: str | None) -> str | None:
    return name if name is None or name.casefold() in _model_names() else names.text(name)


def _maybe(names: Names, text: str | None) -> str | None:
    return None if text is None else names.text(text)
