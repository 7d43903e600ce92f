"""Ansible says "no start of json char" for a full disk, an old Python and a noisy shell; the row must not."""

from __future__ import annotations

import pytest

from auditor.transport import no_module

_OK = "place\tok\t/tmp\n"
_PYTHON = "python\t3.11\t/usr/bin/python3\n"
_END = "end\tend\n"


@pytest.mark.parametrize(
    ("printed", "reason", "words"),
    [
        ("", "no_shell", "what came back: no json"),
        (_OK + _END, "no_python", "no Python"),
        ("python\t3.6\t/usr/libexec/platform-python\n" + _OK + _END, "old_python", "3.6"),
        (_PYTHON + "place\tcannot create: No space left on device\t/tmp\n" + _END, "disk_full", "/tmp"),
        (_PYTHON + "place\tmkdir: Read-only file system\t/tmp\n" + _END, "read_only", "Read-only"),
        (_PYTHON + "place\tmkdir: Permission denied\t/tmp\n" + _END, "not_writable", "denied"),
        (_PYTHON + _OK + _END, "spoiled_answer", "no json"),
        ("python\tx; rm -rf /\t/usr/bin/python3\n" + _OK + _END, "no_python", "no Python"),
    ],
)  # fmt: skip
def test_the_cause_is_told_apart(printed: str, reason: str, words: str) -> None:
    """Each printed preflight has one cause."""
    cause = no_module.diagnose(printed, "/usr/bin/python3", "no json\x1b[0m")
    assert cause.reason == reason and words in cause.detail and "\x1b" not in cause.detail
    assert cause.python is None


def test_F10_another_python_is_tried() -> None:
    """Where the usual one is missing and another is there, the module runs with that."""
    printed = "python\t3.6\t/usr/bin/python3\npython\t3.12\t/opt/conda/bin/python3\n" + _OK + _END
    assert no_module.diagnose(printed, "/usr/bin/python3", "").python == "/opt/conda/bin/python3"


def test_a_path_that_is_no_path_is_not_run() -> None:
    """The interpreter's path comes from the server: only an absolute one is used."""
    printed = "python\t3.12\t-c evil\n" + _OK + _END
    assert no_module.diagnose(printed, "/usr/bin/python3", "").python is None
