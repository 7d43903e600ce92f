"""Probe `gpu_health`: counters before and after, flags, lost GPUs and the kernel log, over the NVML double."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from auditor.probes import gpu_health
from auditor.probes.engine import kernel_log
from tests.nvml_double import Profile, build, edited, healthy, lost

from .health_run import Told, told


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The double, compiled once."""
    if shutil.which("gcc") is None and os.environ.get("CI") != "true":
        pytest.skip("no C compiler here")
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def audit(tmp_path: Path, libraries: Path) -> Iterator[Callable[..., Told]]:
    """Runs the probe on one profile at the start and, where given, on another at the end."""

    def run(start: Profile, end: Profile | None = None, folder: Path = libraries) -> Told:
        return told(tmp_path, folder, start, end)

    yield run


ONE = healthy("h200x1-guest")
LINKED = healthy("h200x8-nvswitch", 2)


def test_a_healthy_gpu_tells_zeros_and_no_faults(audit: Callable[..., Told]) -> None:
    """Every counter that the driver has is there twice, as history and as a difference of nothing."""
    run = audit(ONE)
    assert run.value("ecc_errors_total", kind="uncorrected", counter="volatile", when="history") == 0
    assert run.value("ecc_errors_total", kind="uncorrected", counter="volatile", when="audit") == 0
    assert run.value("remap_pending") is False
    assert run.value("remap_failure") is False
    assert run.value("recovery_action") == "none"
    assert run.value("repair_pending", what="channel") is False
    assert run.value("repair_pending", what="unrepairable") is False
    assert run.value("pcie_replays_total", when="audit") == 0
    assert run.value("event_reason_seconds", reason="hw_power_brake", when="history") == 0
    assert not [row for row in run.before + run.after if row["metric"] == "gpu_health_fault"]


def test_what_is_not_supported_is_not_told(audit: Callable[..., Told]) -> None:
    """Retired pages do not exist since Ampere: no reading, and no zero in its place."""
    run = audit(ONE)
    assert not [row for row in run.before if "retired" in row["metric"]]
    assert not [row for row in run.before if row["metric"] == "gpu_health_nvlink_errors_total"]


def test_differences_are_over_the_audit_and_history_is_what_stood_before(audit: Callable[..., Told]) -> None:
    """Three uncorrected errors from former tenants are history; one more while we worked is the audit's."""
    start = edited(ONE, 0, **{"nvmlDeviceGetTotalEccErrors[1,0]": 3, "nvmlDeviceGetPcieReplayCounter": 80})
    end = edited(ONE, 0, **{"nvmlDeviceGetTotalEccErrors[1,0]": 4, "nvmlDeviceGetPcieReplayCounter": 95})
    run = audit(start, end)
    assert run.value("ecc_errors_total", kind="uncorrected", counter="volatile", when="history") == 3
    assert run.value("ecc_errors_total", kind="uncorrected", counter="volatile", when="audit") == 1
    assert run.value("pcie_replays_total", when="history") == 80
    assert run.value("pcie_replays_total", when="audit") == 15


def test_times_of_being_slowed_down_are_seconds_of_the_audit(audit: Callable[..., Told]) -> None:
    """Violation counters and the newer ones per reason count nanoseconds: history and what came while we worked."""
    heat = "nvmlDeviceGetViolationStatus[1]"
    start = edited(ONE, 0, **{heat: {"referenceTime": 1, "violationTime": 4_000_000_000}})
    start["gpus"][0]["fields"] = {**start.get("gpu", {}).get("fields", {}), "270": 7_000_000_000, "271": 0}
    end = edited(start, 0, **{heat: {"referenceTime": 2, "violationTime": 6_500_000_000}})
    end["gpus"][0]["fields"]["271"] = 1_250_000_000
    run = audit(start, end)
    assert run.value("violation_seconds", policy="thermal", when="history") == 4.0
    assert run.value("violation_seconds", policy="thermal", when="audit") == 2.5
    assert run.value("event_reason_seconds", reason="hw_thermal", when="history") == 7.0
    assert run.value("event_reason_seconds", reason="hw_thermal", when="audit") == 0
    assert run.value("event_reason_seconds", reason="hw_power_brake", when="audit") == 1.25


