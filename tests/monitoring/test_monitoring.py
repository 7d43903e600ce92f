"""The alert rules in docs/monitoring: their structure, their counters, and promtool's own judgement."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from auditor.finding import SEVERITIES
from auditor.judge import rule, xids

FOLDER = Path(__file__).parents[2] / "docs" / "monitoring"
OLDER_NAME = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"


def _rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((FOLDER / "gpu-rules.yml").read_text(encoding="utf-8"))
    return [one for group in document["groups"] for one in group["rules"]]


def _alerts() -> list[dict[str, Any]]:
    return [one for one in _rules() if "alert" in one]


def _promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("promtool is missing; it is in Debian's package prometheus")
        pytest.skip("no promtool here (Debian: apt-get install prometheus)")
    return subprocess.run([program, *arguments], capture_output=True, text=True, cwd=FOLDER, check=False)


def test_promtool_accepts_the_rules() -> None:
    """Prometheus' own checker finds the file and every expression in order."""
    done = _promtool("check", "rules", "gpu-rules.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_unit_tests_pass() -> None:
    """Each alert fires on its fault, names the GPU, and is silent beside it."""
    done = _promtool("test", "rules", "gpu-rules-test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_says_how_bad_it_is_and_what_to_do() -> None:
    """Severities are the report's words; a summary names server and GPU, an action says the next step."""
    for alert in _alerts():
        assert alert["labels"]["severity"] in SEVERITIES, alert["alert"]
        assert re.fullmatch(r"[a-z0-9-]+", alert["labels"]["finding"]), alert["alert"]
        assert "$labels.Hostname" in alert["annotations"]["summary"], alert["alert"]
        assert len(alert["annotations"]["action"]) > 20, alert["alert"]


def test_each_alert_names_a_finding_of_the_report() -> None:
    """The id leads to the report's own explanation and to the request to the provider."""
    assert {alert["labels"]["finding"] for alert in _alerts()} - set(rule.texts()) == set()


def test_alert_names_are_unique() -> None:
    """Two alerts of one name would hide each other in Alertmanager."""
    names = [alert["alert"] for alert in _alerts()]
    assert len(names) == len(set(names))


def test_each_metric_that_is_used_is_exported() -> None:
    """counters.csv lists every field the rules read; the older name of the reasons stands for the newer."""
    exported = set(re.findall(r"^(DCGM_\w+) *,", (FOLDER / "counters.csv").read_text(encoding="utf-8"), re.M))
    used = {name for one in _rules() for name in re.findall(r"DCGM_\w+", one["expr"])}
    assert used - {OLDER_NAME} <= exported


def test_each_counter_is_a_field_a_type_and_a_help_text() -> None:
    """The exporter refuses a line that has not three parts."""
    for line in (FOLDER / "counters.csv").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            field, kind, words = (part.strip() for part in line.split(",", 2))
            assert field.startswith("DCGM_FI_DEV_")
            assert kind in ("gauge", "counter")
            assert words
            assert "," not in words


def test_each_alert_has_a_unit_test() -> None:
    """An alert without a test in gpu-rules-test.yml may never fire."""
    tests = yaml.safe_load((FOLDER / "gpu-rules-test.yml").read_text(encoding="utf-8"))["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert {alert["alert"] for alert in _alerts()} - fired == set()


def _xids(alert: str) -> set[int]:
    expr = next(a["expr"] for a in _alerts() if a["alert"] == alert)
    single = {int(number) for number in re.findall(r"== (\d+)", expr)}
    ranges = re.findall(r">= (\d+) and DCGM_FI_DEV_XID_ERRORS <= (\d+)", expr)
    return single.union(*(range(int(low), int(high) + 1) for low, high in ranges))


def test_xids_alert_as_the_audit_judges_them() -> None:
    """Reject and review of the rules are reject and review of the judge; a lost GPU and NVLink 5 included."""
    judged = {
        severity: {xid for xid, entry in xids.XIDS.items() if entry.severity == severity}
        for severity in ("reject", "review")
    }
    assert _xids("GpuXidReplace") == judged["reject"]
    assert _xids("GpuXidRepair") == judged["review"]
