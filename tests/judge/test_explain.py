"""`auditor explain`: a finding id in its own words, and a server from verdict down to readings and sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from auditor import order, runs
from auditor.commands.explain import command
from auditor.errors import UserError
from auditor.judge import rule
from auditor.judge.policy import Lines
from auditor.runs import RunInfo, State
from tests.golden import FOLDER
from tests.judge.judged import METAL_A100


def said(*words: str) -> str:
    """What the command prints."""
    result = CliRunner().invoke(command, list(words), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of the reference case and a server that never answered."""
    paid = order.parse(METAL_A100, "test")
    runs.write(tmp_path / "run.json", RunInfo("r", "lab", "standard", "0", "2026-12-01T03:15:00Z"))
    runs.write(tmp_path / "orders.json", {"gpu-01": paid, "gpu-02": paid})
    (tmp_path / "servers" / "gpu-01").mkdir(parents=True)
    data = (FOLDER / "a100x8-kvm-nvlink-off.json").read_bytes()
    runs.write_bytes(tmp_path / "servers" / "gpu-01" / "record.json", data)
    runs.write(tmp_path / "servers" / "gpu-02" / "state.json", State("reach", "unreachable", "no route"))
    return tmp_path


def test_every_finding_id_can_be_explained() -> None:
    """For each rule: what decides, what is seen, expected, meant and asked."""
    for id in rule.texts():
        out = said(id)
        for word in ("decided by", "seen", "expected", "means", "ask"):
            assert f"  {word}" in out, id


def test_causes_are_told_both_ways() -> None:
    """What explains a finding, and what it explains."""
    out = said("nvlink-missing")
    assert "explained by fm-not-running, virtualized" in out
    assert "allreduce-below-floor" in out.split("explains     ")[1]


def test_unknown_ids_get_a_hint() -> None:
    """A near id, or where the ids stand."""
    with pytest.raises(UserError, match=r"no finding is called 'nvlink-broken'; near it: .*nvlink-missing"):
        said("nvlink-broken")
    with pytest.raises(UserError, match="a run's report lists the ids"):
        said("zzz")


def test_a_server_from_verdict_to_readings(run: Path) -> None:
    """The reference case: one root, its consequences under it, readings with value, source and method."""
    out = said(str(run), "gpu-01")
    assert out.startswith("gpu-01: reject (a finding rejects it)")
    assert out.count("  ask       ") == 1
    assert "therefore reject: NVLink is off  [nvlink-missing, not what was ordered, server]" in out
    assert "server_facts_cpuid_vendor of server = KVMKVMKVM [kernel/cpuid, method 1]" in out
    assert "basis     your documents' limit: acceptance limit (docs/thresholds.md)" in out
    assert "… and 3 more" in out


def test_a_server_that_never_answered(run: Path) -> None:
    """The reason stands where readings would."""
    out = said(str(run), "gpu-02")
    assert out.startswith("gpu-02: incomplete (missing: the whole record)")
    assert "the server did not answer: no route" in out


def test_a_server_that_is_not_there(run: Path) -> None:
    """An unknown name lists the known ones."""
    with pytest.raises(UserError, match="has no server 'gpu-99'; it has gpu-01, gpu-02"):
        said(str(run), "gpu-99")


def test_placeholders_are_shown_as_names_in_both_languages() -> None:
    """No finding id shows a raw `{pairs:int}`; Chinese stands where Chinese was asked for."""
    for id in rule.texts():
        for lang in ("en", "zh"):
            assert not re.search(r"\{\w+(:[^{}]+)?\}", said(id, "--lang", lang)), (id, lang)
    assert "‹pairs›" in said("nvlink-missing")
    chinese = said("nvlink-missing", "--lang", "zh")
    assert "判定依据" in chinese and "‹pairs›" in chinese and "decided by" not in chinese


def test_a_server_in_chinese(run: Path) -> None:
    """Verdict, labels, severities and bases of the way down are Chinese; ids and metrics stay."""
    out = said(str(run), "gpu-01", "--lang", "zh")
    assert out.startswith("gpu-01: 拒收 (有一项发现导致拒收)")
    for word in ("seen", "expected", "basis", "means", "reading ", "therefore", "misallocated"):
        assert f" {word}" not in out, word
    assert "server_facts_cpuid_vendor" in out and "nvlink-missing" in out


def test_an_unknown_language_is_refused() -> None:
    """Only the languages that are spoken can be chosen."""
    assert CliRunner().invoke(command, ["nvlink-missing", "--lang", "xx"]).exit_code == 2


def test_an_id_tells_every_rule_and_every_line_behind_it() -> None:
    """Two rules that give one finding both stand there, with the values in force and their sources."""
    out = said("gpu-lost")
    assert out.count("  decided by") == 2
    assert "  or seen      the kernel lost the GPU at ‹addresses›" in out
    slow = said("slower-than-siblings")
    assert "  line         siblings_review 0.1: fleets of one model vary 8 % on average (Sinha et al." in slow
    assert said("virtualized").count("  decided by") == 1  # the word is a category too
    assert "  line " not in said("nvlink-off")


def test_every_line_of_the_policy_is_told_with_some_finding() -> None:
    """No line is in force that `auditor explain` cannot show; those of the levels and of ties are no finding's own."""
    told = {name for id in rule.texts() for name in rule.lines_used(id)}
    elsewhere = {"sign_total", "tie", "rate_over_spec", "bandwidth_over_spec", "watts_over_limit", "clock_over_model"}
    assert set(Lines.__struct_fields__) - told <= elsewhere | {"achievable_margin", "fleet_smallest"}


def test_a_server_is_told_with_its_order(run: Path) -> None:
    """What was paid for stands above what was found; a basis is not said twice."""
    out = said(str(run), "gpu-01")
    assert "  ordered      8 x A100-SXM4-80GB; interconnect: nvswitch; bare_metal: true\n" in out
    assert "the order: the order" not in out
    runs.write(run / "orders.json", {"gpu-01": None, "gpu-02": None})
    assert "  ordered      nothing was ordered: no order was given\n" in said(str(run), "gpu-01")
    assert "订单" in said(str(run), "gpu-01", "--lang", "zh").splitlines()[1]


def test_a_reason_is_a_sentence_in_the_finding_too(run: Path) -> None:
    """`disk_full` is told as what it means."""
    runs.write(run / "servers" / "gpu-02" / "state.json", State("start", "disk_full", "12 MB free"))
    out = said(str(run), "gpu-02")
    assert "seen      every probe: its disk is full: 12 MB free" in out
    assert "disk_full" not in out
