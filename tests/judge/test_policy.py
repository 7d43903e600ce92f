"""The policy: complete, sourced, and refusing what it does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.errors import UserError
from auditor.judge import needs, policy, ranking
from auditor.judge.policy import Lines


def given(tmp_path: Path, text: str) -> policy.Policy:
    """The shipped policy with this text laid over it."""
    (tmp_path / "policy.yaml").write_text(text, encoding="utf-8")
    return policy.read(tmp_path / "policy.yaml")


def test_every_line_has_a_source() -> None:
    """A number without a source is not used."""
    shipped = policy.load()
    for name in Lines.__struct_fields__:
        assert len(getattr(shipped.lines, name).source) > 10, name


def test_needs_and_parts_are_answered() -> None:
    """Every need and part a policy may name has a function behind it, and no function is without a name."""
    assert set(policy.NEEDS) == set(needs.NEEDS)
    figures = {"flops_delivered": 1.0, "allreduce_busbw": 1.0, "memory_read": 1.0, "h2d": 1.0, "slowest_ratio": 1.0}
    assert all(ranking.part(name, figures, 8) is not None for name in policy.PARTS)


def test_a_file_lies_over_the_shipped_values(tmp_path: Path) -> None:
    """One line changed, all others kept; the hash says that it is another policy."""
    mine = given(tmp_path, "lines:\n  tie:\n    value: 0.02\n    source: our own repeats\n")
    shipped = policy.load()
    assert mine.lines.tie.value == 0.02
    assert mine.lines.siblings_review == shipped.lines.siblings_review
    assert mine.sha256 != shipped.sha256
    assert given(tmp_path, "  \n") is shipped
    assert policy.read(None) is shipped


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lines:\n  tye: {value: 1, source: x}\n", "policy.yaml:2: object contains unknown field `tye` at `lines`"),
        ("lines:\n  tie: {value: much}\n", "policy.yaml:2: expected `float`, got `str` at `lines.tie.value`"),
        ("lines:\n  tie:\n    value: 4e10\n", "write 4e+10"),
        ("lines:\n  tie: {source: '  '}\n", "lines.tie: a line without a source is not used"),
        ("lines:\n  siblings_review: {value: -0.1}\n", "lines.siblings_review: -0.1 is no line; give a number of 0 or"),
        ("lines:\n  power_cap: {value: .nan}\n", "lines.power_cap: nan is no line"),
        ("weights:\n  mining: {compute: 1}\n", "`mining` is no use; the uses are training_multi_gpu"),
        ("weights:\n  inference: {speed: 1}\n", "`speed` is no part; the parts are compute"),
        ("weights:\n  inference: {compute: -1}\n", "weights of inference: give weights of 0 or more"),
        ("needed:\n  fast: [model]\n", "`fast` is no profile; the profiles are quick"),
        ("needed_of_several: [colour]\n", "`colour` is no need; the needs are model"),
        ("- 1\n", "a policy maps names to values"),
        ("lines: [\n", "not YAML"),
    ],
)
def test_typos_are_refused_with_their_place(tmp_path: Path, text: str, said: str) -> None:
    """Each mistake is a sentence that names the file and what would be right."""
    with pytest.raises(UserError) as caught:
        given(tmp_path, text)
    assert said in str(caught.value)


def test_an_unreadable_policy_is_said(tmp_path: Path) -> None:
    """A folder in place of the file is an error, not the shipped policy."""
    with pytest.raises(UserError, match="the policy cannot be read"):
        policy.read(tmp_path)
