"""Every finding has its words, every placeholder a parameter, every cause a meaning."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from auditor.judge import rule
from auditor.judge.texts import Text
from auditor.report.units import UNITS
from tests import builders
from tests.judge.faults import FAULTS
from tests.judge.judged import METAL_A100, METAL_H200, one

RULES = Path(rule.__file__).parent / "rules"


def given_ids() -> set[str]:
    """The ids that rule modules hand to `case.finding` in so many words."""
    ids: set[str] = set()
    for path in RULES.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "finding"
            if named and isinstance(node.args[0], ast.Constant):
                ids.add(node.args[0].value)
    return ids | {f.id for f in FAULTS}


def test_rules_are_found_by_walking() -> None:
    """Each theme has rules; nothing is listed anywhere."""
    assert len(rule.modules()) >= 12
    assert len(rule.server_rules()) >= 40
    assert {function.__name__ for function in rule.fleet_rules()} == {"across_servers", "slower_than_fleet"}
    assert all(function.__doc__ for function in (*rule.server_rules(), *rule.fleet_rules()))


def test_no_two_modules_give_texts_to_one_id() -> None:
    """An id belongs to one theme."""
    seen: dict[str, str] = {}
    for module in rule.modules():
        for id in getattr(module, "TEXTS", {}):
            assert id not in seen, f"{id} in {module.__name__} and {seen[id]}"
            seen[id] = module.__name__


def test_every_id_has_texts_with_units_the_report_knows() -> None:
    """Titles, observed, expected and meaning are there; every unit is one the formatter has."""
    assert len(given_ids()) > 40
    assert given_ids() <= set(rule.texts())
    for id, text in [(id, told) for id, one_ in rule.texts().items() for told in (one_, *one_.variants.values())]:
        assert isinstance(text, Text)
        for part in ("title", "observed", "expected", "meaning"):
            assert getattr(text, part), f"{id}: no {part}"
        for sentence in (text.title, text.observed, text.expected, text.meaning, text.ask):
            for unit in re.findall(r"\{\w+:([^}]+)\}", sentence):
                assert unit in UNITS, f"{id}: {unit}"


def test_numbers_read_right_for_one_and_for_many() -> None:
    """What stands as a count is neither "GPU(s)" nor "1 GPUs"."""
    for id, text in rule.texts().items():
        for told in (text, *text.variants.values()):
            said = f"{told.observed} {told.expected} {told.ask}"
            assert "(s)" not in said and not re.search(r"(?<!of )\{\w+:int\} (GPUs usable|families)", said), id


def test_no_source_names_what_a_reader_cannot_look_up() -> None:
    """Sources name documents of the project or of the makers, never notes that only their authors have."""
    for path in (*RULES.glob("*.py"), RULES.parent / "policy.yaml", RULES.parents[2] / "docs" / "thresholds.md"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"evidence catalogue|catalogue README|evidence §|acceptance document|\(evidence,", text), (
            path
        )


def test_causes_name_findings_that_exist() -> None:
    """A typo in CAUSES would silently join nothing."""
    known = set(rule.texts())
    for effect, ids in rule.causes().items():
        assert effect in known, effect
        assert set(ids) <= known, set(ids) - known


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_placeholders_are_parameters(fault) -> None:  # type: ignore[no-untyped-def]
    """No sentence of a real finding asks for a parameter that is not there."""
    for model, ordered in (("A100 SXM4 80GB", METAL_A100), ("H200 SXM5 141GB", METAL_H200)):
        for finding in one(fault.edit(builders.healthy(model)), ordered).findings:
            text = rule.texts()[finding.id].told(finding.parameters)
            wanted = set(re.findall(r"\{(\w+)", " ".join((text.title, text.observed, text.expected, text.ask))))
            given = set(finding.parameters) | {"server", "subject", "gpu", "basis_source"}
            assert wanted <= given, f"{finding.id}: {wanted - given}"
            assert finding.source, finding.id


def test_an_id_is_explained_by_its_rule() -> None:
    """The docstring behind an id is the rule's own; an unknown id has none."""
    assert rule.docstring("gpu-count-short").startswith("Fewer GPUs than ordered")
    assert rule.docstring("no-such-thing") == ""
    assert all(rule.docstring(id) for id in rule.texts())
