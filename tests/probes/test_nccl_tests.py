"""nccl_tests: the tool's own words are kept, its failures named."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.probes import nccl_tests
from auditor.probes.engine.gpu_facts import GpuFacts
from tests.probes.desk import desk

PAIR = (GpuFacts(0), GpuFacts(1))


def tool(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Put a program of that name on the PATH."""
    program = folder / "all_reduce_perf"
    program.write_text("#!/bin/sh\n" + body)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_without_the_tool_or_a_second_gpu_it_does_not_apply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason says which of the two is missing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with desk("nccl_tests", tmp_path, device="cuda", gpus=PAIR) as at:
        assert nccl_tests.applies(at.context) == "all_reduce_perf is not installed"
    tool(tmp_path, monkeypatch, "exit 0\n")
    with desk("nccl_tests", tmp_path, device="cuda", gpus=PAIR[:1]) as at:
        assert nccl_tests.applies(at.context) == "one GPU: nothing to exchange"


def test_what_it_prints_is_kept_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All GPUs, the documents' sizes; the attachment is the tool's own text."""
    tool(tmp_path, monkeypatch, 'echo "# nccl-tests $*"\n')
    with desk("nccl_tests", tmp_path, device="cuda", gpus=PAIR) as at:
        assert nccl_tests.applies(at.context) is None
        assert [r.value for r in nccl_tests.run(at.context)] == [0]
    assert at.attachment(nccl_tests.ATTACHMENT) == "# nccl-tests -b 8M -e 256M -f 2 -g 2\n"


def test_a_failure_is_named_and_its_output_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code and the last line of what it said."""
    tool(tmp_path, monkeypatch, "echo began; echo 'NCCL failure: unhandled system error' >&2; exit 3\n")
    with (
        desk("nccl_tests", tmp_path, device="cuda", gpus=PAIR) as at,
        pytest.raises(RuntimeError, match="exit code 3: NCCL failure"),
    ):
        list(nccl_tests.run(at.context))
    assert at.attachment(nccl_tests.ATTACHMENT) == "began\n"


def test_one_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is over, its processes are gone, and the reason says so."""
    tool(tmp_path, monkeypatch, "sleep 60\n")
    with (
        desk("nccl_tests", tmp_path, device="cuda", gpus=PAIR, seconds=0.1) as at,
        pytest.raises(TimeoutError, match="did not end within 1 s"),
    ):
        list(nccl_tests.run(at.context))
