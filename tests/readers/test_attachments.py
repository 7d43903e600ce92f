"""Raw outputs in a record's attachments become readings about that record's GPUs."""

from __future__ import annotations

from auditor.readers.attachments import readings
from auditor.records import Reading, Record, Seconds, Subject, Tool
from tests.readers.reading_inputs import INPUTS


def record(attachments: dict[str, str], own: tuple[Reading, ...] = ()) -> Record:
    """A record of two GPUs with attachments."""
    return Record(
        1,
        Tool("probe", "1"),
        "r",
        "s",
        "quick",
        "cuda",
        "2026-12-01T00:00:00Z",
        Seconds(1.0, 1.0, 0.0),
        subjects=(
            Subject("server", "server"),
            Subject("gpu0", "gpu", 0, pci="0000:1a:00.0"),
            Subject("gpu1", "gpu", 1, pci="0000:2b:00.0"),
        ),
        readings=own,
        attachments=attachments,
    )


def text(name: str) -> str:
    """One of the inputs."""
    return (INPUTS / name).read_text(encoding="utf-8")


def test_no_attachments_no_readings() -> None:
    """A record without attachments, or with one that no reader knows, gives nothing."""
    assert readings(record({})) == ()
    assert readings(record({"notes.txt": "hello"})) == ()


def test_the_diagnostic_counts_as_the_drivers_word() -> None:
    """What the probe ran itself is no pasted text: dcgmi's results are the driver's, and of the dcgm probe."""
    found = readings(record({"dcgmi-diag.json": text("dcgmi_json/v4-entities.txt")}))
    results = {(r.probe, r.source) for r in found if r.metric == "dcgm_result"}
    assert results == {("dcgm", "driver/dcgm")}


def test_the_kernel_log_is_split_at_the_audit_and_mapped_by_address() -> None:
    """Lines below the probe's mark came during the audit; the address names the GPU."""
    found = readings(record({"kernel-log.txt": text("kernel_log/before-and-during.txt")}))
    xids = [(r.subject, r.conditions["when"], r.source) for r in found if r.metric == "kernel_log_xid_total"]
    assert xids == [("gpu1", "history", "kernel/log"), ("gpu1", "audit", "kernel/log")]


def test_a_strange_address_in_the_log_is_not_one_of_our_gpus() -> None:
    """The kernel is shared: an Xid of a GPU that is not ours stands with the server and its address."""
    log = "[1.000001] NVRM: Xid (PCI:0000:77:00): 79, pid=1, GPU has fallen off the bus.\n"
    found = [r for r in readings(record({"kernel-log.txt": log})) if r.metric == "kernel_log_xid_total"]
    assert [(r.subject, r.conditions["pci"]) for r in found] == [("server", "0000:77:00.0")]


def test_what_the_record_says_itself_is_not_said_twice() -> None:
    """A reading that the probe already made from the same source is left out."""
    log = text("kernel_log/before-and-during.txt")
    first = readings(record({"kernel-log.txt": log}))
    assert readings(record({"kernel-log.txt": log}, own=first)) == ()


def test_rates_of_nccl_tests_keep_their_source() -> None:
    """The environment an output may print is never read."""
    found = readings(record({"nccl-tests.json": text("nccl_tests_json/three-figures.txt")}))
    assert {r.source for r in found} == {"text/nccl-tests"}
    assert not any("hunter2" in str(r.value) for r in found)
