"""The reference case of the design, and what stands around it: kept working for ever."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditor import assembly, order, runs
from auditor.order import Order
from auditor.records import to_document
from auditor.runs import RunInfo, State
from tests import builders
from tests.golden import FOLDER, load
from tests.golden.__main__ import SYNTHETIC, text
from tests.judge.judged import GUEST_H200, METAL_A100, METAL_H200, found, ids, one, roots


def test_reference_case_is_one_root_finding() -> None:
    """A KVM guest with NVLink off, sold as bare metal: reject, one root, the rest its consequences."""
    result = one(load("a100x8-kvm-nvlink-off"), METAL_A100)
    assert result.verdict == "reject"
    assert roots(result) == ["virtualized"]
    assert found(result, "virtualized").parameters["level"] == "passthrough guest"
    for id in ("nvlink-missing", "allreduce-below-floor"):
        assert found(result, id).root == "gpu-01:virtualized:server"


def test_same_guest_without_a_bare_metal_order_is_rejected_for_its_links() -> None:
    """An advice never hides a reject: without the bare-metal order the missing NVLink is the root."""
    result = one(builders.a100x8_kvm(), "8x A100-SXM4-80GB nvswitch")
    assert result.verdict == "reject"
    assert roots(result) == ["nvlink-missing"]
    assert found(result, "virtualized").severity == "advice"


@pytest.mark.parametrize(
    ("model", "ordered"), [("A100 SXM4 80GB", METAL_A100), ("H200 SXM5 141GB", METAL_H200), ("L40S", "8x L40S")]
)
def test_healthy_server_is_accepted_without_a_word(model: str, ordered: str) -> None:
    """A healthy machine that fits its order has nothing at review or above and no advice."""
    result = one(builders.healthy(model), ordered)
    assert result.verdict == "accept"
    assert {f.severity for f in result.findings} <= {"info"}


def test_one_h200_guest_that_was_ordered_as_guest_is_accepted_with_advice() -> None:
    """A one-GPU guest with NVLink off is what was ordered: accept, plus advice that it is a guest."""
    record = builders.healthy(gpus=1, guest=True, nvlink=False)
    result = one(record, GUEST_H200)
    assert result.verdict == "accept"
    assert found(result, "virtualized").severity == "advice"
    assert found(result, "nvlink-off").severity == "info"


def test_one_h200_guest_against_an_order_of_eight_is_rejected() -> None:
    """The same record against 8 x H200 with NVSwitch on bare metal: count and machine are wrong."""
    result = one(builders.healthy(gpus=1, guest=True, nvlink=False), METAL_H200)
    assert result.verdict == "reject"
    assert {"gpu-count-short", "virtualized"} <= set(roots(result))


def test_local_demo_without_gpu_is_accepted() -> None:
    """An order of gpus: 0 needs server facts, matmul and all-reduce on the CPU, nothing else."""
    assert one(builders.cpu_only(), {"gpus": 0}).verdict == "accept"


def test_synthetic_golden_records_are_what_the_builders_make() -> None:
    """The files in tests/golden say what the builders say today; `python -m tests.golden` writes them anew."""
    for name, make in SYNTHETIC.items():
        assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == text(make())


def test_run_folder_is_judged_row_by_row(tmp_path: Path) -> None:
    """Every server of the orders has a row: measured, refused, and the one that never answered."""
    paid = order.parse(METAL_A100, "test")
    orders: dict[str, Order | None] = {"gpu-01": paid, "gpu-02": paid, "gpu-03": None}
    runs.write(tmp_path / "run.json", RunInfo("r", "lab", "standard", "0", "2026-12-01T03:15:00Z"))
    runs.write(tmp_path / "orders.json", orders)
    record = json.dumps(to_document(builders.a100x8_kvm())).encode()
    for name in ("gpu-01", "gpu-02"):
        (tmp_path / "servers" / name).mkdir(parents=True)
    runs.write_bytes(tmp_path / "servers" / "gpu-01" / "record.json", record)
    runs.write_bytes(tmp_path / "servers" / "gpu-02" / "record.json", record[: len(record) // 2])
    runs.write(tmp_path / "servers" / "gpu-03" / "state.json", State("reach", "unreachable", "connection refused"))
    judged = assembly.judge_run(tmp_path)
    by_name = {server.name: server for server in judged.judgement.servers}
    assert [by_name[n].verdict for n in ("gpu-01", "gpu-02", "gpu-03")] == ["reject", "incomplete", "incomplete"]
    assert "record-refused" in ids(by_name["gpu-02"])
    assert by_name["gpu-03"].reason == "unreachable: connection refused"
    assert judged.record("gpu-01") is not None
    assert judged.record("gpu-02") is None
