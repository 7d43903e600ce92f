"""Probe `dcgm`: host engines of others and of our own, exit codes, a diagnostic that hangs, what is left.

dcgmi and nv-hostengine are stand-ins on the PATH: shell scripts and a listening socket.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.probes import dcgm

from .desk import desk, gone, values

V4 = '{"DCGM Diagnostic": {"test_categories": []}, "metadata": {"version": "4.5.2"}}'
ENGINE = """#!{python}
import os, signal, socket, subprocess, sys, time
folder = {folder!r}
open(os.path.join(folder, "engine.pid"), "w").write(str(os.getpid()))
worker = subprocess.Popen(["sleep", "600"])
open(os.path.join(folder, "worker.pid"), "w").write(str(worker.pid))
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[sys.argv.index("-d") + 1])
door.listen()
while True:
    door.accept()[0].close()
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH of our own, with nothing of DCGM on it yet, and no engine but the tests' own to be found."""
    folder = tmp_path / "bin"
    monkeypatch.setattr(dcgm, "PORT", 1)
    monkeypatch.setattr(dcgm, "PROC_UNIX", str(tmp_path / "unix"))
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def _program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def _dcgmi(folder: Path, out: str = V4, code: int = 0) -> None:
    (folder / "out").write_text(out, encoding="utf-8")
    _program(folder / "dcgmi", f'#!/bin/sh\necho "$@" >> {folder}/asked\ncat {folder}/out\nexit {code}\n')


@pytest.fixture
def theirs(tmp_path: Path, tools: Path) -> Iterator[Path]:
    """A host engine of somebody else: it listens on a socket whose name says what it is."""
    path = tmp_path / "nv-hostengine.sock"
    door = socket.socket(socket.AF_UNIX)
    door.bind(str(path))
    door.listen(64)
    lines = [line for line in Path("/proc/net/unix").read_text().splitlines() if line.endswith(str(path))]
    assert lines, "the kernel does not list the socket"
    (tmp_path / "unix").write_text("Num       RefCount Protocol Flags    Type St Inode Path\n" + lines[0] + "\n")
    yield path
    door.close()


def test_without_dcgmi_it_does_not_apply(tmp_path: Path, tools: Path) -> None:
    """Absence of the tool is a reason, not a failure."""
    with desk("dcgm", tmp_path) as at:
        assert dcgm.applies(at.context) == "dcgmi is not installed"


def test_quick_starts_no_host_engine(tmp_path: Path, tools: Path) -> None:
    """In quick only an engine that runs anyway is used."""
    _dcgmi(tools)
    _program(tools / "nv-hostengine", "#!/bin/sh\nexit 1\n")
    with desk("dcgm", tmp_path) as at:
        assert dcgm.applies(at.context) == "no DCGM host engine runs"
    with desk("dcgm", tmp_path, profile="standard") as at:
        assert dcgm.applies(at.context) is None
    (tools / "nv-hostengine").unlink()
    with desk("dcgm", tmp_path, profile="standard") as at:
        assert dcgm.applies(at.context) == "no DCGM host engine runs and none is installed"


def test_an_engine_of_somebody_else_is_used_and_left_alone(tmp_path: Path, tools: Path, theirs: Path) -> None:
    """Found by its socket, asked for level 1, never stopped; its raw answer is attached."""
    _dcgmi(tools)
    with desk("dcgm", tmp_path) as at:
        assert dcgm.applies(at.context) is None
        readings = list(dcgm.run(at.context))
    assert (tools / "asked").read_text().strip() == f"diag -r 1 -j --host unix://{theirs}"
    assert at.attachment("dcgmi-diag.json") == V4
    assert values(readings, "dcgm_level") == [1]
    assert values(readings, "dcgm_host_engine") == ["theirs"]
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(str(theirs))


def test_our_own_engine_lives_as_long_as_the_diagnostic(tmp_path: Path, tools: Path) -> None:
    """Started on a socket in our folder where none runs; it and what it started are gone afterwards."""
    _dcgmi(tools)
    _program(tools / "nv-hostengine", ENGINE.format(python=sys.executable, folder=str(tmp_path)))
    with desk("dcgm", tmp_path, profile="standard") as at:
        readings = list(dcgm.run(at.context))
    assert values(readings, "dcgm_host_engine") == ["ours"]
    assert values(readings, "dcgm_level") == [2]
    assert f"--host unix://{tmp_path}/dcgm.sock" in (tools / "asked").read_text()
    for name in ("engine.pid", "worker.pid"):
        assert gone(int((tmp_path / name).read_text()))


def test_an_engine_that_does_not_come_up_is_a_reason(tmp_path: Path, tools: Path) -> None:
    """An engine that ends at once gives one line with its exit code."""
    _dcgmi(tools)
    _program(tools / "nv-hostengine", "#!/bin/sh\nexit 3\n")
    refusal = pytest.raises(dcgm.HostEngineAbsent, match=r"did not come up \(exit 3\)")
    with desk("dcgm", tmp_path, profile="standard") as at, refusal:
        list(dcgm.run(at.context))


