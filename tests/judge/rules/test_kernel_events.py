"""Lines of the kernel's log beside Xids, from the raw line to the finding."""

from __future__ import annotations

import pytest

from tests import builders
from tests.builders import NVML, added, changed, reading
from tests.judge.judged import GUEST_H200, METAL_H200, found, ids, one
from tests.judge.rules.test_kernel_log import AUDIT, SEVEN, judged

MCE = "[12.300001] mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: be00000000800400"
CORRECTED = "[12.300001] [Hardware Error]: Corrected error, no action required."
UNCORRECTED = "[12.300001] [Hardware Error]: Uncorrected error, software restartable."
PCIE = "[12.300001] pcieport 0000:15:01.0: AER: Uncorrected (Non-Fatal) error received: 0000:15:01.0"
INIT = "[12.300001] NVRM: GPU 0000:ab:00.0: RmInitAdapter failed! (0x26:0x56:1474)"
MEMORY = "[12.300001] Out of memory: Killed process 4711 (python3) total-vm:99kB"


@pytest.mark.parametrize(
    ("line", "id", "now", "before"),
    [
        (MCE, "machine-check", "review", "advice"),
        (UNCORRECTED, "machine-check", "review", "advice"),
        (CORRECTED, "machine-check", "advice", "advice"),
        (PCIE, "pcie-errors-logged", "review", "advice"),
        (INIT, "gpu-init-failed", "review", "advice"),
        (MEMORY, "out-of-memory", "advice", "info"),
    ],
)
def test_what_came_while_we_worked_counts_what_came_before_is_history(
    line: str, id: str, now: str, before: str
) -> None:
    """The line stands in the finding, which is about the server."""
    during, earlier = found(judged(AUDIT, line), id), found(judged(line, AUDIT), id)
    assert (during.severity, earlier.severity) == (now, before)
    assert during.subject == earlier.subject == "server"
    assert line.split("] ", 1)[1][:40] in str(during.parameters["line"])
    assert (during.parameters["when"], earlier.parameters["when"]) == ("while the audit ran", "earlier in this boot")


def test_a_gpu_that_could_not_be_started_is_the_one_that_is_missing() -> None:
    """Seven of eight are there: the failed start explains the short count."""
    result = judged(INIT, AUDIT, record=SEVEN)
    finding = found(result, "gpu-init-failed")
    assert (result.verdict, finding.severity) == ("reject", "reject")
    assert found(result, "gpu-count-short").root == finding.key


@pytest.mark.parametrize(
    ("health", "severity"),
    [("route_unhealthy", "review"), ("degraded_bandwidth, no_partition", "review"), ("healthy", None),
     ("Healthy", None), ("not told", None), ("N/A", None)],
)  # fmt: skip
def test_the_fabrics_own_word(health: str, severity: str | None) -> None:
    """Anything but healthy is for review on a server of several GPUs; words without a value say nothing."""
    result = one(added(builders.healthy(), reading("topology_fabric_health", health, "gpu3", NVML)), METAL_H200)
    assert result.verdict == (severity or "accept")
    assert ("fabric-unhealthy" in ids(result)) is (severity is not None)
    if severity:
        assert "_" not in str(found(result, "fabric-unhealthy", "gpu3").parameters["health"])


def test_the_fabric_of_one_gpu_is_information() -> None:
    """One GPU has no route to lose."""
    alone = builders.healthy(gpus=1, guest=True, nvlink=False)
    result = one(added(alone, reading("topology_fabric_health", "no_partition", "gpu0", NVML)), GUEST_H200)
    assert (result.verdict, found(result, "fabric-unhealthy").severity) == ("accept", "info")


@pytest.mark.parametrize(("size", "told"), [(67_108_864, True), (2**30 - 1, True), (2**30, False), (0, False)])
def test_shared_memory(size: int, told: bool) -> None:
    """Below 1 GiB training of several processes ends in errors; zero means that there is none to be read."""
    result = one(changed(builders.healthy(), "server_facts_shm_bytes", size), METAL_H200)
    assert ("shm-small" in ids(result)) is told
    assert result.verdict == "accept"
