"""Bad input: missing, refused, foreign, of another method, contradictory; each with its verdict and its reason."""

from __future__ import annotations

import dataclasses
import gc
import json
from pathlib import Path

import msgspec
import pytest

from auditor import assembly, order, runs
from auditor.assembly import judge_heap, judge_run
from auditor.errors import UserError
from auditor.finding import Judgement
from auditor.judge import ServerInput, judge
from auditor.judge import policy as policies
from auditor.order import Orders
from auditor.records import Reading, Record, to_document
from auditor.report.texts import render
from auditor.runs import RunInfo, State
from tests import builders
from tests.builders import SYSFS, added, reading, row, without
from tests.judge.faults import on
from tests.judge.judged import GUEST_H200, METAL_H200, found, ids, one

H200 = builders.healthy()
ONE = builders.healthy(gpus=1, guest=True, nvlink=False)


@pytest.mark.parametrize(
    ("state", "id", "reason"),
    [
        (State("reach", "unreachable", "connection refused"), "server-unreachable", "unreachable: connection refused"),
        (State("reach", "host_key_changed"), "server-unreachable", "host_key_changed"),
        (State("start", "disk_full", "12 MB free"), "not-measured", "disk_full: 12 MB free"),
        (State("measure", "timed_out"), "not-measured", "timed_out"),
        (State("collect"), "not-measured", "no record"),
        (None, "server-unreachable", "no record"),
    ],
)
def test_no_record_is_incomplete_with_its_reason(state: State | None, id: str, reason: str) -> None:
    """A server without a record is a row: incomplete, with where it ended and why."""
    result = one(None, METAL_H200, state=state)
    assert result.verdict == "incomplete"
    assert result.reason == reason
    assert result.missing == ("record",)
    assert found(result, id).severity == "advice"
    assert result.phase == (state.phase if state else None)


def test_a_refused_record_is_a_row() -> None:
    """Refused is said with the reader's reason; nothing of it is used."""
    result = one(None, METAL_H200, refused="malformed: readings[3]", sha256="ab")
    assert result.verdict == "incomplete"
    assert found(result, "record-refused").parameters["reason"] == "malformed: readings[3]"
    assert result.reason == "record refused: malformed: readings[3]"
    assert result.sha256 == "ab"


def test_a_record_of_another_server_or_another_audit() -> None:
    """A record that names another machine, or lacks this audit's nonce, proves nothing about this one."""
    result = one(H200, METAL_H200, name="gpu-77", nonce="ff00")
    assert found(result, "name-differs").parameters == {"claimed": "gpu-01", "asked": "gpu-77"}
    assert found(result, "record-stale").severity == "review"
    assert result.verdict == "review"
    mine = dataclasses.replace(H200, nonce="ff00")
    assert one(mine, METAL_H200, nonce="ff00").verdict == "accept"


@pytest.mark.parametrize(
    ("between", "apart"),
    [
        (("2026-12-01T03:14:50Z", "2026-12-01T03:16:10.250Z"), None),
        (("2026-12-01T03:16:50Z", "2026-12-01T03:20:00Z"), None),  # 110 s early: within the line
        (("2026-12-01T05:14:50Z", "2026-12-01T05:16:10Z"), 7190.0),
        (("1980-01-01T00:00:00Z", "2016-12-01T03:16:01Z"), 315532800.0),
        (("2026-12-01T05:14:50+02:00", "2026-12-01T05:16:10+02:00"), None),
        ((None, None), None),
        (("t", "yesterday"), None),
    ],
)
def test_F09_a_clock_apart_is_advice(between: tuple[str | None, str | None], apart: float | None) -> None:
    """Times more than 120 s outside of the audit tell of a wrong clock: said, not held against the server."""
    result = one(H200, METAL_H200, between=between)
    assert result.verdict == "accept"
    if apart is None:
        assert "clock-differs" not in ids(result)
    else:
        finding = found(result, "clock-differs")
        assert (finding.severity, finding.parameters["measured"]) == ("advice", apart)


