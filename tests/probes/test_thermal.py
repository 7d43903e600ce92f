"""thermal: what remains of the rate under lasting load."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from auditor.probes import thermal
from auditor.probes.measuring.watch import REASONS
from tests.probes.conftest import Command
from tests.probes.desk import Desk, desk


@contextmanager
def in_the_load(at: Desk, act: Callable[[], None]) -> Iterator[None]:
    """Do something once the load has begun, however long a busy machine took to get there."""

    def wait() -> None:
        while not any(message.get("what") == "sampling" for message in at.said):
            time.sleep(0.01)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()


def test_on_a_cpu_the_first_second_and_the_last_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First, last and over all, and how long the load really was."""
    monkeypatch.setitem(thermal.WINDOW, "quick", 0.3)
    monkeypatch.setattr(thermal, "_EDGE", 0.1)
    with desk("thermal", tmp_path) as at:
        readings = {(r.metric, r.conditions.get("window")): r.value for r in thermal.run(at.context)}
    rates = [readings["thermal_flops_per_second", window] for window in ("first", "last", "all")]
    assert all(isinstance(rate, float) and rate > 1e8 for rate in rates)
    assert float(readings["thermal_window_seconds", None] or 0) >= 0.3


def test_a_budget_too_short_shortens_the_load_and_says_so(tmp_path: Path) -> None:
    """Ten seconds do not fit into four: the load is shorter and the record names what is missing."""
    with desk("thermal", tmp_path, seconds=4.2) as at:
        readings = {r.metric: r.value for r in thermal.run(at.context)}
    assert float(readings["thermal_window_seconds"] or 0) < 4
    assert "of 10 s of load" in at.heard("cut")[0]["what"]


def test_an_audit_asked_to_end_keeps_what_it_has(tmp_path: Path) -> None:
    """Told to stop in the middle of ten seconds the load ends with the current call and its figures are told."""
    with desk("thermal", tmp_path) as at, in_the_load(at, lambda: threading.Timer(0.3, at.context.stop).start()):
        readings = {r.metric: r.value for r in thermal.run(at.context)}
    assert 0 < float(readings["thermal_window_seconds"] or 0) < 5
    assert float(readings["thermal_flops_per_second"] or 0) > 1e8


def test_a_budget_that_ends_in_a_stretch_ends_the_stretch(tmp_path: Path) -> None:
    """A soak's stretch is a minute: who has half a second left has the figures of half a second."""
    with desk("thermal", tmp_path, profile="soak", seconds=60.0) as at:
        at.context.soak_seconds = 600.0

        def shorten() -> None:
            at.context.deadline = time.monotonic() + 0.5

        with in_the_load(at, shorten):
            readings = {r.metric: r.value for r in thermal.run(at.context)}
    assert 0 < float(readings["thermal_window_seconds"] or 0) < 10
    assert "of 600 s of load" in at.heard("cut")[0]["what"]


def test_a_soak_that_is_stopped_keeps_the_stretch_it_was_in(command: Command) -> None:
    """Asked to end after some stretches, the record has also what came after the last of them."""
    pytest.importorskip("torch")
    source = Path(thermal.__file__).read_text(encoding="utf-8")
    assert "\nSTRETCH = 60.0\n" in source
    command.probes("dcgm", thermal=source.replace("\nSTRETCH = 60.0\n", "\nSTRETCH = 3.0\n"))
    process = command.start("--device", "cpu", "--profile", "soak", "--soak-seconds", "600", "--only", "thermal")
    assert process.stderr is not None
    for line in process.stderr:
        if '"thermal_window_seconds"' in line:
            break
    stretch = float(json.loads(line)["value"])
    time.sleep(1.2)  # into the next stretch, which is three seconds long
    process.terminate()
    outcome = command.ended(process)
    row = outcome.rows("thermal")["server"]
    assert (row["status"], row["reason"]) == ("timed_out", "stopped by SIGTERM")
    seconds = outcome.values("thermal_window_seconds")["server"]
    assert stretch + 0.5 < seconds < 2 * stretch
    assert outcome.values("thermal_flops_per_second")["server"] > 1e8


def test_an_audit_that_has_ended_loads_nothing(tmp_path: Path) -> None:
    """Told to stop before the load began there is no figure, not a figure of one cold call."""
    with desk("thermal", tmp_path) as at:
        at.context.stop()
        assert list(thermal.run(at.context)) == []


def test_the_reasons_are_nvml_s_bits() -> None:
    """nvml.h: nvmlClocksEventReason*; each a bit of its own."""
    import pynvml

    assert REASONS["sw_power_cap"] == pynvml.nvmlClocksThrottleReasonSwPowerCap
    assert REASONS["hw_thermal"] == pynvml.nvmlClocksThrottleReasonHwThermalSlowdown
    assert REASONS["sw_thermal"] == pynvml.nvmlClocksThrottleReasonSwThermalSlowdown
    assert REASONS["hw_slowdown"] == pynvml.nvmlClocksThrottleReasonHwSlowdown
    assert REASONS["hw_power_brake"] == pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown
