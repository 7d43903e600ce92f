"""A Chinese report is Chinese: no sentence of ours is left in English, whoever put it together."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from auditor import catalog, order, report
from auditor.assembly import judge_heap
from auditor.records import ProbeRow, to_document
from auditor.report import wording
from auditor.report.texts import load
from auditor.report.words import reason_text
from tests.report import reading_back
from tests.report.test_faults_in_workbook import FAULTS, HEALTHY, ORDER

ROOT = Path(__file__).parents[2]
# Four words in a row are a sentence; a list of ids or conditions has commas between its words.
SENTENCE = re.compile(r"(?:[A-Za-z][A-Za-z'-]*[:;]? +){3,}[A-Za-z][A-Za-z'-]*")
RAW = "mmap of the doorbell refused by the hypervisor"
REASONS = {
    "dcgm": ("not_applicable", "dcgmi is not installed"),
    "storage": ("skipped", "3.5 GB free on /data, 12.0 GB wanted (3 times what is written)"),
    "nccl_tests": ("timed_out", "all_reduce_perf did not end within 30 s"),
    "latency": ("failed", RAW),
}
# Titles of published works stay as their authors wrote them.
TITLES = ("Channel Repair Pending", "NVIDIA Dynamic Page Retirement guide", "NVML reference: GPU recovery action")


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Workbook and page, in Chinese, of servers with every fault and probes that did not measure."""
    folder = tmp_path_factory.mktemp("zh")
    rows = tuple(ProbeRow(probe, 1, "server", status, reason) for probe, (status, reason) in REASONS.items())
    paths = []
    for name, (_, spoiled) in FAULTS.items():
        record = dataclasses.replace(spoiled(HEALTHY), server=name)
        paths.append(folder / f"{name}.json")
        record = dataclasses.replace(record, probes=record.probes + rows)
        paths[-1].write_text(json.dumps(to_document(record)), encoding="utf-8")
    (folder / "ORDER.yml").write_text(json.dumps({"default": ORDER}), encoding="utf-8")
    judged = judge_heap(paths, order.load(str(folder / "ORDER.yml")))
    page, workbook = sorted(report.write(judged, folder / "report", ["xlsx", "html"], "zh"))
    return workbook, page


def english(text: str) -> list[str]:
    """The English sentences in a text that are neither quoted from a server nor a title."""
    known = [RAW, *TITLES, *catalog.load().achievable.sources.values()]
    found = [one[0] for one in SENTENCE.finditer(text)]
    return [one for one in found if not any(one in title or title in one for title in known)]


def test_no_sheet_has_an_english_sentence(chinese: tuple[Path, Path]) -> None:
    """Every cell but those of the raw readings: what is English is a title, an id, a metric or a server's own word."""
    book = reading_back.load_workbook(chinese[0])
    assert len(book.sheetnames) > 8
    left = {
        (sheet.title, cell.coordinate): found
        for sheet in book.worksheets
        if sheet.title != load("zh")._("Readings")
        for line in sheet.iter_rows()
        for cell in line
        if isinstance(cell.value, str) and (found := english(cell.value))
    }
    assert left == {}


def test_the_page_has_no_english_sentence(chinese: tuple[Path, Path]) -> None:
    """The same of the HTML page, whose script and style are no text."""
    text = re.sub(r"<(style|script)>.*?</\1>|<[^>]+>", "\n", chinese[1].read_text(encoding="utf-8"), flags=re.DOTALL)
    assert "未测量" in text and english(text.replace("&#39;", "'")) == []


def test_a_servers_own_words_are_quoted_as_they_came(chinese: tuple[Path, Path]) -> None:
    """On Not measured: our reasons are translated with their figures, what the machine said is not."""
    rows = {
        row["探测项"]: row["原因"] for row in reading_back.table(chinese[0], "未测量") if row["服务器"] == "gpu-lost"
    }
    assert rows["dcgm"] == "没有安装 dcgmi"
    assert rows["storage"] == "/data 上空闲 3.5 GB，需要 12.0 GB（写入量的 3 倍）"
    assert rows["nccl_tests"] == "all_reduce_perf 在 30 秒内没有结束"
    assert rows["latency"] == RAW


@pytest.mark.parametrize("template", wording.TEMPLATES)
def test_every_template_is_a_sentence_that_somebody_says(template: str) -> None:
    """Its longest fixed part stands in a probe, the engine or the judge: who changes a sentence changes both."""
    sources = [*(ROOT / "auditor" / "probes").rglob("*.py"), *(ROOT / "auditor" / "judge").glob("*.py")]
    sources += [ROOT / "auditor" / "transport" / "ssh_trouble.py", ROOT / "auditor" / "reading.py"]
    fixed = max(re.split(r"\{\w+\}|[:;] ", template), key=len).strip()
    assert any(fixed in path.read_text(encoding="utf-8").replace('"\n', "") for path in sources), fixed


@pytest.mark.parametrize("template", wording.TEMPLATES)
def test_every_template_is_found_and_keeps_what_it_was_filled_with(template: str) -> None:
    """Chinese outside, the values inside; English comes out as it went in."""
    filled = re.sub(r"\{(\w+)\}", r"<\1>", template)
    assert wording.worded(load("en"), filled) == filled
    chinese = wording.worded(load("zh"), filled)
    assert chinese != filled and english(chinese) == []
    assert sorted(re.findall(r"<\w+>", chinese)) == sorted(re.findall(r"<\w+>", filled))


def test_a_strangers_text_is_never_a_template() -> None:
    """Braces in what a server said are shown, not filled; control characters become visible (threats R11, R12)."""
    assert reason_text(load("zh"), "{server} \x1b[31m {reason}") == "{server} \\x1b[31m {reason}"
    assert wording.worded(load("zh"), "the driver says {word}\u202e") == "驱动报告 {word}\\u202e"
