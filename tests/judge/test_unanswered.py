"""A server that ORDER.yml names and no record is of: a row and a warning, never a gap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from auditor import assembly, order
from auditor.commands.report import command
from auditor.records import to_document
from tests import builders
from tests.judge.judged import found

ORDERS = """\
default: 1x H200 vm
servers:
  gpu-01: 1x H200 vm
  gpu-2: 8x H200 nvswitch bare-metal
"""


@pytest.fixture
def heap(tmp_path: Path) -> list[Path]:
    """Records of gpu-01 and gpu-02, and an order file that spells the second otherwise."""
    (tmp_path / "ORDER.yml").write_text(ORDERS, encoding="utf-8")
    for name in ("gpu-01", "gpu-02"):
        record = builders.healthy(gpus=1, guest=True, nvlink=False, server=name)
        (tmp_path / f"{name}.json").write_text(json.dumps(to_document(record)), encoding="utf-8")
    return sorted(tmp_path.glob("*.json"))


def called(heap: list[Path], *more: str) -> Result:
    """`auditor report` of the heap."""
    folder = heap[0].parent
    arguments = [*map(str, heap), "--order", str(folder / "ORDER.yml"), "--csv", str(folder / "out.csv"), *more]
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def test_it_is_a_row_with_its_order_and_its_reason(heap: list[Path]) -> None:
    """Incomplete, with what was ordered and why nothing is known; the others keep their verdicts."""
    judged = assembly.judge_heap(heap, order.load(str(heap[0].parent / "ORDER.yml")))
    servers = {server.name: server for server in judged.judgement.servers}
    assert {name: server.verdict for name, server in servers.items()} == {
        "gpu-01": "accept",
        "gpu-02": "accept",
        "gpu-2": "incomplete",
    }
    lost = servers["gpu-2"]
    assert (lost.reason, lost.phase, lost.missing) == ("no_record_given", "collect", ("record",))
    assert lost.order is not None and lost.order.gpus == 8
    assert found(lost, "not-measured").severity == "advice"
    assert judged.unanswered == ("gpu-2",)
    assert judged.judgement.of_inventory == 3
    assert judged.record("gpu-2") is None


def test_the_report_says_it_and_ends_as_incomplete(heap: list[Path]) -> None:
    """A warning line with the name that may have been meant; exit code 3, for a server is incomplete."""
    result = called(heap)
    assert "warning: gpu-2 was ordered, but no record is of it" in result.stderr
    assert "Was gpu-02 meant?" in result.stderr
    assert result.exit_code == 3
    assert "gpu-2" in result.stdout and "it was ordered, and no record of it was given" in result.stdout


def test_a_redacted_report_names_nobody(heap: list[Path]) -> None:
    """The warning stands there without the name."""
    result = called(heap, "--redact")
    assert "warning: a server was ordered" in result.stderr
    assert "gpu-2" not in result.output


def test_orders_that_all_have_a_record_warn_of_nothing(heap: list[Path]) -> None:
    """No row and no warning more than there are records."""
    (heap[0].parent / "ORDER.yml").write_text(ORDERS.replace("gpu-2:", "gpu-02:"), encoding="utf-8")
    result = called(heap)
    assert "warning" not in result.stderr
    assert result.exit_code == 1  # eight were ordered for gpu-02, and one came
