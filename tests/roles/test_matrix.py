"""The table of what is tested names tests that are there, and where they run."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from tests.playbooks.conftest import ROOT


def test_every_test_of_the_table_runs_where_it_says() -> None:
    """docs/role-tests.md names no test that is gone, and calls none CI that only `make test-scale` runs."""
    runs: dict[str, set[str]] = defaultdict(set)
    for path in [*(ROOT / "tests/roles").glob("test_*.py"), *(ROOT / "tests/plugins").glob("test_*.py")]:
        module = ast.parse(path.read_text())
        marks = "".join(ast.unparse(node) for node in module.body if ast.unparse(node).startswith("pytestmark"))
        for node in module.body:
            if isinstance(node, ast.FunctionDef):
                mine = marks + "".join(map(ast.unparse, node.decorator_list))
                runs[node.name].add("scale" if "mark.scale" in mine else "CI")
    table = re.findall(r"^\|(.+)\|(.+)\|(.+)\|$", (ROOT / "docs/role-tests.md").read_text(), re.MULTILINE)
    told = [cell for row in table for cell in row if "`test_" in cell]
    assert len(told) > 20
    for cell in told:
        for names, where in re.findall(r"((?:`test_\w+`(?:, )?)+) (CI|scale)", cell):
            for name in re.findall(r"test_\w+", names):
                assert where in runs[name], (name, where, runs[name])
        assert not [name for name in re.findall(r"test_\w+", cell) if name not in runs], cell
