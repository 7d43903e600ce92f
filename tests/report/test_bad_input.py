"""Bad input leads to the verdict, the reason and the cell it should lead to, not only to a file that opens."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from auditor.records import Reading
from auditor.report import write
from auditor.report.terminal import print_judgement
from tests.report import reading_back, samples
from tests.report.reading_back import load_workbook

GUEST = "Not bare metal: passthrough guest"
NAMES = {
    "300 characters": ("n" * 300, "n" * 79 + "…"),
    "right to left": ("gpu\u202e10-\u2066gnp.exe", "gpu\\u202e10-\\u2066gnp.exe"),
    "arabic": ("خادم-01", "خادم-01"),
    "control": ("\x1b[2Jgpu\x00\x07", "\\x1b[2Jgpu\\x00\\x07"),
    "command": ("=cmd|'/C calc'!A0", "=cmd|'/C calc'!A0"),
    "link": ('=HYPERLINK("http://192.0.2.1","x")', '=HYPERLINK("http://192.0.2.1","x")'),
}


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One rejected server per bad name, and a good one."""
    records = {f"srv-{n}": samples.a100(f"srv-{n}", True, False, gpus=2) for n in range(len(NAMES))}
    records["good"] = samples.a100("good", gpus=2)
    labels = {f"srv-{n}": name for n, (name, _) in enumerate(NAMES.values())}
    run = samples.given(records, samples.replace_order(gpus=2), labels)
    return write(run, tmp_path_factory.mktemp("names"), ["xlsx"])[0]


@pytest.mark.parametrize("kind", NAMES)
def test_a_bad_name_is_one_text_cell_and_changes_nothing(named: Path, kind: str) -> None:
    """Row by row: the name in column A as visible text, the verdict in B, the reason in C; the summary counts it."""
    sheet, place = load_workbook(named)["Servers"], 5 + list(NAMES).index(kind)
    name, verdict, why = (sheet.cell(place, column) for column in (1, 2, 3))
    assert (name.value, name.data_type) == (NAMES[kind][1], "s"), name.coordinate
    assert (verdict.value, why.value) == ("✖ reject", GUEST)
    found = next(r for r in reading_back.table(named, "Findings") if r["Server"] == NAMES[kind][1])
    assert found["Severity"] == "✖ reject" and found["Finding"] == GUEST
    lines = {line[0]: line for line in load_workbook(named)["Summary"].iter_rows(values_only=True)}
    assert lines["✖ reject"][1] == len(NAMES) and lines["✔ accept"][1] == 1 and lines["✔ accept"][4] == "good"


def test_a_run_without_servers_accuses_nobody_and_costs_nothing(tmp_path: Path) -> None:
    """Every format says that there was none: a sentence in the workbook and on the page, empty lists elsewhere."""
    run = samples.given({})
    files = {path.suffix: path for path in write(run, tmp_path, ["xlsx", "html", "json", "junit", "prometheus"])}
    sheet = load_workbook(files[".xlsx"])["Summary"]
    told = {row[0].value: row[3] for row in sheet.iter_rows() if row[0].value}
    assert told["Servers"].value == "No server was audited: the inventory is empty." and told["Servers"].column == 4
    assert "✔ accept" not in told and reading_back.faults(files[".xlsx"]) == []
    assert "No server was audited: the inventory is empty." in files[".html"].read_text(encoding="utf-8")
    document = json.loads(files[".json"].read_text(encoding="utf-8"))
    assert document["servers"] == [] and set(document["verdicts"].values()) == {0}
    assert 'tests="0"' in files[".xml"].read_text(encoding="utf-8")
    stream = io.StringIO()
    print_judgement(run, Console(file=stream))
    assert stream.getvalue() == "no server was audited\n"


def test_an_unknown_metric_is_shown_and_judged_by_nobody(tmp_path: Path) -> None:
    """Its row stands on Readings with value, unit-less and unconverted; verdict and findings stay as they were."""
    plain, order = samples.a100(gpus=2), samples.replace_order(gpus=2)
    strange = Reading("of_tomorrow", "of_tomorrow_flux", "gpu1", 1.25e12, "measured", {"mode": "=1+1"})
    more = replace(plain, readings=(*plain.readings, strange))
    servers = [samples.given({"gpu-01": record}, order).judgement.servers[0] for record in (plain, more)]
    assert servers[0].verdict == servers[1].verdict == "accept" and servers[0].findings == servers[1].findings
    path = write(samples.given({"gpu-01": more}, order), tmp_path, ["xlsx"])[0]
    row = reading_back.table(path, "Readings")[-1]
    assert (row["Metric"], row["Shown"], row["Value in base units"]) == ("of_tomorrow_flux", 1.25e12, "1250000000000")
    assert row["Conditions"] == "mode==1+1" and not row["Unit"]


def test_a_price_without_a_currency_is_no_price(tmp_path: Path) -> None:
    """Nothing is guessed: the server is accepted, its money is not known, and the cell of its cost stays empty."""
    order = samples.replace_order(gpus=2, currency=None)
    path = write(samples.given({"gpu-01": samples.a100(gpus=2)}, order), tmp_path, ["xlsx"])[0]
    (row,) = reading_back.table(path, "Ranking")
    assert row["Verdict"] == "✔ accept" and row.get("Cost per delivered PFLOP-hour") is None
    lines = {line[0]: line for line in load_workbook(path)["Summary"].iter_rows(values_only=True)}
    assert lines["✔ accept"][2] == "not known: no price for 1 server"
    assert lines["Cheapest good choice"][3] == "none: no accepted server has both a price and a measured bf16 rate"