@pytest.mark.parametrize("started", ["1970-01-01T00:00:07Z", "2098-05-05T00:00:00Z"])
def test_F09_a_time_that_cannot_be_is_found_without_a_run_too(tmp_path: Path, started: str) -> None:
    """A file that came another way has no audit's times: older than the project or younger than now is a finding."""
    path = tmp_path / "record.json"
    path.write_bytes(msgspec.json.encode({**to_document(H200), "started": started}))
    (result,) = judge_heap([path]).judgement.servers
    assert found(result, "clock-differs").severity == "advice"


def test_F09_a_run_knows_its_own_times(tmp_path: Path) -> None:
    """The controller's times of one server are what its clock is held against."""
    mine = State("done", started="2026-12-01T07:14:50.000Z", finished="2026-12-01T07:16:10.000Z")
    runs.write(tmp_path / "run.json", RunInfo("r", "lab", "quick", "0", "2026-12-01T03:00:00Z"))
    runs.write(tmp_path / "orders.json", {"gpu-01": None})
    runs.write(tmp_path / "servers/gpu-01/state.json", mine)
    runs.write_bytes(tmp_path / "servers/gpu-01/record.json", msgspec.json.encode(to_document(H200)))
    (result,) = judge_run(tmp_path).judgement.servers
    assert found(result, "clock-differs").parameters["measured"] == 14390.0


def test_reason_and_detail_are_two_parts_of_a_sentence() -> None:
    """Why a server was not reached is its word and what was said, with a colon between them."""
    refused = State("reach", "login_refused", "root@gpu-01 was not let in")
    finding = found(one(None, METAL_H200, state=refused), "server-unreachable")
    assert render(finding, "en").observed == "the server refused the login: root@gpu-01 was not let in"
    assert render(finding, "zh").observed == "服务器拒绝登录：root@gpu-01 was not let in"


def test_all_servers_incomplete() -> None:
    """A run in which nobody answered is a judgement with a row for everyone and no ranking."""
    judgement = judge(lambda: [ServerInput(f"s{i}", state=State("reach", "unreachable")) for i in range(3)])
    assert [server.verdict for server in judgement.servers] == ["incomplete"] * 3
    assert all(server.scores == () for server in judgement.servers)


def test_an_empty_run() -> None:
    """No servers, no rows, no crash."""
    assert judge(list).servers == ()


@pytest.mark.parametrize(
    ("metric", "missing"),
    [
        ("matmul_sustained_flops_per_second", "matmul of gpu0"),
        ("host_copy_bytes_per_second", "host_copy of gpu0"),
        ("thermal_gpu_celsius", "thermal of gpu0"),
        ("memory_bandwidth_bytes_per_second", "memory_bandwidth of gpu0"),
        ("server_facts_gpus_on_bus_total", "count"),
        ("server_facts_gpus_nvml_total", "count"),
    ],
)
def test_each_needed_reading_moves_the_verdict(metric: str, missing: str) -> None:
    """Without a needed reading the verdict is incomplete and says which."""
    result = one(without(ONE, metric), GUEST_H200)
    assert result.verdict == "incomplete"
    assert result.missing == (missing,)
    assert any(f.id == "not-measured" and f.severity == "advice" for f in result.findings)


def test_several_gpus_need_topology_and_all_reduce() -> None:
    """Above one GPU both are needed; a matrix with holes is no topology."""
    record = without(without(H200, "topology_path", "gpu0-gpu1"), "collectives_busbw_bytes_per_second")
    result = one(record, METAL_H200)
    assert result.missing == ("topology", "all_reduce")
    assert "27 of 28 pairs" in str(found(result, "not-measured", "server").parameters["reason"])
    assert one(without(H200, "topology_path"), METAL_H200).missing == ("topology",)


