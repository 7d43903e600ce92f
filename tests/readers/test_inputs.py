"""Every input of tests/readers/inputs, one per quirk, is read as the file beside it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditor.readers.kinds import readers
from tests.readers import reading_inputs


@pytest.mark.parametrize("path", reading_inputs.cases(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_input_is_read_as_expected(path: Path) -> None:
    """Kind, readings and unreadable lines of each section are exactly those written down."""
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert reading_inputs.plain(path.read_bytes()) == expected


def test_every_reader_has_inputs() -> None:
    """No reader stands without an input of its own, and every folder of inputs belongs to a reader."""
    kinds = {reader.KIND for reader in readers()}
    folders = {path.parent.name for path in reading_inputs.cases()}
    assert kinds == folders


def test_every_input_is_recognised_as_its_folder_says() -> None:
    """The kind follows from the content: each input holds a section of the kind its folder is named after."""
    for path in reading_inputs.cases():
        kinds = {section["kind"] for section in reading_inputs.plain(path.read_bytes())}
        assert path.parent.name in kinds, path
