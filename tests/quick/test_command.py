"""`auditor quick` as a person types it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from openpyxl import load_workbook

from auditor.commands import probe, quick
from auditor.errors import UserError
from auditor.runs import open_run
from tests.fleet import Fleet
from tests.quick.conftest import Machine


def run(machine: Machine | None, *words: str, stub: Path | None = None, results: Path | None = None) -> Result:
    """The command with the test servers' ssh configuration and the stub probe file."""
    argv = [*words]
    if machine:
        argv += ["-F", str(machine.config)]
    argv += ["--probe-file", str(stub)] if stub else []
    argv += ["--results", str(results)] if results else []
    return CliRunner().invoke(quick.command, argv)


@pytest.mark.fleet
def test_one_server_from_nothing_to_a_verdict(machine: Machine, stub: Path, tmp_path: Path) -> None:
    """Plain lines, verdict, findings, run folder, JSON and workbook; exit code as `auditor report`."""
    book = tmp_path / "book.xlsx"
    result = run(machine, machine.name, "--order", "8x H200 nvswitch", "--json", "--xlsx", str(book), "--only", "short",
                 stub=stub, results=tmp_path)  # fmt: skip
    assert result.exit_code in (1, 3), result.output
    document = json.loads(result.stdout)
    assert document["servers"][0]["name"] == machine.name
    assert "GPU: NVIDIA H200" in result.stderr
    assert "\x1b" not in result.output
    assert "Summary" in load_workbook(book, read_only=True).sheetnames
    (folder,) = (tmp_path / "quick").iterdir()
    opened = open_run(folder)
    assert opened.info.inventory == "quick" and opened.info.finished
    assert opened.states[machine.name].phase == "done"
    assert opened.orders[machine.name].gpus == 8  # type: ignore[union-attr]
    assert machine.leftovers() == []


@pytest.mark.fleet
def test_several_servers_at_once(fleet: Fleet, stub: Path, tmp_path: Path) -> None:
    """Each has its row; one that is down does not hold the others up and makes the run incomplete."""
    fleet.fault("h002", "down")
    began = time.monotonic()
    argv = ["h001", "h002", "h003", "-F", str(fleet.folder / "ssh_config"), "--probe-file", str(stub)]
    result = CliRunner().invoke(quick.command, [*argv, "--results", str(tmp_path), "--only", "short"])
    assert time.monotonic() - began < 15
    assert result.exit_code == 3
    (folder,) = (tmp_path / "quick").iterdir()
    states = open_run(folder).states
    assert (states["h001"].phase, states["h003"].phase) == ("done", "done")
    assert states["h002"].reason == "unreachable"
    assert re.search(r"h002 .*the connection was refused", result.output)


@pytest.mark.fleet
def test_without_torch_the_one_command_that_brings_it(machine: Machine, stub: Path, tmp_path: Path) -> None:
    """Incomplete, with a line to paste that goes the same way as the audit went."""
    machine.inside("mount", "-t", "tmpfs", "none", "/opt/venv")
    result = run(machine, machine.name, "--only", "short", stub=stub, results=tmp_path)
    assert result.exit_code == 3
    said = " ".join(result.output.split())
    assert f"{machine.name}: incomplete: no interpreter with torch" in said
    assert re.search(rf"ssh -F {machine.config} {machine.name} '.*pip.* install .*torch==", said)


def test_a_probe_that_does_not_exist_costs_no_connection() -> None:
    """Our own probe file's names are known here, so a slip is said at once."""
    result = CliRunner().invoke(quick.command, ["host", "--only", "matmull"])
    assert isinstance(result.exception, UserError) and "Did you mean matmul?" in str(result.exception)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "no server was named"),
        (("ssh",), "no server was named"),
        (("a;b",), "no server name"),
        (("host", "-i", "/no/such/key"), "no such key file"),
        (("host", "-F", "/no/such/config"), "no such ssh configuration"),
        (("host", "-J", "a;b"), "no server name"),
        (("host", "--order", "nonsense"), "is no order"),
        (("host", "--python", "python3; reboot"), "no absolute path"),
        (("host", "--remote-dir", "tmp"), "no absolute path"),
        (("host", "--probe-file", "/no/such.pyz"), "Build it with `make pyz`"),
        (("host", "-o", "NoSuchOption=1"), None),
    ],
)
def test_misuse_is_a_sentence_and_exit_2(
    words: tuple[str, ...], sentence: str | None, stub: Path, tmp_path: Path
) -> None:
    """Nothing is contacted for a command line that cannot be meant."""
    if sentence is None:
        result = CliRunner().invoke(quick.command, [*words, "--probe-file", str(stub), "--results", str(tmp_path)])
        assert result.exit_code == 3 and "does not accept its configuration" in result.output
        return
    stubbed = words if "--probe-file" in words or not words else (*words, "--probe-file", str(stub))
    result = CliRunner().invoke(quick.command, list(stubbed))
    if isinstance(result.exception, UserError):
        assert sentence in str(result.exception)
    else:
        assert result.exit_code == 2


