"""What is sent to a server to start the agent."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest

from auditor.quick import courier

ONSERVER = Path(courier.__file__).parent / "onserver"


SHELLS = ("sh", "bash", "dash", "zsh", "fish", "tcsh", "mksh", "ksh93", "busybox")


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_any_login_shell_runs_the_command(shell: str) -> None:
    """sshd hands the command to the user's shell with -c, whichever that is; those that are installed here."""
    argv = [shell, "sh"] if shell == "busybox" else [shell]
    mark = courier.marker()
    done = subprocess.run(
        [*argv, "-c", courier.command(mark)], input=courier.agent(mark) + b"{}\n", capture_output=True, timeout=30
    )
    assert f"\n{mark} hello ".encode() in done.stdout, done.stderr


def test_without_python_the_command_says_so(tmp_path: Path) -> None:
    """A machine with no Python at all gets a word back, not silence."""
    mark = courier.marker()
    command = courier.command(mark).replace("/python", "/absent").replace("python3 python ", "absent ")
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=30)
    assert f"\n{mark} no_python 0\n\n".encode() in done.stdout


def test_an_old_python_is_passed_over(tmp_path: Path) -> None:
    """A Python 3.6 that comes first on the PATH is not used."""
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    mark = courier.marker()
    done = subprocess.run(
        ["sh", "-c", courier.command(mark)],
        input=courier.agent(mark) + b"{}\n",
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        timeout=30,
    )
    assert f"\n{mark} hello ".encode() in done.stdout


def test_the_agent_is_text_and_small() -> None:
    """ASCII whatever the sources hold, and a fraction of the probe file's size."""
    sent = courier.agent(courier.marker())
    assert sent.isascii()
    assert len(sent) < 64 * 1024


@pytest.mark.parametrize("path", sorted(ONSERVER.glob("*.py")), ids=lambda path: path.name)
def test_the_agent_is_python_3_8(path: Path) -> None:
    """Servers have old Pythons; every file parses as 3.8 and imports the standard library and our own alone."""
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    imports = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    strange = {
        name for name in imports if name and name.split(".")[0] in ("auditor", "ansible", "msgspec", "yaml", "rich")
    }
    assert strange <= {"ansible.module_utils", "auditor.quick.onserver", "auditor.quick.onserver.notes"}
