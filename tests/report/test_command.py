"""`auditor report` as a user calls it: files, exit codes, and a sentence for every mistake."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from auditor import records
from auditor.commands.report import command, exit_code
from auditor.errors import UserError
from auditor.finding import Judgement, ServerResult
from tests.report import reading_back, samples
from tests.report.test_evidence import run_folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with a healthy server, the reference case, and one that never answered."""
    return run_folder(tmp_path / "run", samples.few())


def called(*arguments: object) -> Result:
    """The command's result; errors rise as they are."""
    return CliRunner().invoke(command, [str(one) for one in arguments], catch_exceptions=False)


def test_a_run_gives_workbook_and_page_and_says_where(run: Path) -> None:
    """Without options: both files in RUN/report, worst first on the screen, exit 1 for the reject."""
    result = called(run)
    assert result.exit_code == 1
    assert result.output.splitlines()[-2:] == [str(run / "report/report.xlsx"), str(run / "report/report.html")]
    assert result.output.index("gpu-02") < result.output.index("gpu-03") < result.output.index("gpu-01")


def test_files_and_an_order_give_the_same_verdict(run: Path, tmp_path: Path) -> None:
    """A heap of records that came another way is judged against --order."""
    record = run / "servers/gpu-01/record.json"
    good = called(record, "--order", "2x A100-SXM4-80GB nvswitch bare-metal", "--out", tmp_path / "o")
    assert good.exit_code == 0 and (tmp_path / "o/report.xlsx").exists()
    bad = called(record, "--order", "8x A100-SXM4-80GB nvswitch bare-metal", "--out", tmp_path / "o")
    assert bad.exit_code == 1


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_loose_files_have_no_run_and_no_inventory(run: Path, tmp_path: Path, lang: str) -> None:
    """Letter, summary and page tell the records' own times, and speak of no inventory and no run."""
    record = run / "servers/gpu-02/record.json"
    order = "8x A100-SXM4-80GB nvswitch bare-metal"
    called(record, "--order", order, "--out", tmp_path / "o", "--lang", lang)
    started = json.loads(record.read_text(encoding="utf-8"))["started"].replace("T", " ").rstrip("Z")
    period = f"{started} (UTC)" if lang == "en" else f"{started}（UTC）"
    page = (tmp_path / "o/report.html").read_text(encoding="utf-8")
    summary, letter = ("Summary", "Dispute") if lang == "en" else ("摘要", "争议函")
    for text in (page, *("\n".join(reading_back.texts(tmp_path / "o/report.xlsx", one)) for one in (summary, letter))):
        assert period in text
        for words in ("? to ?", "? 至 ?", "files files", "run files", "of the inventory", "files, run", "清单中"):
            assert words not in text, words


def test_json_is_all_of_stdout(run: Path) -> None:
    """`--json` can be piped: one document, nothing else, nothing written."""
    result = CliRunner().invoke(command, [str(run), "--json"])
    assert [one["name"] for one in json.loads(result.stdout)["servers"]] == ["gpu-01", "gpu-02", "gpu-03"]
    assert not (run / "report").exists()


def test_formats_go_where_they_are_asked_for(run: Path, tmp_path: Path) -> None:
    """--xlsx, --junit, --prometheus, --csv name files; --html writes the page; nothing else is written."""
    called(run, "--xlsx", tmp_path / "a.xlsx", "--junit", tmp_path / "b.xml", "--csv", tmp_path / "c.csv", "--html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.xlsx", "b.xml", "c.csv", "run"]
    assert [path.name for path in (run / "report").iterdir()] == ["report.html"]


def test_a_redacted_report_stands_beside_the_full_one(run: Path) -> None:
    """--redact never overwrites, and the screen shows stand-ins too."""
    called(run)
    result = called(run, "--redact")
    names = sorted(path.name for path in (run / "report").iterdir())
    assert names == ["report-redacted.html", "report-redacted.xlsx", "report.html", "report.xlsx"]
    assert "server-0002" in result.output and "gpu-02" not in result.output


def test_the_page_of_one_server(run: Path) -> None:
    """--server NAME --html writes server-NAME.html; a wrong name is told the right ones."""
    called(run, "--server", "gpu-02", "--html")
    assert (run / "report/server-gpu-02.html").exists()
    with pytest.raises(UserError, match="there is no server 'gpu-9'; there is gpu-01, gpu-02, gpu-03"):
        called(run, "--server", "gpu-9", "--html")
    with pytest.raises(UserError, match="give --html"):
        called(run, "--server", "gpu-02")
    called(run, "--server", "gpu-02", "--html", "--redact")
    assert "gpu-02" not in (run / "report/server-gpu-02-redacted.html").read_text(encoding="utf-8")


def test_the_runs_own_language_holds_unless_another_is_asked_for(run: Path) -> None:
    """run.json's lang is the default, --lang goes before it, an unknown one is refused."""
    info = json.loads((run / "run.json").read_text(encoding="utf-8"))
    (run / "run.json").write_text(json.dumps({**info, "lang": "zh"}), encoding="utf-8")
    assert "拒收" in called(run).output
    assert "reject" in called(run, "--lang", "en").output
    with pytest.raises(UserError, match="en or zh"):
        called(run, "--lang", "xx")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.json"], "nowhere.json: no such file"),
        (["."], "cannot be read"),
        (["{run}", "--order", "1x H200"], "a run folder has its own orders"),
        (["{record}", "--order", "many GPUs"], "is no order. Write COUNT x MODEL"),
        (["{records}"], r"is no run folder; .* name the files: .*/\*\.json"),
        (["{run}", "--xlsx", "{record}/x.xlsx"], "cannot be written there"),
    ],
)
def test_misuse_is_a_sentence(run: Path, tmp_path: Path, arguments: list[str], sentence: str) -> None:
    """What is wrong and what to do, no traceback."""
    given = {"run": run, "record": run / "servers/gpu-01/record.json", "records": run / "servers/gpu-01"}
    with pytest.raises(UserError, match=sentence):
        called(*(one.format(**given) for one in arguments))


