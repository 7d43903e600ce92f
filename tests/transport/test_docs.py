"""What docs/rented-machines.md and docs/inventories.md tell a newcomer to write is understood."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from auditor.transport import collect, wishes
from auditor.transport.collect import Wanted
from auditor.transport.wishes import Wishes

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("rented-machines.md", "inventories.md")
FILES = [
    (page, text)
    for page in PAGES
    for text in re.findall(r"```yaml\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
]


def test_there_is_a_whole_file_for_each_kind_of_machine() -> None:
    """A virtual machine, a container, an air-gapped machine, China, and a provider's."""
    assert [page for page, _ in FILES] == ["rented-machines.md"] * 4 + ["inventories.md"]


@pytest.mark.parametrize("text", [text for _, text in FILES])
def test_every_inventory_is_understood(text: str) -> None:
    """A file as it stands there: hosts with addresses, orders and wishes that are read without complaint."""
    everything: dict[str, Any] = yaml.safe_load(text)["all"]
    assert everything["hosts"]
    for name, own in everything["hosts"].items():
        variables = {**everything.get("vars", {}), **own}
        assert variables["ansible_host"]
        wish = wishes.read(variables, name)
        order = collect.check([Wanted(name, wish.order, wish.label)]).orders[name]
        assert order is not None and order.gpus


@pytest.mark.parametrize("page", PAGES)
def test_every_variable_it_names_exists(page: str) -> None:
    """No page names a wish that an audit would refuse."""
    named = set(re.findall(r"`(?:-e )?audit_(\w+)", (DOCS / page).read_text(encoding="utf-8")))
    assert named and named <= set(Wishes.__struct_fields__), named - set(Wishes.__struct_fields__)
