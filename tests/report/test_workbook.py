"""The workbook as a whole: it opens, it says what was judged, and no text of a stranger becomes a formula."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from openpyxl import load_workbook

from auditor.report import write
from tests.report import samples


@pytest.fixture(scope="module")
def workbook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(samples.mixed(), tmp_path_factory.mktemp("report"), {"xlsx"})[0]


def rows(path: Path, title: str) -> list[dict[str, object]]:
    """A table sheet as dictionaries by header."""
    lines = list(load_workbook(path)[title].iter_rows(min_row=4, values_only=True))
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def test_every_server_has_its_row_and_verdict(workbook: Path) -> None:
    """Servers lists what was rented, also the one that never answered, each with its verdict."""
    found = {row["Server"]: row["Verdict"] for row in rows(workbook, "Servers")}
    assert len(found) == 8
    assert found["gpu-02"] == "✖ reject" and found["gpu-06"] == "? incomplete" and found["gpu-01"] == "✔ accept"


def test_no_formula_no_link_no_macro_no_hidden_sheet(workbook: Path) -> None:
    """The package holds values only."""
    with zipfile.ZipFile(workbook) as package:
        names = package.namelist()
        assert not [n for n in names if "externalLink" in n or "vba" in n.lower() or "calcChain" in n]
        for name in names:
            if name.startswith("xl/worksheets/"):
                text = package.read(name).decode()
                assert "<f>" not in text and "<f " not in text and "hyperlink" not in text
    assert all(sheet.sheet_state == "visible" for sheet in load_workbook(workbook).worksheets)
