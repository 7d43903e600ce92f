"""The workbook as a whole: it opens, it says what was judged, it prints, and it is values only."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from auditor.report import write
from tests.report import reading_back, samples
from tests.report.reading_back import load_workbook

SHEETS = (
    "Summary Ranking Findings Providers Servers GPUs Collectives Topology Thermal Scaling Not_measured Dispute Method"
    " Readings"
)


@pytest.fixture(scope="module")
def workbook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run that has every sheet."""
    return write(samples.few(), tmp_path_factory.mktemp("report"), {"xlsx"})[0]


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run in Chinese."""
    return write(samples.few(), tmp_path_factory.mktemp("report-zh"), {"xlsx"}, "zh")[0]


def test_all_sheets_stand_in_their_order(workbook: Path) -> None:
    """A run that has everything shows every sheet, Readings at the end."""
    assert load_workbook(workbook).sheetnames == [name.replace("_", " ") for name in SHEETS.split()]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_nothing_in_the_package_makes_excel_ask_for_a_repair(lang: str, workbook: Path, chinese: Path) -> None:
    """No formula, link, macro, hidden sheet or merged cell; tables have unique text headers equal to their columns."""
    assert reading_back.faults(workbook if lang == "en" else chinese) == []


def test_a_second_reader_sees_the_same_values(workbook: Path) -> None:
    """Calamine, which shares no code with openpyxl, opens the file and reads the same cells."""
    python_calamine = pytest.importorskip("python_calamine")
    other = python_calamine.CalamineWorkbook.from_path(str(workbook))
    ours = load_workbook(workbook)
    assert other.sheet_names == ours.sheetnames
    for name in ("Servers", "GPUs", "Findings"):
        seen = [[str(cell) for cell in line if cell != ""] for line in other.get_sheet_by_name(name).to_python()]
        flat = {text for line in seen for text in line}
        for line in ours[name].iter_rows(values_only=True):
            assert {value for value in line if isinstance(value, str) and value} <= flat


def test_libreoffice_opens_it_and_prints_every_sheet(workbook: Path, tmp_path: Path) -> None:
    """A spreadsheet program converts the file to PDF without complaint, every sheet's title on a page of it."""
    if shutil.which("soffice") is None:
        pytest.skip("soffice not installed (apt-get install libreoffice-calc)")
    home = f"-env:UserInstallation=file://{tmp_path}/profile"
    argv = ["soffice", home, "--headless", "--convert-to", "pdf", "--outdir", str(tmp_path), str(workbook)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0 and (tmp_path / "report.pdf").stat().st_size > 20_000, done.stderr
    if shutil.which("pdftotext"):
        told = subprocess.run(["pdftotext", tmp_path / "report.pdf", "-"], capture_output=True, text=True, check=True)
        for name in SHEETS.split():
            assert name.replace("_", " ") in told.stdout
        assert not re.search(r"\d[eE][+-]?\d{2}\b", told.stdout.split("Readings\n")[0].split("SHA-256")[0])


def test_every_sheet_is_set_up_for_paper_and_screen(workbook: Path) -> None:
    """One page wide, titles repeated, page numbers, an area to print; tables have filters and frozen panes."""
    for sheet in load_workbook(workbook).worksheets:
        assert sheet.page_setup.fitToWidth == 1 and sheet.sheet_properties.pageSetUpPr.fitToPage
        assert sheet.print_area and "&P" in sheet.oddFooter.right.text
        if sheet.tables:
            (one,) = sheet.tables.values()
            assert one.autoFilter.ref == one.ref and sheet.freeze_panes is not None and sheet.print_title_rows


def test_every_page_says_that_the_data_is_synthetic(workbook: Path, chinese: Path) -> None:
    """A page made from a record of no real machine says so, in its language, on every sheet."""
    for path, words in ((workbook, "SYNTHETIC DATA"), (chinese, "合成数据")):
        for sheet in load_workbook(path).worksheets:
            assert words in str(sheet["A3"].value), sheet.title


def test_real_data_is_not_called_synthetic(tmp_path: Path) -> None:
    """Without a synthetic record nothing of the kind is said."""
    given = samples.given({"gpu-01": replace(samples.a100(gpus=1), synthetic=False)})
    path = write(given, tmp_path, {"xlsx"})[0]
    assert not [text for text in reading_back.texts(path, "Summary") if "SYNTHETIC" in text]


def test_figures_are_numbers_in_units_people_know(workbook: Path) -> None:
    """TFLOPS, GB/s, °C and W are number cells without ten-digit fractions and with a format of their own."""
    sheet = load_workbook(workbook)["GPUs"]
    heads = {str(cell.value): cell.column for cell in sheet[4]}
    for name, least, most in (
        ("bf16 sustained (TFLOPS)", 200, 312),
        ("Hottest (°C)", 30, 100),
        ("Mean power (W)", 90, 500),
    ):
        cell = sheet.cell(5, heads[name])
        assert isinstance(cell.value, int | float) and least < cell.value < most, name
        assert len(str(cell.value).partition(".")[2]) <= 5 and cell.number_format != "General", name


def test_charts_are_native_and_none_is_empty(workbook: Path) -> None:
    """Collectives, Thermal and Scaling hold charts; every series points at cells with figures."""
    book = load_workbook(workbook)
    for title in ("Collectives", "Thermal", "Scaling"):
        assert book[title]._charts, title  # type: ignore[attr-defined]
    for name, data in reading_back.parts(workbook).items():
        if name.startswith("xl/charts/chart"):
            references = re.findall(rb"<(?:c:)?(?:yVal|val)>.*?<(?:c:)?f>(.*?)</", data, re.DOTALL)
            assert references, name
            for reference in references:
                sheet, cells = reference.decode().rsplit("!", 1)
                values = [cell.value for line in book[sheet.strip("'")][cells.replace("$", "")] for cell in line]
                assert any(isinstance(value, int | float) for value in values), (name, reference)


def test_a_sheet_with_nothing_to_say_is_left_out_and_named(tmp_path: Path) -> None:
    """One server that never answered: no GPUs, no charts; Method says which sheets are left out and why."""
    path = write(samples.given({"gpu-01": None}), tmp_path, {"xlsx"})[0]
    assert load_workbook(path).sheetnames == [
        "Summary",
        "Ranking",
        "Findings",
        "Providers",
        "Servers",
        "Not measured",
        "Method",
    ]
    left = {row["What"]: row["How"] for row in reading_back.table(path, "Method") if row["Topic"] == "Sheet left out"}
    assert left["GPUs"] == "no GPU was found on any server" and "Dispute" in left and len(left) == 7


def test_a_run_without_servers_is_still_a_workbook(tmp_path: Path) -> None:
    """An empty inventory gives a Summary that says so, and no table without a row."""
    path = write(samples.given({}), tmp_path, {"xlsx"})[0]
    assert load_workbook(path).sheetnames == ["Summary", "Method"]
    assert "No server was audited: the inventory is empty." in reading_back.texts(path, "Summary")
    assert reading_back.faults(path) == []


def test_chinese_headers_are_chinese_and_ids_stay(chinese: Path) -> None:
    """Sheets, headers and verdicts are Chinese; metric names, ids and units are untouched."""
    book = load_workbook(chinese)
    assert book.sheetnames[:3] == ["摘要", "排名", "发现"]
    servers = reading_back.table(chinese, "服务器")
    assert servers[1]["结论"] == "✖ 拒收"
    assert any("TFLOPS" in name for name in servers[0])
    assert any(row["问题编号"] == "nvlink-missing" for row in reading_back.table(chinese, "发现"))