def test_the_model_from_one_family_is_not_known() -> None:
    """A driver that is the only one to speak leaves the need unmet."""
    record = without(without(ONE, "gpu_identity_pci_device"), "matmul_flops_per_clock_per_sm")
    result = one(record, GUEST_H200)
    assert result.missing == ("model of gpu0",)
    assert "only the driver spoke" in str(found(result, "not-measured").parameters["reason"])
    silent = without(without(record, "gpu_identity_name"), "gpu_identity_uuid")
    assert one(silent, GUEST_H200).missing == ("model of gpu0",)


def test_gpus_ordered_but_none_seen() -> None:
    """A record without any GPU subject, an order of eight: everything needed is missing, nothing is zero."""
    bare = builders.record([reading("server_facts_kernel", "6.8", source=SYSFS)])
    result = one(bare, METAL_H200)
    assert result.verdict == "incomplete"
    assert {"model", "count", "matmul", "host_copy", "thermal", "topology", "all_reduce"} <= set(result.missing)
    none = added(
        bare,
        reading("server_facts_gpus_on_bus_total", 0, source=SYSFS),
        reading("server_facts_gpus_nvml_total", 0, source="driver/nvml"),
    )
    assert one(none, METAL_H200).verdict == "reject"


def test_failed_probes_that_are_not_needed_are_information() -> None:
    """A probe that failed is said; only needed ones move the verdict."""
    record = row(ONE, "l2_cache", "gpu0", "failed", "RuntimeError: no kernels")
    result = one(record, GUEST_H200)
    assert result.verdict == "accept"
    finding = found(result, "not-measured")
    assert finding.severity == "info"
    assert "failed: RuntimeError: no kernels" in str(finding.parameters["reason"])
    bare = row(ONE, "dcgm", "server", "timed_out")
    assert found(one(bare, GUEST_H200), "not-measured").parameters["reason"] == "timed_out"


def test_a_needed_probe_that_timed_out_says_so_once() -> None:
    """The reason is the probe's own; the server's row does not repeat it."""
    record = without(row(H200, "collectives", "server", "timed_out", "120 s"), "collectives_busbw_bytes_per_second")
    finding = found(one(record, METAL_H200), "not-measured")
    assert finding.severity == "advice"
    assert finding.parameters["reason"] == "timed_out: 120 s"


def test_a_probe_that_failed_on_a_gpu_is_said_once_when_it_was_needed_of_the_server() -> None:
    """The server's own row names the probe that should have met the need; the GPU's row would only repeat it."""
    record = without(row(H200, "collectives", "gpu3", "failed", "hung"), "collectives_busbw_bytes_per_second")
    findings = [f for f in one(record, METAL_H200).findings if f.id == "not-measured"]
    assert [f.subject for f in findings] == ["server"]


def test_conditions_of_the_wrong_type_choose_nothing() -> None:
    """A hostile record may say `ranks: many`: such a figure is never preferred."""
    odd = reading("collectives_busbw_bytes_per_second", 9e99, op="all_reduce", ranks="many", dtype="float32", bytes="x")
    result = one(added(H200, odd), METAL_H200)
    assert result.figures["allreduce_busbw"] == one(H200, METAL_H200).figures["allreduce_busbw"]
    square = reading("matmul_sustained_flops_per_second", 9e14, "gpu0", dtype="bf16", n_="huge")
    small = reading("matmul_sustained_flops_per_second", 3e14, "gpu0", dtype="bf16", n_=1024, load="all")
    figures = one(added(H200, square, small), METAL_H200).gpus[0].figures
    assert figures["matmul_bf16_sustained"] == one(H200, METAL_H200).gpus[0].figures["matmul_bf16_sustained"]
    flag = reading("gpu_identity_name", True, "gpu0")
    assert one(added(H200, flag), METAL_H200).verdict == "accept"


def test_the_collector_is_left_as_it_was_found() -> None:
    """Judging rests Python's cycle collector; who had switched it off finds it off."""
    gc.disable()
    try:
        judge(list)
        assert not gc.isenabled()
    finally:
        gc.enable()
    judge(list)
    assert gc.isenabled()