def test_a_counter_that_fell_counts_from_zero(audit: Callable[..., Told]) -> None:
    """A driver reload or a wrap in between: what stands now came since."""
    run = audit(
        edited(ONE, 0, nvmlDeviceGetPcieReplayCounter=4294967290), edited(ONE, 0, nvmlDeviceGetPcieReplayCounter=6)
    )
    assert run.value("pcie_replays_total", when="audit") == 6


def test_remapping_retirement_and_repair(audit: Callable[..., Told]) -> None:
    """Rows by kind, pending and failed remapping, retired pages of old cards, and the repair flags of new drivers."""
    sick = edited(
        ONE,
        0,
        nvmlDeviceGetRemappedRows=[2, 4, 1, 1],
        nvmlDeviceGetRetiredPagesPendingStatus=1,
        nvmlDeviceGetRepairStatus=[1, 1],
        nvmlDeviceGetUnrepairableMemoryFlag_v1=1,
        nvmlDeviceGetSramEccErrorStatus=1,
        **{"nvmlDeviceGetRetiredPages[0]": [1, 2], "nvmlDeviceGetRetiredPages[1]": [5, 6, 7]},
    )
    run = audit(sick)
    assert run.value("remapped_rows_total", kind="corrected", when="history") == 2
    assert run.value("remapped_rows_total", kind="uncorrected", when="history") == 4
    assert (run.value("remap_pending"), run.value("remap_failure")) == (True, True)
    assert run.value("retired_pages_total", cause="single_bit", when="history") == 2
    assert run.value("retired_pages_total", cause="double_bit", when="history") == 3
    assert run.value("retired_pending") is True
    assert [run.value("repair_pending", what=what) for what in ("channel", "tpc", "unrepairable")] == [True] * 3
    assert run.value("sram_threshold_exceeded") is True


def test_a_row_that_is_remapped_while_we_work_is_told_as_such(audit: Callable[..., Told]) -> None:
    """A flag that changes during the audit is told again, marked."""
    run = audit(ONE, edited(ONE, 0, nvmlDeviceGetRemappedRows=[0, 1, 1, 0]))
    assert run.value("remap_pending") is False
    assert run.value("remap_pending", when="audit") is True
    assert run.value("remapped_rows_total", kind="uncorrected", when="audit") == 1


WORDS = [
    "none",
    "gpu_reset",
    "node_reboot",
    "drain_p2p",
    "drain_and_reset",
    "recover_imex",
    "bus_reset",
    "system_reboot",
    "unknown_8",
]


@pytest.mark.parametrize(("number", "word"), list(enumerate(WORDS)))
def test_the_recovery_action_is_a_word(audit: Callable[..., Told], number: int, word: str) -> None:
    """Field 230, as Xid 154 numbers it; a number of a later driver is named and not guessed."""
    fields = {**ONE["gpus"][0]["fields"], "230": number}
    assert audit(edited(ONE, 0, fields=fields)).value("recovery_action") == word


def test_nvlink_errors_are_per_link_and_summed(audit: Callable[..., Told]) -> None:
    """The link that counts is named, the GPU's sum is always there, zeros of single links are not."""
    end = edited(LINKED, 1, **{"nvmlDeviceGetNvLinkErrorCounter[3,0]": 12, "nvmlDeviceGetNvLinkErrorCounter[3,1]": 1})
    start = edited(LINKED, None, nvmlDeviceGetNvLinkErrorCounter=0)
    run = audit(start, edited(end, None, nvmlDeviceGetNvLinkErrorCounter=0))
    assert run.value("nvlink_errors_total", "gpu0", counter="replay", when="audit") == 0
    assert run.value("nvlink_errors_total", "gpu1", counter="replay", when="audit") == 12
    assert run.value("nvlink_errors_total", "gpu1", counter="recovery", when="audit") == 1


def test_history_of_a_link_names_the_link(audit: Callable[..., Told]) -> None:
    """A link with errors from before the audit has a reading of its own."""
    start = edited(LINKED, None, nvmlDeviceGetNvLinkErrorCounter=0)
    start = edited(start, 0, **{"nvmlDeviceGetNvLinkErrorCounter[7,2]": 900})
    run = audit(start, edited(start, 0, **{"nvmlDeviceGetNvLinkErrorCounter[7,2]": 905}))
    assert run.value("nvlink_errors_total", "gpu0/link7", counter="crc_flit", when="history") == 900
    assert run.value("nvlink_errors_total", "gpu0/link7", counter="crc_flit", when="audit") == 5