@pytest.mark.fleet
def test_a_pasted_ssh_line(machine: Machine, stub: Path, tmp_path: Path) -> None:
    """`ssh -L … host` as a provider's page has it: the forwards are left out, the rest works."""
    result = run(
        machine, "ssh", machine.name, "-L", "8080:localhost:8080", "--only", "short", stub=stub, results=tmp_path
    )
    assert "Forwards of the ssh line were left out" in result.output
    assert "done" in result.output


def test_this_machine_itself(stub: Path, tmp_path: Path) -> None:
    """`auditor probe` in place: the same lines, run folder and exit code, and nothing left in /tmp."""
    before = set(Path("/tmp").glob("auditor-*"))
    argv = ["--probe-file", str(stub), "--results", str(tmp_path), "--only", "short", "--python", sys.executable]
    end = time.monotonic() + 120
    while "busy:" in (result := CliRunner().invoke(probe.command, argv)).output and time.monotonic() < end:
        time.sleep(1)  # one audit of a machine at a time; another test's may be under way on this one
    assert result.exit_code == 3, result.output
    assert "GPU: NVIDIA H200" in result.output
    folder = max((tmp_path / "quick").iterdir())
    (state,) = open_run(folder).states.values()
    assert state.phase == "done"
    assert set(Path("/tmp").glob("auditor-*")) <= before


def on_a_terminal(argv: list[str], until: str, then: int | None, **more: str) -> tuple[str, int, float]:
    """Run a command on a terminal of its own, send a signal once it showed something; output, exit code, seconds."""
    screen, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "110", "LINES": "40", **more}
    environment.pop("NO_COLOR", None) if "NO_COLOR" not in more else None
    process = subprocess.Popen(
        argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    said, signalled = b"", 0.0
    end = time.monotonic() + 40
    with contextlib.suppress(OSError):
        while time.monotonic() < end:
            if select.select([screen], [], [], 0.1)[0]:
                data = os.read(screen, 65536)
                if not data:
                    break
                said += data
            if then is not None and until.encode() in said and not signalled:
                signalled = time.monotonic()
                process.send_signal(then)
    process.wait(10)
    os.close(screen)
    return said.decode(errors="replace"), process.returncode, time.monotonic() - signalled


@pytest.mark.fleet
def test_ctrl_c_on_a_terminal(machine: Machine, stub: Path, tmp_path: Path) -> None:
    """The live screen, Ctrl-C in mid-probe: what was measured is reported, nothing left (2 s: test_session.py)."""
    argv = [sys.executable, "-m", "auditor", "quick", machine.name, "-F", str(machine.config), "--only", "long"]
    argv += ["--probe-file", str(stub), "--results", str(tmp_path)]
    said, code, seconds = on_a_terminal(argv, "650 TFLOPS", signal.SIGINT)
    assert code == 3, said
    assert seconds < 15  # with the judging and the report, on a busy machine
    assert "stopping the probe" in said and "stopped" in said
    assert "\x1b[" in said and "▁" in said
    (folder,) = (tmp_path / "quick").iterdir()
    state = open_run(folder).states[machine.name]
    assert state.reason == "stopped" and state.sha256
    assert machine.leftovers() == []


@pytest.mark.fleet
def test_no_color_means_plain_lines(machine: Machine, stub: Path, tmp_path: Path) -> None:
    """On a terminal with NO_COLOR: lines, no escape at all."""
    argv = [sys.executable, "-m", "auditor", "quick", machine.name, "-F", str(machine.config), "--only", "short"]
    argv += ["--probe-file", str(stub), "--results", str(tmp_path)]
    said, code, _ = on_a_terminal(argv, "", None, NO_COLOR="1")
    assert code == 3, said
    assert "\x1b" not in said
    assert re.search(r"s  GPU: NVIDIA H200", said)
