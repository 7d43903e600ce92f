"""Every Xid and SXid of the catalogue, from the raw line of a kernel log to the finding."""

from __future__ import annotations

import dataclasses
import re

import pytest

from auditor.finding import ServerResult
from auditor.judge import xids
from auditor.readers import attachments
from auditor.records import Record
from auditor.report.texts import render
from tests import builders
from tests.builders import NVML, added, changed, reading, without
from tests.judge.faults import FAULTS
from tests.judge.judged import METAL_H200, found, ids, one

AUDIT = "# lines below: during the audit"
HEALTHY = builders.healthy("H200 SXM5 141GB")
GPU1 = str(next(s.pci for s in HEALTHY.subjects if s.id == "gpu1"))
# Number, severity of one event, severity of several (None: the same). As docs/thresholds.md, health.
TABLE = [
    *((number, "info", None) for number in (11, 13, 31, 32, 69, 43, 141, 162, 163, 164)),
    *((number, "advice", None) for number in (68, 80, 126, 127, 139, 45, 78, 92, 93, 121, 137, 159, 165, 166, 170)),
    *((number, "review", "reject") for number in (46, 62, 109, 110, 119, 120)),
    *((number, "review", None) for number in (48, 63, 74, 94, 136, 151, 155, 156, 160, 169, 171, 172)),
    *((number, "reject", None) for number in (54, 64, 95, 140, 143, 157, 158, 161, 167, 168)),
    (999, "advice", None),
]


def line(xid: int, text: str = "some words", pci: str = GPU1, minute: int = 0) -> str:
    """A line as NVRM prints it; the log's address has no function."""
    return f"[{600 + 60 * minute}.000001] NVRM: Xid (PCI:{pci[:-2]}): {xid}, pid=77, name=python3, {text}"


def judged(*lines: str, record: Record = HEALTHY, ordered: object = METAL_H200) -> ServerResult:
    """The result for a record whose kernel log holds these lines."""
    with_log = dataclasses.replace(record, attachments={"kernel-log.txt": "\n".join(lines) + "\n"})
    return one(added(with_log, *attachments.readings(with_log)), ordered)


@pytest.mark.parametrize(("xid", "severity", "_"), TABLE, ids=lambda value: str(value))
def test_an_xid_during_the_audit_has_the_catalogues_severity(xid: int, severity: str, _: str | None) -> None:
    """One event on one GPU while we worked."""
    finding = found(judged(AUDIT, line(xid)), "xid-recent", "gpu1")
    assert finding.severity == severity
    assert finding.parameters["xids"] == str(xid)
    assert finding.uuid == next(s.uuid for s in HEALTHY.subjects if s.id == "gpu1")
    assert [e.source for e in finding.evidence] == ["kernel/log"]


@pytest.mark.parametrize(("xid", "severity", "repeated"), TABLE, ids=lambda value: str(value))
def test_repeats_make_a_time_out_a_rejection(xid: int, severity: str, repeated: str | None) -> None:
    """Two events of two minutes; only what the catalogue calls worse on repeat becomes worse."""
    finding = found(judged(AUDIT, line(xid), line(xid, minute=2)), "xid-recent", "gpu1")
    assert finding.severity == (repeated or severity)
    assert finding.parameters["xids"] == f"{xid} x 2"


def test_the_table_of_the_test_is_the_table_of_the_judge() -> None:
    """No Xid of the judge's table is without a case here, but those with cases of their own."""
    own_cases = {*xids.NVLINK5, xids.RECOVERY, xids.OFF_THE_BUS}
    assert {xid for xid, _, _ in TABLE} - {999} == set(xids.XIDS) - own_cases


def test_dozens_of_lines_of_one_minute_are_one_event() -> None:
    """Xid 119 printed over and over within a minute is one time-out and no rejection."""
    finding = found(judged(AUDIT, *(line(119, f"try {n}") for n in range(20))), "xid-recent", "gpu1")
    assert (finding.severity, finding.parameters["xids"]) == ("review", "119")


@pytest.mark.parametrize("xid", [48, 64, 95, 119, 143])
def test_what_is_over_is_history_when_the_gpu_works_now(xid: int) -> None:
    """Before the audit, with a GPU that has done its products since: advice."""
    finding = found(judged(line(xid), AUDIT), "xid-recent", "gpu1")
    assert finding.severity == "advice"
    assert finding.parameters["when"] == "earlier in this boot"


@pytest.mark.parametrize(("xid", "severity"), [(48, "review"), (64, "reject")])
def test_what_is_over_counts_in_full_when_the_gpu_does_not_work(xid: int, severity: str) -> None:
    """No product measured on it: nothing says that the fault is over."""
    broken = without(HEALTHY, "matmul_sustained_flops_per_second", "gpu1")
    assert found(judged(line(xid), AUDIT, record=broken), "xid-recent", "gpu1").severity == severity