def test_blackwell_counts_in_fields(audit: Callable[..., Told]) -> None:
    """Where the old counters are not supported, the fields of NVLink 5 are asked link by link."""
    fields = {**LINKED["gpus"][0].get("fields", {}), "208/2": 4, "215/2": 1, "221": 0}
    start = edited(LINKED, None, nvmlDeviceGetNvLinkErrorCounter=None, fields=fields)
    run = audit(start)
    assert run.value("nvlink_errors_total", "gpu0/link2", counter="receive", when="history") == 4
    assert run.value("nvlink_errors_total", "gpu0", counter="recovery", when="history") == 1
    assert run.value("nvlink_errors_total", "gpu0", counter="symbol", when="history") == 0


def test_a_gpu_that_is_lost_gives_its_fault_and_others_go_on(audit: Callable[..., Told]) -> None:
    """NVML error 15 is a reading with the call that met it; the other GPU's counters are told as ever."""
    start = edited(LINKED, None, nvmlDeviceGetNvLinkErrorCounter=0)
    run = audit(start, lost(start, 1))
    faults = [row for row in run.after if row["metric"] == "gpu_health_fault"]
    assert [(row["subject"], row["value"], row["with"]["when"]) for row in faults] == [("gpu1", "gpu_lost", "audit")]
    assert run.value("pcie_replays_total", "gpu0", when="audit") == 0
    assert run.value("pcie_replays_total", "gpu1", when="audit") is None


def test_a_gpu_that_wants_a_reset_says_so(audit: Callable[..., Told]) -> None:
    """NVML error 16 from the first call on."""
    run = audit(edited(ONE, 0, **{"every call": "ERR GPU requires restart"}))
    assert [row["value"] for row in run.before if row["metric"] == "gpu_health_fault"] == ["reset_required"]


def test_an_older_driver_without_the_newer_calls_is_healthy_all_the_same(
    audit: Callable[..., Told], tmp_path: Path
) -> None:
    """Missing symbols are left out; the rest is told."""
    old = build(tmp_path / "old", ["nvmlDeviceGetRepairStatus", "nvmlDeviceGetUnrepairableMemoryFlag_v1"])
    run = audit(ONE, folder=old)
    assert run.value("remap_pending") is False
    assert run.value("repair_pending", what="channel") is None


def test_aer_totals_are_the_kernels(tmp_path: Path) -> None:
    """One total a kind, from the function's own files; a function without them tells nothing."""
    folder = tmp_path / "bus/pci/devices/0000:06:00.0"
    folder.mkdir(parents=True)
    (folder / "aer_dev_correctable").write_text("RxErr 49\nBadTLP 51\nTOTAL_ERR_COR 100\n", encoding="ascii")
    (folder / "aer_dev_fatal").write_text("Undefined 0\nTOTAL_ERR_FATAL 1\n", encoding="ascii")
    assert gpu_health.aer(str(tmp_path), "0000:06:00.0") == {"correctable": 100, "fatal": 1}
    assert gpu_health.aer(str(tmp_path), "0000:07:00.0") == {}
    assert gpu_health.aer(str(tmp_path), None) == {}


BEFORE = kernel_log.Log("dmesg", ["[1.0] NVRM: loading", "[2.0] NVRM: Xid (PCI:0000:06:00): 13, old"])


def test_the_kernel_log_tells_history_from_the_audit() -> None:
    """Lines that were not there at the start stand below the mark."""
    after = kernel_log.Log("dmesg", [*BEFORE.lines, "[9.0] NVRM: Xid (PCI:0000:06:00): 79, new"])
    assert kernel_log.attachment(BEFORE, after).splitlines() == [*BEFORE.lines, kernel_log.AUDIT, after.lines[-1]]


def test_a_ring_buffer_that_lost_lines_gives_no_false_news() -> None:
    """Old lines that were overwritten meanwhile are still history, and only new ones are news."""
    after = kernel_log.Log("kmsg", [BEFORE.lines[1], "[9.0] NVRM: new"])
    assert kernel_log.attachment(BEFORE, after).splitlines() == [*BEFORE.lines, kernel_log.AUDIT, "[9.0] NVRM: new"]


def test_a_storm_is_cut_at_the_oldest_lines() -> None:
    """An attachment stays below its cap, and the newest history stays in it."""
    storm = kernel_log.Log("dmesg", [f"[{n}.0] NVRM: Xid (PCI:0000:06:00): 13, {'x' * 90}" for n in range(5000)])
    text = kernel_log.attachment(storm, storm)
    assert len(text.encode()) <= 256 * 1024
    assert text.splitlines()[-2] == storm.lines[-1]
    assert text.splitlines()[-1] == kernel_log.AUDIT