def test_a_refused_record_is_a_row_and_the_rest_is_reported(run: Path) -> None:
    """Half a record, a record of a newer schema: a row with the reason, the workbook is written."""
    whole = (run / "servers/gpu-01/record.json").read_bytes()
    (run / "servers/gpu-01/record.json").write_bytes(whole[: len(whole) // 2])
    newer = json.loads((run / "servers/gpu-02/record.json").read_text(encoding="utf-8"))
    (run / "servers/gpu-02/record.json").write_text(json.dumps({**newer, "schema": 99}), encoding="utf-8")
    assert called(run).exit_code == 3
    rows = {row["Server"]: row for row in reading_back.table(run / "report/report.xlsx", "Servers")}
    assert rows["gpu-01"]["Verdict"] == rows["gpu-02"]["Verdict"] == "? incomplete"
    assert "its record was refused: it cannot be read" in str(rows["gpu-01"]["Why"])
    assert "it is of another schema" in str(rows["gpu-02"]["Why"])


@pytest.mark.parametrize(
    ("lang", "step"), [("en", "→ Collect the record again, or ask who sent it"), ("zh", "→ 请重新")]
)
def test_half_a_record_comes_with_the_next_step(run: Path, tmp_path: Path, lang: str, step: str) -> None:
    """The terminal says why and what to do; a whole record needs no such line."""
    whole = run / "servers/gpu-01/record.json"
    (tmp_path / "half.json").write_bytes(whole.read_bytes()[:500])
    out = ["--out", str(tmp_path / "report"), "--lang", lang]
    assert step in called(str(tmp_path / "half.json"), *out).output
    assert step not in called(str(whole), *out).output


def test_exit_codes_follow_the_verdicts() -> None:
    """1 at --fail-on, else 3 for incomplete, else 0."""

    def code(fail_on: str, *verdicts: str) -> int:
        servers = tuple(ServerResult(f"s{n}", verdict) for n, verdict in enumerate(verdicts))  # type: ignore[arg-type]
        return exit_code([Judgement("r", "i", "v", servers, "p", "c")], fail_on)

    assert [code("reject", v) for v in ("accept", "review", "incomplete", "reject")] == [0, 0, 3, 1]
    assert [code("review", v) for v in ("accept", "review", "incomplete", "reject")] == [0, 1, 3, 1]
    assert code("reject", "incomplete", "reject") == 1 and code("incomplete", "incomplete") == 3 and code("reject") == 0


def test_two_providers_stand_side_by_side(run: Path, tmp_path: Path) -> None:
    """Several runs make one workbook: Providers compares them, their servers keep their provider."""
    order = msgspec.structs.replace(samples.ORDER, gpus=2, price_per_hour=3.0)
    other = run_folder(
        tmp_path / "other",
        samples.given(
            {"gpu-01": samples.a100("gpu-01", gpus=2)}, order, inventory="provider_b", run="20261202T000000Z"
        ),
    )
    called(run, other, "--xlsx", tmp_path / "both.xlsx", "--lang", "en")
    rows = reading_back.table(tmp_path / "both.xlsx", "Providers")
    assert [(row["Provider"], row["Servers"], row["Rejected"]) for row in rows] == [
        ("provider_a", 3, 1),
        ("provider_b", 1, 0),
    ]
    assert rows[1]["Cost per delivered PFLOP-hour"] < rows[0]["Cost per delivered PFLOP-hour"]  # type: ignore[operator]
    names = [(row["Provider"], row["Server"]) for row in reading_back.table(tmp_path / "both.xlsx", "Servers")]
    assert names == [("provider_a", f"gpu-0{n}") for n in (1, 2, 3)] + [("provider_b", "gpu-01")]
    assert reading_back.faults(tmp_path / "both.xlsx") == []
    lines = reading_back.load_workbook(tmp_path / "both.xlsx")["Summary"].iter_rows(values_only=True)
    assert [line[4] for line in lines if line[0] == "Cheapest good choice"] == ["provider_b: gpu-01"]


def test_a_record_of_the_cpu_demo_is_a_workbook_too(tmp_path: Path) -> None:
    """Without a GPU the same report is made, with the columns that have something to say."""
    from tests.builders import cpu_only

    (tmp_path / "local.json").write_text(json.dumps(records.to_document(replace(cpu_only(), synthetic=False))))
    (tmp_path / "ORDER.yml").write_text("default: {gpus: 0}\n")
    result = called(tmp_path / "local.json", "--order", tmp_path / "ORDER.yml", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    (row,) = reading_back.table(tmp_path / "report.xlsx", "Servers")
    assert row["Verdict"] == "✔ accept" and row["Measured on"] == "CPU" and row["Ordered"] == "no GPU"
    assert "GPU model found" not in row and "Hottest GPU (°C)" not in row
