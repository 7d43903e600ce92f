"""The command that would bring torch to a server without one."""

from __future__ import annotations

import shlex

import pytest

from auditor import catalog
from auditor.quick import remedy
from auditor.records import Reading, Record, Seconds, Tool, Value


def record(**facts: Value) -> Record:
    """A record with these facts."""
    rows = tuple(Reading("x", metric, "server", value, "driver/nvml") for metric, value in facts.items())
    return Record(1, Tool("t", "0"), "r", "s", "quick", "cpu", "2026-12-01T00:00:00Z", Seconds(1, 0, 1), readings=rows)


@pytest.mark.parametrize(
    ("driver", "gpu", "wheel"),
    [
        ("580.95.05", "NVIDIA H200", "torch==2.13.0"),
        ("535.183.01", "NVIDIA A100-SXM4-80GB", "torch==2.10.0"),
        ("550.54", "Tesla V100-SXM2-16GB", "torch==2.10.0 --index-url https://download.pytorch.org/whl/cu126"),
        (None, None, "torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"),
    ],
)
def test_the_build_fits_driver_and_gpu(driver: str | None, gpu: str | None, wheel: str) -> None:
    """An old driver gets the build that runs on it, by the table the role uses."""
    facts = {"server_facts_interpreter": "/usr/bin/python3 3.11.2", "server_facts_driver_version": driver}
    line = remedy.command(record(**facts, gpu_identity_name=gpu), "venv", "/usr/bin/python3", catalog.load())
    assert line.endswith(f"/bin/pip install {wheel}")
    assert line.startswith("/usr/bin/python3 -m venv $HOME/auditor-torch && ")


@pytest.mark.parametrize(
    ("bringer", "words"), [("venv", "-m venv $"), ("pip", "--without-pip"), ("nothing", "apt-get")]
)
def test_it_uses_what_the_server_has(bringer: str, words: str) -> None:
    """Debian's python3 without ensurepip, without pip: each has a line that works there."""
    assert words in remedy.command(None, bringer, "/usr/bin/python3", catalog.load())


def test_it_can_be_pasted() -> None:
    """Over SSH it is one word for the local shell; here it is the line itself."""
    line = remedy.command(None, "venv", "/opt/my python/bin/python3", catalog.load())
    assert shlex.split(remedy.over_ssh("ssh -p 22022 root@192.0.2.10", line))[-1] == line
    assert remedy.over_ssh(None, line) == line


def test_what_a_server_calls_its_python_cannot_break_out() -> None:
    """The path comes from the server; pasted, it stays one word there and here."""
    evil = "/tmp/x'; touch /tmp/owned; '$(id)`id`"
    line = remedy.command(None, "venv", evil, catalog.load())
    assert shlex.split(line)[0] == evil
    assert shlex.split(remedy.over_ssh("ssh host", line)) == ["ssh", "host", line]
