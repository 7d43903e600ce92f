"""What a person may get wrong: one sentence that names server or file, before any server is contacted.

Every rule has its own test in test_wishes.py, test_order.py and test_collect.py; here, that Ansible lets them speak.
The addresses belong to nobody (RFC 5737), and nothing may come so far as to contact one.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import openpyxl
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
        ({"a": {"audit_profil": "quick"}}, {}, "Did you mean audit_profile?"),
        ({"a": {}}, {"audit_probe": "/nowhere/x.pyz"}, "make pyz"),
    ],
    ids=["variable", "probe file"],
)
def test_one_sentence_that_names_the_place(say: Any, hosts: Any, wishes: dict[str, Any], sentence: str) -> None:
    """The sentence stands alone: no recap, no traceback, no server contacted."""
    out = say(hosts, **wishes)
    assert sentence in out and out.count("\n") <= 2, out


def rows_of(folder: Path | None, sheet: str) -> list[list[str]]:
    """The rows of a sheet of a run's workbook, as text."""
    assert folder
    book = openpyxl.load_workbook(folder / "report" / "report.xlsx", read_only=True)
    return [[str(cell) for cell in row] for row in book[sheet].iter_rows(values_only=True, max_col=12)]


def test_orders_that_are_all_bad_still_give_a_workbook(stub_probe: Path, tmp_path: Path) -> None:
    """Each server is incomplete with its own sentence, nobody is contacted; `--tags report` reports that run again."""
    inventory = tmp_path / "mine.yml"
    orders = {"a": {"gpus": 8, "gpu": "H20", "gpuz": 1}, "b": [1]}
    inventory.write_text(json.dumps({"all": {"hosts": {name: {"audit_order": one} for name, one in orders.items()}}}))
    audit = Auditor(None, stub_probe, tmp_path / "results")  # type: ignore[arg-type]
    before = audit("--tags", "report", inventory=inventory, report=True)
    assert before.code != 0 and before.folder is None and "mine: holds no run to report on" in before.out, before.out
    done = audit(inventory=inventory, report=True)
    assert done.code == 0 and done.folder, done.out
    assert "a: audit_order: Object contains unknown field `gpuz`" in done.out
    assert "b: audit_order: Expected `object`" in done.out and "Correct audit_order in the inventory" in done.out
    named = {row[0]: row[4] for row in rows_of(done.folder, "Not measured")}
    assert "its order is not understood" in named["a"] and "`gpuz`" in named["a"], named
    assert "its order is not understood" in named["b"], named
    assert "2 incomplete" in done.out and "accept" not in done.out
    closed = (done.folder / "run.json").read_bytes()
    (done.folder / "report" / "report.xlsx").unlink()
    again = audit("--tags", "report", inventory=inventory, report=True)
    assert again.code == 0 and "2 incomplete" in again.out, again.out
    assert (done.folder / "report" / "report.xlsx").exists() and (done.folder / "run.json").read_bytes() == closed
    assert len(list((tmp_path / "results" / "mine").iterdir())) == 1


@pytest.mark.fleet
def test_a_bad_order_stops_nobody_else(audit: Auditor, tmp_path: Path) -> None:
    """One wrong key: that server is a row with the sentence, its neighbour is measured."""
    inventory = tmp_path / "orders.yml"
    inventory.write_text(json.dumps({"all": {"hosts": {"h001": {"audit_order": {"gpus": 0, "gpuz": 1}}, "h002": {}}}}))
    sources = [audit.fleet.inventory, inventory]
    done = audit("--limit", "h001,h002", inventory=sources, report=True)
    assert done.code == 0, done.out
    assert {name: state.reason for name, state in done.states.items()} == {"h001": "bad_order", "h002": None}
    (row,) = (row for row in rows_of(done.folder, "Not measured") if row[0] == "h001")
    assert "`gpuz`" in row[4] and "the whole record" in row[6], row
    (verdict,) = (row for row in rows_of(done.folder, "Servers") if row[0] == "h001")
    assert "incomplete" in verdict[1], verdict


def test_an_empty_inventory(say: Any) -> None:
    """No server is not a success."""
    assert "the inventory has no server" in say("all:\n  hosts: {}\n")


def test_a_limit_that_matches_nobody(say: Any) -> None:
    """Ansible itself says so."""
    assert "--limit" in say({"a": {}}, "--limit", "nobody")


@pytest.mark.parametrize("words", [(), ("--limit", "a")], ids=["all", "limit"])
def test_broken_yaml_is_one_sentence(say: Any, words: tuple[str, ...]) -> None:
    """File, line and the next step, without the guesses of Ansible's readers."""
    out = say("all: [unclosed\n  hosts: {a: }\n", *words)
    assert re.search(r"audit: \S+hosts.yml: the inventory is not YAML \(line 2, .*\). Correct it there; docs/", out), (
        out
    )
    assert out.count("\n") == 1, out


def test_an_inventory_that_is_not_there_is_one_sentence(stub_probe: Path, tmp_path: Path) -> None:
    """It names the path that was looked for and how to name another."""
    done = Auditor(None, stub_probe, tmp_path / "results")(inventory=tmp_path / "nowhere")  # type: ignore[arg-type]
    assert done.code == 2 and done.out.startswith(f"audit: {tmp_path}/nowhere: the inventory does not exist. "), (
        done.out
    )
    assert "-i inventory/local" in done.out and done.out.count("\n") == 1, done.out


def test_what_is_no_inventory_keeps_ansibles_own_words(say: Any) -> None:
    """YAML without hosts: each reader tells its trouble, and the last line says where to look."""
    out = say("- a\n- b\n")
    assert "hosts.yml: is no inventory that can be read" in out and "docs/inventories.md" in out, out