def test_several_xids_of_one_gpu_are_one_finding_with_the_gravest_first() -> None:
    """48, 63 and 94 within a second are one story; the text names the gravest."""
    result = judged(AUDIT, line(48), line(63), line(94), line(95))
    finding = found(result, "xid-recent", "gpu1")
    assert finding.severity == "reject"
    assert finding.parameters["xids"] == "48, 63, 94, 95"
    assert finding.parameters["xid"] == 95


@pytest.mark.parametrize("number", list(xids.NVLINK5))
@pytest.mark.parametrize(("word", "severity"), [("Fatal", "reject"), ("Nonfatal", "advice")])
def test_nvlink_5_errors_are_fatal_or_not_by_their_sub_code(number: int, word: str, severity: str) -> None:
    """`149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (…)`; the link may be -1 and the unit hold a slash."""
    text = f"NVRM: Xid (PCI:{GPU1[:-2]}): {number}, NETIR/LINK_EVT  {word}   XC0 i0 Link -1 (0x021425c6 0x0 0x0 0x0)"
    assert found(judged(AUDIT, text), "xid-recent", "gpu1").severity == severity


ACTIONS = [
    ("None", "info"),
    ("GPU Reset Required", "review"),
    ("Node Reboot Required", "reject"),
    ("Drain P2P", "review"),
    ("Drain and Reset", "review"),
    ("Recover IMEX", "review"),
    ("Bus Reset", "reject"),
    ("System Reboot", "reject"),
]


@pytest.mark.parametrize(("words", "severity"), ACTIONS)
def test_xid_154_is_as_bad_as_the_action_it_ends_with(words: str, severity: str) -> None:
    """`GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)`: the last one counts."""
    text = f"GPU recovery action changed from 0x0 (None) to 0x1 ({words})"
    assert found(judged(AUDIT, line(154, text)), "xid-recent", "gpu1").severity == severity


def test_a_lost_gpu_is_rejected_and_explains_its_xid() -> None:
    """Xid 79 while we worked."""
    result = judged(AUDIT, line(79, "GPU has fallen off the bus."))
    assert found(result, "gpu-lost", "gpu1").severity == "reject"
    assert found(result, "xid-recent", "gpu1").root == found(result, "gpu-lost", "gpu1").key
    assert result.verdict == "reject"


def test_a_gpu_that_was_lost_and_is_back_is_history() -> None:
    """Xid 79 in the log and a GPU that works now: somebody restarted it."""
    result = judged(line(79, "GPU has fallen off the bus."), AUDIT)
    assert found(result, "gpu-lost", "gpu1").severity == "advice"
    assert "came back" in str(found(result, "gpu-lost", "gpu1").parameters["state"])


def test_a_gpu_lost_without_the_word_xid() -> None:
    """New drivers print three lines and no number."""
    lines = [
        f"[700.1] NVRM: The NVIDIA GPU {GPU1}",
        "[700.1] NVRM: (PCI ID: 10de:2335) installed in this system has",
        "[700.1] NVRM: fallen off the bus and is not responding to commands.",
    ]
    assert found(judged(AUDIT, *lines), "gpu-lost", "gpu1").severity == "reject"


@pytest.mark.parametrize(
    "form",
    [
        "NVRM: Xid (PCI:{pci}): 95, pid='<unknown>', name=<unknown>, text",
        "[Sun Feb 23 16:24:18 2025] NVRM: Xid (PCI:{pci}):  95, pid=1, name=x, text",
        "2024-11-15T12:02:03,470068+00:00 NVRM: Xid (PCI:{pci}): 95, pid=1, name=x, text",
        "kern  :warn  : 2025-01-21T02:21:33,498559+00:00 NVRM: Xid (PCI:{pci}): 95, text",
        "3,3964,206764307,-;NVRM: Xid (PCI:{pci}): 95, pid=1, text",
        "Dec  1 10:00:04 gpu-01 kernel: NVRM: Xid ({pci}): 95, text",
        "2026-12-01T10:00:02.000001+0000 gpu-01 kernel: NVRM: Xid (PCI:{pci}.0): 95, text",
    ],
)
def test_every_form_of_a_line_gives_the_finding(form: str) -> None:
    """Stamps of dmesg, journal, syslog and /dev/kmsg; old drivers without the word PCI; double blanks."""
    assert found(judged(AUDIT, form.format(pci=GPU1[:-2])), "xid-recent", "gpu1").severity == "reject"


def test_errors_of_an_application_stay_information_on_several_gpus() -> None:
    """117 lines of Xid 13 in a user's code are nothing for the provider."""
    other = str(next(s.pci for s in HEALTHY.subjects if s.id == "gpu2"))
    lines = [line(13, minute=n) for n in range(9)] + [line(13, pci=other, minute=n) for n in range(9)]
    result = judged(AUDIT, *lines)
    assert {f.severity for f in result.findings if f.id == "xid-recent"} == {"info"}
    assert result.verdict == "accept"


def test_the_same_application_error_always_on_one_gpu_is_advice() -> None:
    """Eight GPUs run the same code and one alone faults again and again."""
    assert found(judged(AUDIT, *(line(31, minute=n) for n in range(4))), "xid-recent", "gpu1").severity == "advice"


