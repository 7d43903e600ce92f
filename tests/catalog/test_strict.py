"""YAML that people edit: every error names file and line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from auditor.catalog import strict
from auditor.errors import UserError


class Thing(msgspec.Struct, forbid_unknown_fields=True):
    """A small target."""

    name: str
    rate: float
    parts: list[float] = []


def refused(text: str, kind: object = list[Thing]) -> str:
    """The sentence a text is refused with."""
    with pytest.raises(UserError) as caught:
        strict.loads(text, kind, "things.yaml")  # type: ignore[type-var]
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "things.yaml: the file is empty"),
        ("- {name: a\n", "things.yaml:2: not YAML"),
        ("- name: a\n  rate: 1\n  rate: 2\n", "things.yaml:3: `rate` stands twice"),
        ("- name: a\n  rate: 1\n  rote: 2\n", "things.yaml:3: object contains unknown field `rote` at `[0]`"),
        ("- name: a\n  rate: fast\n", "things.yaml:2: expected `float`, got `str` at `[0].rate`"),
        ("- name: a\n", "things.yaml:1: object missing required field `rate`"),
        (
            "- name: a\n  rate: 1\n  parts:\n  - 1\n  - x\n",
            "things.yaml:5: expected `float`, got `str` at `[0].parts[1]`",
        ),
        ("name: a\n", "things.yaml:1: expected `array`, got `object`"),
    ],
)
def test_refusals_name_file_and_line(text: str, said: str) -> None:
    """What is wrong stands at the line it is wrong in."""
    assert refused(text).startswith(said)


def test_a_number_that_yaml_reads_as_text_is_named() -> None:
    """PyYAML reads 3.35e12 as text; the error says how to write it."""
    assert "write 3.35e+12" in refused("- name: a\n  rate: 3.35e12\n")


def test_a_map_of_structs_is_located_as_far_as_it_can_be() -> None:
    """Under a map whose keys the library does not name, the line of the map is given."""
    said = refused("a: {name: x, rate: fast}\n", dict[str, Thing])
    assert said.startswith("things.yaml:1: expected `float`, got `str`")


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    """A missing file is an error a person can act on."""
    with pytest.raises(UserError, match=r"absent\.yaml: cannot be read"):
        strict.load(tmp_path / "absent.yaml", list[Thing])


def test_good_text_is_read() -> None:
    """Ints serve as floats, nothing else is bent."""
    assert strict.loads("- {name: a, rate: 1, parts: [2.5]}", list[Thing], "x") == [Thing("a", 1.0, [2.5])]
