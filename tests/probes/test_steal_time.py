"""Probe `steal_time`: shares between two looks at the kernel's counters."""

from __future__ import annotations

from pathlib import Path

from auditor.probes import steal_time

from .desk import desk, values


def _stat(folder: Path, line: str) -> str:
    (folder / "stat").write_text(line + "\ncpu0 1 2 3\n", encoding="ascii")
    return str(folder)


def test_stolen_ticks_are_the_eighth_number(tmp_path: Path) -> None:
    """user nice system idle iowait irq softirq steal; guest ticks stand inside user already."""
    proc = _stat(tmp_path, "cpu  100 0 50 800 10 5 5 30 70 0")
    assert steal_time.cpu_ticks(proc) == (30, 1000)


def test_a_kernel_without_the_column_says_nothing(tmp_path: Path) -> None:
    """Too few numbers, a foreign first line or no file: no answer, and no zero."""
    assert steal_time.cpu_ticks(_stat(tmp_path, "cpu  1 2 3 4")) is None
    assert steal_time.cpu_ticks(_stat(tmp_path, "intr 1 2 3 4 5 6 7 8 9")) is None
    assert steal_time.cpu_ticks(str(tmp_path / "nowhere")) is None


def test_shares_are_differences_over_the_window(tmp_path: Path) -> None:
    """10 of 1000 ticks stolen since the start are 1 %, whatever stood there before."""
    start = {"ticks": (500, 90_000), "quota": (3, 100)}
    with desk("steal_time", tmp_path) as at:
        readings = list(steal_time.window(at.context, start, (510, 91_000), (28, 200), 42.0))
    assert values(readings, "steal_time_ratio") == [0.01]
    assert values(readings, "steal_time_throttled_ratio") == [0.25]
    assert values(readings, "steal_time_window_seconds") == [42.0]


def test_counters_that_run_backwards_give_no_figure(tmp_path: Path) -> None:
    """A migrated guest's counters may start anew: then nothing is claimed."""
    start = {"ticks": (500, 90_000), "quota": (3, 100)}
    with desk("steal_time", tmp_path) as at:
        readings = list(steal_time.window(at.context, start, (4, 91_000), (0, 50), 42.0))
    assert [reading.metric for reading in readings] == ["steal_time_window_seconds"]


def test_no_quota_is_no_reading(tmp_path: Path) -> None:
    """A cgroup without a limit counts no periods."""
    (tmp_path / "cpu.stat").write_text("usage_usec 5\nuser_usec 3\n", encoding="ascii")
    assert steal_time.throttled(str(tmp_path)) is None
    (tmp_path / "cpu.stat").write_text("nr_periods 10\nnr_throttled 4\nthrottled_usec 9\n", encoding="ascii")
    assert steal_time.throttled(str(tmp_path)) == (4, 10)


def test_the_window_spans_run_to_finish(tmp_path: Path) -> None:
    """What `run` opened `finish` closes, on this machine's own counters."""
    with desk("steal_time", tmp_path) as at:
        assert steal_time.applies(at.context) is None
        assert list(steal_time.run(at.context)) == []
        readings = list(steal_time.finish(at.context))
    assert values(readings, "steal_time_window_seconds")[0] >= 0
    assert all(0 <= value <= 1 for value in values(readings, "steal_time_ratio"))