def test_a_gpu_in_use_is_left_alone_and_said() -> None:
    """Skipped because somebody works there: its own finding explains what is missing."""
    record = row(ONE, "matmul", "gpu0", "skipped", "in use by pid 4711 python")
    record = without(record, "matmul_sustained_flops_per_second")
    result = one(record, GUEST_H200)
    assert result.verdict == "incomplete"
    assert found(result, "gpu-in-use").parameters["reason"] == "in use by pid 4711 python"
    assert found(result, "not-measured").root == "gpu-01:gpu-in-use:gpu0"


def test_readings_of_an_older_method_are_not_compared() -> None:
    """Lines hold for the method they were set for; older readings are missing, with that reason."""
    shipped = policies.load()

    newer = msgspec.structs.replace(shipped, oldest_method={"matmul": 2})
    record = on("matmul_sustained_flops_per_second", 1.0)(ONE)
    result = judge(
        lambda: [ServerInput(record.server, order.parse(GUEST_H200, "t"), record=record)], policy=newer
    ).servers[0]
    assert result.verdict == "incomplete"
    assert "matmul-low" not in ids(result)
    assert "taken by method 1, older than the lines" in str(found(result, "not-measured").parameters["reason"])


def test_readings_of_an_unknown_metric_are_kept_and_judge_nothing() -> None:
    """A newer probe may send what this judge does not know."""
    record = added(ONE, Reading("quantum", "quantum_flux_total", "gpu0", 3, "measured"))
    assert one(record, GUEST_H200).verdict == "accept"


def test_readings_about_subjects_nobody_listed() -> None:
    """A reading about a GPU that is in no subject list changes nothing."""
    record = added(ONE, reading("gpu_identity_name", "NVIDIA H200", "gpu9"), reading("topology_path", "NV18", "gpu7"))
    assert one(record, GUEST_H200).verdict == "accept"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"gpus": 8}, "`gpu` names no model"),
        ({"gpus": 0, "gpu": "H200"}, "contradict each other"),
        ("8x H200 nvswitch pcie", "two interconnects"),
        ("8x H200 vm bare-metal", "cannot both be ordered"),
        ({"gpus": 1, "gpu": "H200", "interconnect": "nvswitch"}, "needs at least 2 GPUs"),
    ],
)
def test_orders_with_contradictions_never_reach_the_judge(raw: object, said: str) -> None:
    """An order that contradicts itself is refused where it is read."""
    with pytest.raises(UserError, match=said):
        order.parse(raw, "order")


def test_an_order_no_machine_can_be() -> None:
    """RTX 4090 with NVSwitch, H100 PCIe with NVSwitch: what was ordered is not there, and cannot be."""
    for gpu, model in (("RTX 4090", "RTX 4090"), ("H100 PCIe", "H100 PCIe 80GB")):
        result = one(builders.healthy(model, 2), {"gpu": gpu, "gpus": 2, "interconnect": "nvswitch"})
        finding = found(result, "order-impossible")
        assert (finding.subject, finding.severity, finding.basis) == ("server", "review", "order")
        assert finding.parameters == {"ordered": gpu, "interconnect": "nvswitch"}
        assert result.verdict != "accept"
    bridged = one(builders.healthy("H100 PCIe 80GB", 2), {"gpu": "H100 PCIe", "gpus": 2, "interconnect": "nvlink"})
    assert "order-impossible" not in ids(bridged)


def test_text_alone_is_never_accepted_nor_rejected() -> None:
    """Severities stay as the rules give them; the verdict is review or incomplete."""
    good = one(H200, METAL_H200, text_only=True)
    assert good.verdict == "incomplete"
    assert good.scores == ()
    bad = one(builders.a100x8_kvm(), "8x A100-SXM4-80GB nvswitch bare-metal", text_only=True)
    assert bad.verdict == "review"
    assert any(f.severity == "reject" for f in bad.findings)
    assert [f.id for f in one(builders.record(), text_only=True).findings] == ["not-measured"]


