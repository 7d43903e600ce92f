"""What a module may say: known fields of known types, made fit to show; the rest is dropped or refused."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from auditor.transport import answers
from auditor.transport.answers import Answer, Spoiled


def test_unknown_fields_are_dropped() -> None:
    """Facts for Ansible, hosts to add, anything else: gone."""
    answer = answers.understand({"finished": True, "ansible_facts": {"x": 1}, "add_host": {"host_name": "evil"}})
    assert answer == Answer(finished=True, figures={}, facts={}, plan=[])


@pytest.mark.parametrize(
    "raw",
    [[], "text", {"finished": "yes"}, {"percent": "\x1b[31m"}, {"figures": {"a": "b"}}, {"pid": 1.5}, {"lacks": ["x"]}],
)
def test_R04_wrong_types_are_refused(raw: Any) -> None:
    """No coercion: a wrong type is an answer that cannot be used."""
    with pytest.raises(Spoiled):
        answers.understand(raw)


def test_R12_texts_are_tame_and_few() -> None:
    """Every text is one short line; a flood of figures is cut."""
    raw = {"step": "a\x1b[2J\nb", "detail": "x" * 999, "figures": {f"m{i}": 1.0 for i in range(999)}, "plan": ["\x07"]}
    answer = answers.understand(raw)
    assert answer.step == "a\\x1b[2J b" and len(answer.detail or "") <= 200
    assert len(answer.figures or {}) <= 20 and answer.plan == ["\\x07"]


def test_a_record_comes_as_it_was() -> None:
    """base64 and hash bring the bytes back."""
    data = bytes(range(256))
    sent = {"record": base64.b64encode(data).decode(), "sha256": hashlib.sha256(data).hexdigest()}
    assert answers.record_bytes(answers.understand(sent)) == data
    assert answers.record_bytes(Answer()) is None


@pytest.mark.parametrize("record", ["!!!", "QUJD", "QUJ", "é"])
def test_F03_a_record_cut_on_the_way_is_refused(record: str) -> None:
    """The hash is of other bytes, or it is no base64 at all."""
    with pytest.raises(Spoiled):
        answers.record_bytes(Answer(record=record, sha256=hashlib.sha256(b"whole").hexdigest()))
