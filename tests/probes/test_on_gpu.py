"""`make bench-gpu`: what does not fit into the time is left out by name, and the exit code says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(ROOT / "bench/on_gpu.py"), "--device", "cpu", "--out", str(folder / "out"), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_a_step_that_does_not_fit_is_left_out(tmp_path: Path) -> None:
    """Nothing is begun that would be cut in the middle; the folder says the same as the terminal."""
    done = _run(tmp_path, "--steps", "quick,tests", "--limit", "20")
    assert done.returncode == 1, done.stderr
    told = (tmp_path / "out/steps.txt").read_text(encoding="utf-8")
    assert "quick: left out, 20 s are left and it takes 60 or more" in told and "tests: left out" in told
    assert told in done.stdout
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["steps.txt"]


def test_the_tests_marked_gpu_are_found(tmp_path: Path) -> None:
    """Only files with such tests are read: the others want the controller's libraries."""
    done = _run(tmp_path, "--steps", "tests", "--limit", "120")
    told = (tmp_path / "out/tests.txt").read_text(encoding="utf-8")
    assert done.returncode == 0, told
    assert "test_each_probe_that_runs_on_a_gpu" in told and "test_each_probe_that_runs_on_a_cpu" not in told
    assert "test_a_kernel_runs_on_the_gpu" in told and "error" not in told.lower()


def test_an_unknown_step_is_misuse(tmp_path: Path) -> None:
    """Named, with those there are; nothing is run."""
    done = _run(tmp_path, "--steps", "quik")
    assert done.returncode == 2 and "no step 'quik'; there are quick, bench, tests, standard" in done.stderr
    assert not (tmp_path / "out").exists()