def test_a_diagnostic_that_hangs_is_ended_and_called_timed_out(tmp_path: Path, tools: Path, theirs: Path) -> None:
    """TimeoutError is what the engine writes as `timed_out`; the process is gone, the engine stays."""
    _program(tools / "dcgmi", f"#!/bin/sh\necho $$ > {tmp_path}/pid\ntrap '' TERM\nsleep 600 & wait\nwait\n")
    with desk("dcgm", tmp_path, seconds=2.5) as at:
        begun = time.monotonic()
        with pytest.raises(TimeoutError, match="dcgmi diag -r 1 did not end within"):
            list(dcgm.run(at.context))
    assert time.monotonic() - begun < 15
    assert gone(int((tmp_path / "pid").read_text()))


def test_errors_that_the_diagnostic_reports_are_for_the_reader(tmp_path: Path, tools: Path, theirs: Path) -> None:
    """Exit 226 and 205 come with complete JSON: attached, with the code as a reading, no failure."""
    for code in (226, 205, 223):
        _dcgmi(tools, code=code)
        with desk("dcgm", tmp_path) as at:
            readings = list(dcgm.run(at.context))
        assert values(readings, "dcgm_exit_code") == [code]
        assert at.attachment("dcgmi-diag.json") == V4


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (217, "another diagnostic is running"),
        (235, "no host engine answers"),
        (233, "GPUs of different models"),
        (212, "driver too old for this DCGM"),
        (137, "ended by signal 9"),
        (77, "exit code 77"),
    ],
)
def test_other_exit_codes_say_what_they_mean(tmp_path: Path, tools: Path, theirs: Path, code: int, words: str) -> None:
    """The reason holds our words for the code and the first line that was printed."""
    _dcgmi(tools, out="Error: something about it\nmore\n", code=code)
    with desk("dcgm", tmp_path) as at, pytest.raises(RuntimeError) as caught:
        list(dcgm.run(at.context))
    assert str(caught.value) == f"dcgmi diag -r 1: {words} (Error: something about it)"
    assert at.attachment("dcgmi-diag.json") == "Error: something about it\nmore\n"


@pytest.mark.parametrize("code", [227, 239])
def test_what_needs_root_is_not_measured(tmp_path: Path, tools: Path, theirs: Path, code: int) -> None:
    """A missing privilege is a note on an empty reading, never a failure."""
    _dcgmi(tools, out="", code=code)
    with desk("dcgm", tmp_path) as at:
        readings = list(dcgm.run(at.context))
    assert [(reading.metric, reading.value) for reading in readings] == [("dcgm_level", None)]
    assert [message["text"] for message in at.heard("note")] == ["not measured: needs root"]


def test_broken_json_is_attached_as_it_came(tmp_path: Path, tools: Path, theirs: Path) -> None:
    """The probe does not read the answer; half of one is still evidence for the reader."""
    _dcgmi(tools, out='WARNING: late\n{"DCGM GPU Diagnostic": {"test_cat')
    with desk("dcgm", tmp_path) as at:
        list(dcgm.run(at.context))
    assert at.attachment("dcgmi-diag.json") == 'WARNING: late\n{"DCGM GPU Diagnostic": {"test_cat'


def test_fields_are_sampled_while_an_engine_runs(tmp_path: Path, tools: Path, theirs: Path) -> None:
    """The thermal probe's window: dmon's text is attached, and dmon is ended with the window."""
    fifo = tmp_path / "printed"
    os.mkfifo(fifo)
    _program(
        tools / "dcgmi",
        f"#!/bin/sh\necho $$ > {tmp_path}/pid\necho '#Entity TMPTR'\necho 'GPU 0 61'\necho > {fifo}\nexec sleep 600\n",
    )
    with desk("dcgm", tmp_path) as at:
        with dcgm.watching(at.context, 10.0):
            fifo.read_text()  # until dmon has printed
        assert gone(int((tmp_path / "pid").read_text()))
    assert at.attachment("dcgmi-dmon.txt") == "#Entity TMPTR\nGPU 0 61\n"


def test_without_an_engine_nothing_is_sampled(tmp_path: Path, tools: Path) -> None:
    """No engine is started for sampling."""
    _dcgmi(tools)
    with desk("dcgm", tmp_path) as at, dcgm.watching(at.context, 10.0):
        pass
    assert at.said == []
    assert not (tools / "asked").exists()


def test_the_signal_of_a_killed_program_is_told_as_a_shell_does(tmp_path: Path, tools: Path) -> None:
    """128 + n for a program that a signal ended."""
    done = subprocess.run(["sh", "-c", "kill -9 $$"])
    assert done.returncode == -signal.SIGKILL
    _program(tools / "dcgmi", "#!/bin/sh\nkill -9 $$\n")
    assert dcgm.diag(1, None, str(tmp_path), 5.0).code == 137