def test_a_storm_during_the_audit_is_cut_too() -> None:
    """New lines past the cap are cut at their end; the mark stays."""
    news = kernel_log.Log("dmesg", [f"[{n}.0] NVRM: Xid (PCI:0000:06:00): 79, {'ü' * 90}" for n in range(5000)])
    text = kernel_log.attachment(BEFORE, news)
    assert len(text.encode()) <= 256 * 1024
    assert kernel_log.AUDIT in text.splitlines()


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose kernel log is closed to this user: no program on the PATH, no device to read."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(kernel_log, "KMSG", str(tmp_path / "kmsg"))
    return tmp_path


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def test_a_closed_kernel_log_is_no_failure(closed: Path) -> None:
    """Neither journal nor device nor dmesg: None, which the probe tells as `needs root`."""
    _program(closed / "dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1")
    _program(closed / "journalctl", "echo 'Hint: You are currently not seeing messages' >&2; echo '-- No entries --'")
    assert kernel_log.read() is None


def test_the_journal_comes_before_dmesg_and_noise_is_left_out(closed: Path) -> None:
    """Lines that have nothing to do with GPUs, links or memory are not sent, nor is the kernel's command line."""
    _program(closed / "dmesg", "echo '[1.0] NVRM: from dmesg'")
    lines = ["h kernel: usb 1-1", "h kernel: Command line: nvidia.secret=1 NVRM", "h kernel: NVRM: Xid 1"]
    _program(closed / "journalctl", "\n".join(f"echo '{line}'" for line in lines))
    assert kernel_log.read() == kernel_log.Log("journalctl", ["h kernel: NVRM: Xid 1"])


@pytest.mark.parametrize(
    "line",
    [
        "[  12.5] NVRM: Xid (PCI:0000:9b:00): 119, pid=1234, name=python3, Timeout after 6s of waiting for RPC",
        "[  12.5] NVRM: Xid (0000:03:00): 13, Graphics Exception",
        "Dec  1 10:00:04 h kernel: NVRM: Xid (PCI:0001:9b:00):  48, pid='<unknown>', name=<unknown>, DBE",
        "2026-12-01T10:00:02.000001+0000 h kernel: NVRM: Xid (PCI:0000:9b:00): 63, Row Remapper: New row marked",
        "3,3964,206764307,-;NVRM: Xid (PCI:0000:9b:00): 64, Row Remapper Error",
        "[  12.5] NVRM: Xid (PCI:0000:9b:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x0 0x0 0x0)",
        "[  12.5] NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset)",
        "[  12.5] NVRM: GPU at 0000:9b:00.0 has fallen off the bus.",
        "[  12.5] NVRM: fallen off the bus and is not responding to commands.",
        "[  12.5] nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        "[  12.5] nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Data {0x50610002, 0x10100030, 0x00000000}",
        "[  12.5] pcieport 0000:97:01.0: AER: Corrected error received: 0000:9b:00.0",
        "[  12.5] nvidia 0000:9b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
        "[  12.5] mlx5_core 0000:3b:00.0 ens1: Link down",
        "[  12.5] EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0",
        "[  12.5] mce: [Hardware Error]: Machine check events logged",
    ],
)
def test_every_line_a_rule_lives_on_is_sent(closed: Path, line: str) -> None:
    """Xid in each of its forms, SXid with its data, a GPU off the bus without a number, PCIe, links, memory."""
    (closed / "log").write_text(f"[1.0] usb 1-1: new device\n{line}\n", encoding="utf-8")
    _program(closed / "dmesg", f"while read -r line; do echo \"$line\"; done <'{closed}/log'")
    found = kernel_log.read()
    assert found is not None and [" ".join(one.split()) for one in found.lines] == [" ".join(line.split())]


def test_dmesg_without_the_option_is_asked_plainly(closed: Path) -> None:
    """A busybox dmesg knows no time format."""
    _program(closed / "dmesg", 'test $# -eq 0 || exit 1; echo "[1.0] NVRM: plain"; echo "[2.0] usb"')
    assert kernel_log.read() == kernel_log.Log("dmesg", ["[1.0] NVRM: plain"])
