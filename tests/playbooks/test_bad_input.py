"""What a person may get wrong: one sentence that names server or file, before any server is contacted.

Every rule has its own test in test_wishes.py, test_order.py and test_collect.py; here, that Ansible lets them speak.
The addresses belong to nobody (RFC 5737), and nothing may come so far as to contact one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.conftest import Auditor


@pytest.fixture
def say(stub_probe: Path, tmp_path: Path) -> Any:
    """`say(hosts, *words, **wishes)`: what an audit of this inventory prints; it must not have opened a run."""

    class Nobody:
        """A fleet without machines."""

        inventory = tmp_path / "none"

    def run(hosts: Any, *words: str, **wishes: Any) -> str:
        inventory = tmp_path / "inventory" / "hosts.yml"
        inventory.parent.mkdir(exist_ok=True)
        inventory.write_text(hosts if isinstance(hosts, str) else json.dumps({"all": {"hosts": hosts}}))
        auditor = Auditor(Nobody(), stub_probe, tmp_path / "results")  # type: ignore[arg-type]
        done = auditor(*words, inventory=inventory, **wishes)
        assert done.code != 0 and done.folder is None, done.out
        assert "Traceback" not in done.out
        return done.out

    return run


@pytest.mark.parametrize(
    ("hosts", "wishes", "sentence"),
    [
        ({"a": {}, "b": {"audit_order": {"gpus": "eight"}}}, {}, "audit: b: audit_order: "),
        ({"a": {"audit_profil": "quick"}}, {}, "Did you mean audit_profile?"),
        ({"a": {}}, {"audit_probe": "/nowhere/x.pyz"}, "make pyz"),
    ],
    ids=["order", "variable", "probe file"],
)
def test_one_sentence_that_names_the_place(say: Any, hosts: Any, wishes: dict[str, Any], sentence: str) -> None:
    """The sentence stands alone: no recap, no traceback, no server contacted."""
    out = say(hosts, **wishes)
    assert sentence in out and out.count("\n") <= 2, out


def test_an_empty_inventory(say: Any) -> None:
    """No server is not a success."""
    assert "the inventory has no server" in say("all:\n  hosts: {}\n")


def test_a_limit_that_matches_nobody(say: Any) -> None:
    """Ansible itself says so."""
    assert "--limit" in say({"a": {}}, "--limit", "nobody")


def test_an_unreadable_inventory_names_the_file(say: Any) -> None:
    """Broken YAML: Ansible itself names file and line."""
    assert "hosts.yml" in say("all: [unclosed\n  hosts: {a: }\n")