def folder(path: Path, records: dict[str, bytes | None], **info: object) -> Path:
    """A run folder with these records."""
    known: dict[str, object] = {"run": "r", "inventory": "lab", "profile": "quick", "version": "0", "started": "t"}
    runs.write(path / "run.json", RunInfo(**(known | info)))  # type: ignore[arg-type]
    runs.write(path / "orders.json", {name: order.parse(GUEST_H200, "t") for name in records})
    for name, data in records.items():
        if data is not None:
            (path / "servers" / name).mkdir(parents=True)
            runs.write_bytes(path / "servers" / name / "record.json", data)
    return path


def as_bytes(record: Record) -> bytes:
    """A record as it comes over the wire."""
    return json.dumps(to_document(record)).encode()


def test_a_run_uses_its_own_policy_labels_and_nonces(tmp_path: Path) -> None:
    """policy.yaml of the run folder is in force; labels and nonces come from run.json."""
    mine = dataclasses.replace(ONE, server="a", nonce="12")
    run = folder(tmp_path, {"a": as_bytes(mine), "b": None}, nonces={"a": "12"}, labels={"a": "Rack 1"})
    (run / "policy.yaml").write_text("needed:\n  standard: [model, colour]\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"policy\.yaml: needed: `colour` is no need"):
        assembly.judge_run(run)
    (run / "policy.yaml").write_text("needed:\n  standard: [model]\n", encoding="utf-8")
    judged = assembly.judge_run(run)
    first, second = judged.judgement.servers
    assert first.label == "Rack 1"
    assert first.verdict == "accept"
    assert second.reason == "never_started"
    assert judged.record("b") is None
    assert judged.judgement.policy_sha256 != policies.load().sha256


def test_attachments_become_readings(tmp_path: Path) -> None:
    """What a foreign tool wrote is read on the controller, for the judge and for the report alike."""
    with_file = dataclasses.replace(ONE, server="a", attachments={"nothing.txt": "no tool wrote this"})
    judged = assembly.judge_run(folder(tmp_path, {"a": as_bytes(with_file)}))
    record = judged.record("a")
    assert record is not None
    assert len(record.readings) >= len(ONE.readings)


def test_a_heap_of_files(tmp_path: Path) -> None:
    """Records that came another way are named by what they say, refused ones by their file."""
    (tmp_path / "x.json").write_bytes(as_bytes(ONE))
    (tmp_path / "broken.json").write_bytes(b"{")
    (tmp_path / "odd.json").write_bytes(
        as_bytes(dataclasses.replace(builders.healthy(gpus=1, server="odd"), server="../../etc"))
    )
    judged = assembly.judge_heap(sorted(tmp_path.glob("*.json")), Orders(default=order.parse(GUEST_H200, "t")))
    verdicts = {server.name: server.verdict for server in judged.judgement.servers}
    assert verdicts == {"broken": "incomplete", "odd": "review", "gpu-01": "accept"}
    assert judged.run is None
    assert judged.record("gpu-01") is not None
    assert judged.record("nobody") is None
    assert isinstance(judged.judgement, Judgement)


def test_a_heap_refuses_nothing_and_twice(tmp_path: Path) -> None:
    """No files, or two records of one server, are errors that name the file."""
    with pytest.raises(UserError, match="no record was named"):
        assembly.judge_heap([])
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(as_bytes(ONE))
    with pytest.raises(UserError, match=r"b\.json: a record of the server gpu-01 was already given"):
        assembly.judge_heap([tmp_path / "a.json", tmp_path / "b.json"])


def test_a_record_that_vanishes_while_it_is_read(tmp_path: Path) -> None:
    """A path that is gone when the report asks again is None, not a crash."""
    run = folder(tmp_path, {"gpu-01": as_bytes(ONE)})
    judged = assembly.judge_run(run)
    (run / "servers" / "gpu-01" / "record.json").unlink()
    assert judged.record("gpu-01") is None