def test_other_tenants_xids_are_told_and_not_held_against_the_server() -> None:
    """The log of a container's host names addresses that are none of ours."""
    shared = changed(HEALTHY, "server_facts_container", "docker")
    result = judged(AUDIT, line(79, pci="00ab:cd:00.0"), line(64, pci="00ab:cd:00.0"), record=shared, ordered="8x H200")
    assert "xid-recent" not in ids(result)
    assert "gpu-lost" not in ids(result)
    finding = found(result, "xid-of-others")
    assert finding.severity == "info"
    assert finding.parameters["addresses"] == "00ab:cd:00.0"
    assert result.verdict == "accept"


OFF = "00ab:cd:00.0"
FELL = [
    f"[700.1] NVRM: The NVIDIA GPU {OFF}",
    "[700.1] NVRM: (PCI ID: 10de:2335) installed in this system has",
    "[700.1] NVRM: fallen off the bus and is not responding to commands.",
]
SEVEN = next(fault for fault in FAULTS if fault.name == "one GPU of eight missing").edit(HEALTHY)


@pytest.mark.parametrize("lines", [[line(79, pci=OFF), AUDIT], [AUDIT, line(79, pci=OFF)], [*FELL, AUDIT]])
def test_a_gpu_that_fell_off_before_it_was_listed_is_the_one_that_is_missing(lines: list[str]) -> None:
    """Seven of eight are listed and the kernel lost an eighth address: one root, the short count its consequence."""
    result = judged(*lines, record=SEVEN)
    finding = found(result, "gpu-lost", "server")
    assert (result.verdict, finding.severity) == ("reject", "reject")
    assert finding.parameters["addresses"] == OFF
    assert found(result, "gpu-count-short").root == finding.key
    assert "xid-of-others" not in ids(result)
    assert OFF in render(finding, "en").ask


@pytest.mark.parametrize(
    ("record", "ordered", "severity", "verdict"),
    [
        (HEALTHY, METAL_H200, "advice", "accept"),  # all that was ordered is there
        (HEALTHY, None, "review", "review"),  # nobody says how many there should be
        (changed(SEVEN, "server_facts_container", "docker"), "8x H200", "review", "reject"),  # perhaps a neighbour's
    ],
)
def test_a_gpu_that_fell_off_is_graded_by_what_is_missing(
    record: Record, ordered: str | None, severity: str, verdict: str
) -> None:
    """Metal and guests have a kernel log of their own, a container has its host's."""
    result = judged(line(79, pci=OFF), AUDIT, record=record, ordered=ordered)
    assert (result.verdict, found(result, "gpu-lost", "server").severity) == (verdict, severity)


SXID = "[9.1] nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): {number}, {kind}, Link 30 LTSSM Fault Up"


@pytest.mark.parametrize(
    ("number", "kind", "severity"),
    [(20034, "Fatal", "reject"), (22013, "Non-fatal", "advice"), (12028, "Non-fatal", "info")],
)
def test_switch_errors(number: int, kind: str, severity: str) -> None:
    """Fatal ones break the fabric; 12028 is widely ignored; the Data line is no second event."""
    data = f"[9.2] nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): {number}, Data {{0x50610002, 0x10100030}}"
    finding = found(judged(AUDIT, SXID.format(number=number, kind=kind), data), "nvswitch-sxid")
    assert finding.severity == severity
    assert len(finding.evidence) == 1


def test_a_fatal_switch_error_before_the_audit_is_history_when_all_gpus_work() -> None:
    """Reset since, and every GPU did its work."""
    text = SXID.format(number=20034, kind="Fatal")
    assert found(judged(text, AUDIT), "nvswitch-sxid").severity == "advice"
    broken = without(HEALTHY, "matmul_sustained_flops_per_second", "gpu3")
    assert found(judged(text, AUDIT, record=broken), "nvswitch-sxid").severity == "reject"


def test_a_log_without_errors_gives_no_finding() -> None:
    """Driver loading, peer-memory noise and NVSwitch devices that open are nothing."""
    result = judged(
        "[1.0] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04",
        "[2.0] nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
        "6,3964,206764307,-;nvidia-nvswitch2: open (major=510)",
        AUDIT,
    )
    assert {"xid-recent", "gpu-lost", "nvswitch-sxid"} & ids(result) == set()
    assert result.verdict == "accept"


def test_a_driver_that_calls_a_gpu_lost_rejects_it() -> None:
    """NVML error 15, without any kernel log."""
    record = added(HEALTHY, reading("gpu_health_fault", "gpu_lost", "gpu1", NVML, where="nvmlDeviceGetRemappedRows"))
    finding = found(one(record, METAL_H200), "gpu-lost", "gpu1")
    assert finding.severity == "reject"
    assert finding.parameters["state"] == "does not answer"


def test_meanings_and_actions_end_without_a_stop() -> None:
    """They are parts of sentences."""
    for number, entry in xids.XIDS.items():
        assert re.fullmatch(r"[^.]+", entry.meaning.replace("(InfoROM)", "")), number
        assert not entry.action.endswith("."), number
