"""What dcgmi printed, in the dialects of DCGM 3 and 4, to findings: its Pass is hearsay, its warnings are read."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from auditor.finding import ServerResult
from auditor.readers import attachments
from tests import builders
from tests.judge.judged import METAL_H200, found, ids, one

HEALTHY = builders.healthy("H200 SXM5 141GB")


def judged(attachment: str) -> ServerResult:
    """The result for a record with this answer of dcgmi."""
    record = dataclasses.replace(HEALTHY, attachments={"dcgmi-diag.json": attachment})
    return one(builders.added(record, *attachments.readings(record)), METAL_H200)


def v4(status: str, *warnings: dict[str, Any], test: str = "memory", gpu: int = 2) -> str:
    """DCGM 4: entities, and the warnings once more in the summary."""
    result = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": status, "warnings": [*warnings]}
    tests = [{"name": test, "results": [result], "test_summary": {"status": status, "warnings": [*warnings]}}]
    return json.dumps({"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": tests}]},
                       "metadata": {"version": "4.6.0"}}, indent=1)  # fmt: skip


def v3(status: str, warning: object, gpu: str = "2") -> str:
    """DCGM 3.1 to 3.3: GPUs by number in a string, a warning as text or as a list of objects."""
    result = {"gpu_id": gpu, "status": status, "warnings": warning}
    tests = [{"name": "GPU Memory", "results": [result]}]
    return json.dumps(
        {"DCGM GPU Diagnostic": {"test_categories": [{"category": "Hardware", "tests": tests}]}}, indent=1
    )


def warning(error: int, severity: int, text: str = "words of DCGM") -> dict[str, Any]:
    """One warning of DCGM 3.3 and later."""
    return {"warning": text, "error_id": error, "error_severity": severity, "error_category": 10}


def test_a_pass_without_warnings_is_no_finding() -> None:
    """And proves nothing."""
    assert "dcgm-warning" not in ids(judged(v4("Pass")))
    assert "dcgm-warning" not in ids(judged(v3("PASS", "")))


@pytest.mark.parametrize(
    ("severity", "word"), [(1, "advice"), (2, "review"), (4, "review"), (5, "info"), (6, "review")]
)
def test_a_warning_is_as_bad_as_dcgm_calls_it(severity: int, word: str) -> None:
    """Monitor, isolate, triage, configuration, reset."""
    finding = found(judged(v4("Fail", warning(46, severity))), "dcgm-warning", "gpu2")
    assert (finding.severity, finding.parameters["tests"]) == (word, "memory")
    assert finding.parameters["warning"] == "words of DCGM"


def test_a_warning_on_a_pass_counts() -> None:
    """DCGM 4.5's memory test that could not allocate says Pass: memory was not tested."""
    finding = found(judged(v4("Pass", warning(83, 4, "could not allocate"))), "dcgm-warning", "gpu2")
    assert (finding.severity, finding.parameters["warning"]) == ("review", "could not allocate")


@pytest.mark.parametrize("error", [29, 55])
def test_configuration_is_information(error: int) -> None:
    """Persistence mode off, ECC off: our own rules tell them better."""
    result = judged(v4("Fail", warning(error, 2), test="software"))
    assert found(result, "dcgm-warning", "gpu2").severity == "info"


def test_a_fail_without_a_warning_asks_for_a_look() -> None:
    """Nothing explains it."""
    assert found(judged(v4("Fail")), "dcgm-warning", "gpu2").severity == "review"
    assert found(judged(v4("Warn")), "dcgm-warning", "gpu2").severity == "advice"


def test_dcgm_3_is_read_alike() -> None:
    """A warning as bare text has no severity: advice, and with a severity as DCGM calls it."""
    assert found(judged(v3("FAIL", "bandwidth below its minimum")), "dcgm-warning", "gpu2").severity == "advice"
    assert found(judged(v3("Fail", [warning(46, 2)])), "dcgm-warning", "gpu2").severity == "review"


def test_skip_is_neither_pass_nor_fail() -> None:
    """A test that did not run is no finding of the diagnostic."""
    assert "dcgm-warning" not in ids(judged(v4("Skip")))


def test_broken_json_keeps_what_can_be_read() -> None:
    """Cut in the middle of a failed test, with words before it."""
    text = "WARNING: THIS SHOULD NOT HAPPEN\n" + v4("Fail", warning(46, 2))
    cut = text[: text.index('"test_summary"')]
    assert found(judged(cut), "dcgm-warning", "gpu2").severity in ("review", "advice")


def test_an_answer_that_is_no_json_changes_nothing() -> None:
    """An error message instead of the document."""
    assert "dcgm-warning" not in ids(judged("Error: unable to establish a connection to the specified host\n"))


def test_the_word_of_dcgm_rejects_nothing() -> None:
    """The gravest warning alone is a review: our own figures decide."""
    assert judged(v4("Fail", *(warning(error, 2) for error in range(40, 60)))).verdict == "review"
