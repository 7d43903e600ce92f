"""Machine formats: JSON against its published schema, JUnit, Prometheus, CSV, and one numbering for all."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from auditor.commands import triage
from auditor.report import produce, write
from auditor.report.formats import modules
from auditor.report.formats.json import document
from auditor.report.texts import load
from tests.report import reading_back, samples

SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "report-1.json"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small run in every format."""
    written = write(samples.few(), tmp_path_factory.mktemp("formats"), modules())
    return dict(zip(modules(), written, strict=True))


@pytest.fixture(scope="module")
def told(files: dict[str, Path]) -> dict[str, Any]:
    """The JSON document."""
    loaded: dict[str, Any] = json.loads(files["json"].read_text(encoding="utf-8"))
    return loaded


def validator() -> jsonschema.Draft202012Validator:
    """The published schema."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_document_is_what_the_schema_says(told: dict[str, Any]) -> None:
    """The written document and the one made in memory are valid and equal."""
    validator().validate(told)
    assert json.loads(json.dumps(document(samples.few()))) == told


def test_triage_writes_the_same_document(tmp_path: Path) -> None:
    """One writer and one schema: what triage adds is a note, the files, and the lines that were not read."""
    (tmp_path / "smi.txt").write_text("GPU 0: NVIDIA H200 (UUID: GPU-00000000-0000-4000-8000-000000000000)\nnoise\n")
    made = json.loads(json.dumps(triage.document(triage.triage([tmp_path / "smi.txt"], None), "zh")))
    validator().validate(made)
    plain = json.loads(json.dumps(document(samples.few())))
    assert set(made) - set(plain) == {"note"} and made["note"] == load("zh")._(triage.FORGEABLE)
    assert set(made["servers"][0]) - set(plain["servers"][0]) == {"files"}
    assert made["servers"][0]["verdict"] == "incomplete" and made["servers"][0]["text_only"] is True


def test_the_schema_refuses_what_it_should() -> None:
    """A wrong verdict, a finding without observed, a text as figure: each is an error of the schema."""
    good = json.loads(json.dumps(document(samples.few(), "zh")))
    for spoil in (
        lambda d: d["servers"][0].update(verdict="fine"),
        lambda d: d["servers"][1]["findings"][0].pop("observed"),
        lambda d: d["servers"][0]["figures"].update(h2d="fast"),
        lambda d: d.update(schema=2),
    ):
        bad = json.loads(json.dumps(good))
        spoil(bad)
        assert list(validator().iter_errors(bad)), bad


def test_every_key_of_the_document_stands_in_the_schema(told: dict[str, Any]) -> None:
    """Nothing is written that the published schema does not explain."""
    defs = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]
    server, finding = told["servers"][1], told["servers"][1]["findings"][0]
    assert set(server) <= set(defs["server"]["properties"])
    assert set(finding) <= set(defs["finding"]["properties"])
    assert set(finding["evidence"][0]) <= set(defs["finding"]["properties"]["evidence"]["items"]["properties"])
    assert set(server["readings"][0]) | {"spread", "n", "stable"} <= set(defs["reading"]["properties"])


def test_findings_name_root_words_and_the_row_of_their_evidence(told: dict[str, Any], files: dict[str, Path]) -> None:
    """The reference case: virtualized is the root, NVLink off follows, the evidence's number is the row of the CSV."""
    findings = {one["id"]: one for one in told["servers"][1]["findings"]}
    assert findings["virtualized"]["root"] is None
    assert findings["nvlink-missing"]["root"] == "gpu-02:virtualized:server"
    evidence = findings["nvlink-missing"]["evidence"][0]
    with files["csv"].open(encoding="utf-8-sig", newline="") as file:
        rows = {int(row["number"]): row for row in csv.DictReader(file)}
    row = rows[evidence["reading"]]
    assert (row["metric"], row["subject"], row["server"]) == (evidence["metric"], evidence["subject"], "gpu-02")
    sheet = {row["No."]: row for row in reading_back.table(files["xlsx"], "Readings")}
    assert sheet[evidence["reading"]]["Metric"] == evidence["metric"]


def test_every_reading_is_in_the_csv_exactly(told: dict[str, Any], files: dict[str, Path]) -> None:
    """As many rows as readings; a figure reads back to the very same number."""
    with files["csv"].open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    readings = [one for server in told["servers"] for one in server["readings"]]
    assert len(rows) == len(readings)
    for row, one in zip(rows, readings, strict=True):
        if isinstance(one["value"], float):
            assert float(row["value"]) == one["value"] and "e" not in row["value"].lower()


def test_junit_counts_what_was_rejected(files: dict[str, Path]) -> None:
    """A rejected server is a failure, an incomplete one an error, each with its findings."""
    root = ElementTree.parse(files["junit"]).getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")
    cases = {case.get("name"): case for case in root.iter("testcase")}
    failure, error = cases["gpu-02"].find("failure"), cases["gpu-03"].find("error")
    assert failure is not None and "nvlink-missing" in str(failure.text)
    assert error is not None and cases["gpu-01"].find("failure") is None


def test_prometheus_families_stand_together(files: dict[str, Path]) -> None:
    """Each family has one HELP and TYPE before all its samples; the verdict of each server is exactly one."""
    lines = files["prometheus"].read_text(encoding="utf-8").splitlines()
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(families) == len(set(families))
    order = [re.split(r"[{ ]", line)[0] for line in lines if not line.startswith("#")]
    assert [name for i, name in enumerate(order) if i == 0 or order[i - 1] != name] == families
    on = [line for line in lines if line.startswith("gpu_audit_verdict") and line.endswith(" 1.0")]
    assert len(on) == 3 and any('server="gpu-02",verdict="reject"' in line for line in on)


def test_above_the_cap_the_readings_stand_beside_the_workbook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More readings than the sheet holds: a CSV beside it, no sheet Readings, and Method says where they are."""
    from auditor.report.formats import xlsx
    from auditor.report.sheets import readings

    monkeypatch.setattr(xlsx, "MOST_READINGS", 100)
    monkeypatch.setattr(readings, "MOST_ROWS", 100)
    written = produce([samples.few()], {"xlsx": tmp_path / "some.xlsx"})
    assert [path.name for path in written] == ["some.xlsx", "readings.csv"]
    assert "Readings" not in reading_back.load_workbook(tmp_path / "some.xlsx").sheetnames
    method = reading_back.table(tmp_path / "some.xlsx", "Method")
    left = {row["What"]: str(row["How"]) for row in method if row["Topic"] == "Sheet left out"}
    assert "readings.csv" in left["Readings"]
    assert len((tmp_path / "readings.csv").read_text(encoding="utf-8-sig").splitlines()) > 100


def test_nothing_but_the_report_is_left_in_the_folder(tmp_path: Path) -> None:
    """Formats appear whole: below the cap nothing but the workbook is left in the folder."""
    produce([samples.few()], {"xlsx": tmp_path / "report.xlsx"})
    assert [path.name for path in tmp_path.iterdir()] == ["report.xlsx"]
