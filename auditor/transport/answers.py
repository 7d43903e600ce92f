"""What the module `gpu_probe` may say about a server. Its answer comes from the server: all but this is dropped."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any, Literal

import msgspec

from auditor.records import MAX_RECORD_BYTES
from auditor.showing import show

MAX_ANSWER_BYTES = MAX_RECORD_BYTES // 3 * 4 + 256 * 1024
_WORD_LIMIT = 200


class Running(msgspec.Struct, frozen=True):
    """The audit that runs on the server already; `same` when it was started with the same wishes."""

    run: str
    nonce: str
    same: bool = False


class Answer(msgspec.Struct, frozen=True):
    """One answer; texts are made fit to show, the record is still base64."""

    reason: str | None = None
    detail: str | None = None
    folder: str | None = None
    pid: int | None = None
    interpreter: str | None = None
    torch: str | None = None
    cuda: str | None = None
    chosen: str | None = None
    running: Running | str | None = None
    finished: bool = False
    rebooted: bool = False
    percent: float | None = None
    step: str | None = None
    figures: dict[str, float | None] | None = None
    exit: int | None = None
    last_words: str | None = None
    record: str | None = None
    sha256: str | None = None
    lacks: list[Literal["driver", "dcgm", "torch"]] = []
    plan: list[str] = []
    facts: dict[str, str | int | bool | None] | None = None
    listing: dict[str, list[str]] | None = None
    removed: list[str] = []
    left: list[str] = []


class Spoiled(Exception):
    """The answer cannot be understood or contradicts itself; the text says how."""


def understand(raw: Any) -> Answer:
    """The answer as known fields of known types.

    Raises:
        Spoiled: something else than an answer of the module came back.
    """
    try:
        answer = msgspec.convert(raw, Answer)
    except msgspec.ValidationError as error:
        raise Spoiled(f"the module's answer is malformed: {show(error)}") from None
    clean = {
        name: show(value, _WORD_LIMIT)
        for name in ("reason", "detail", "interpreter", "torch", "cuda", "step", "last_words")
        if isinstance(value := getattr(answer, name), str)
    }
    few = _WORD_LIMIT // 10
    return msgspec.structs.replace(
        answer,
        figures={show(name, 60): value for name, value in list((answer.figures or {}).items())[:few]},
        facts={
            show(name, 60): show(value, 120) if isinstance(value, str) else value
            for name, value in list((answer.facts or {}).items())[:few]
        },
        chosen=None if answer.chosen is None else show(answer.chosen, 400),
        plan=[show(step, 300) for step in answer.plan[:few]],
        listing=None if answer.listing is None else _listing(answer.listing),
        **clean,
    )


def _listing(raw: dict[str, list[str]]) -> dict[str, list[str]]:
    """A listing as text that may be shown, cut at what a server can honestly have."""
    return {show(kind, 40): [show(one, 300) for one in names[:2000]] for kind, names in list(raw.items())[:10]}


def record_bytes(answer: Answer) -> bytes | None:
    """The record as the server wrote it, None where none came.

    Raises:
        Spoiled: it was cut or altered on the way (its hash does not fit), or is no base64.
    """
    if answer.record is None:
        return None
    try:
        data = base64.b64decode(answer.record, validate=True)
    except (binascii.Error, ValueError):
        raise Spoiled("the record is no base64") from None
    if hashlib.sha256(data).hexdigest() != answer.sha256:
        raise Spoiled("the record's hash does not fit: it was cut on the way")
    return data
