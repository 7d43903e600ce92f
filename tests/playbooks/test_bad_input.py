"""What a person may get wrong: one sentence that names server or file, before any server is contacted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.playbooks.conftest import Auditor

# No fleet marker: nothing here may come so far as to contact a server. The addresses belong to nobody (RFC 5737).


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
        ({"a": {"audit_order": {"gpus": 8, "gpu": "H200", "colour": "red"}}}, {}, "a: audit_order: "),
        ({"a": {}, "b": {"audit_order": {"gpus": "eight"}}}, {}, "b: audit_order: "),
        ({"a": {"audit_order": {"gpus": 2, "gpu": "H200", "price_per_hour": 3}}}, {}, "currency"),
        ({"a": {"audit_profil": "quick"}}, {}, "Did you mean audit_profile?"),
        ({"a": {}}, {"audit_profile": "fast"}, "a: audit_profile: 'fast' is none of quick, standard, soak"),
        ({"a": {}}, {"audit_fail_on": "always"}, "audit_fail_on: 'always' is none of never"),
        ({"a": {}}, {"audit_probe": "/nowhere/x.pyz"}, "make pyz"),
        ({"a": {}}, {"audit_wheelhouse": "/nowhere"}, "make wheelhouse"),
        ({"-oProxyCommand=x": {}}, {}, "is refused"),
        ({"gpu 01": {}}, {}, "is refused"),
        ({"gpu-01": {}, "GPU-01": {}}, {}, "differ only in case"),
        ({"a": {}}, {"audit_results": "/proc/nowhere"}, "the run folder cannot be made"),
    ],
)  # fmt: skip
def test_one_sentence_that_names_the_place(say: Any, hosts: Any, wishes: dict[str, Any], sentence: str) -> None:
    """Unknown keys, wrong types, impossible names, missing files."""
    out = say(hosts, **wishes)
    assert sentence in out and out.count("\n") <= 2, out


def test_an_empty_inventory(say: Any) -> None:
    """No server is not a success."""
    assert "no server" in say("all:\n  hosts: {}\n")


def test_an_unreadable_inventory_names_the_file(say: Any) -> None:
    """Broken YAML: Ansible itself names file and line."""
    assert "hosts.yml" in say("all: [unclosed\n  hosts: {a: }\n")
