"""What a package manager says it would do decides whether it may."""

import json

import pytest
from ansible.module_utils import simulation
from ansible.module_utils.simulation import Simulated, refusal

APT_CLEAN = """Reading package lists...
Inst libnvidia-compute-580-server (580.95.05-0ubuntu1 Ubuntu:24.04/noble [amd64])
Inst nvidia-utils-580-server (580.95.05-0ubuntu1 Ubuntu:24.04/noble [amd64])
Conf libnvidia-compute-580-server (580.95.05-0ubuntu1 Ubuntu:24.04/noble [amd64])
"""
APT_UPGRADE = APT_CLEAN + "Inst dkms [3.0.10] (3.0.11 Ubuntu:24.04/noble [all])\n"
APT_REMOVE = APT_CLEAN + "Remv nvidia-driver-535 [535.183.01]\n"
APT_KERNEL = APT_CLEAN + "Inst linux-image-6.8.0-60-generic (6.8.0-60.63 Ubuntu:24.04/noble [amd64])\n"
DNF_CLEAN = {
    "new": [["nvidia-driver-cuda", "3:580.95.05-1.el9"], ["libnvidia-ml", "3:580.95.05-1.el9"]],
    "changed": [], "removed": [], "error": None,
}  # fmt: skip
WANTED = ["nvidia-utils-580-server"]


def answering(text, code=0):
    """A package manager that prints this."""
    return lambda argv: (code, text)


@pytest.mark.parametrize("text", [APT_CLEAN, ""])
def test_an_install_that_only_adds_is_allowed(text):
    """New libraries of what was asked for are no change to the machine's stack."""
    assert refusal(simulation.apt(WANTED, answering(text)), WANTED) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (APT_UPGRADE, "would change dkms from 3.0.10 to 3.0.11"),
        (APT_REMOVE, "would remove nvidia-driver-535"),
        (APT_KERNEL, "another kernel: linux-image-6.8.0-60-generic"),
    ],
)
def test_H06_a_change_of_the_stack_is_refused_by_name(text, words):
    """The sentence names the package that stands in the way."""
    assert words in refusal(simulation.apt(WANTED, answering(text)), WANTED)


def test_a_package_that_is_not_there_is_said():
    """apt's own error line is the reason."""
    why = refusal(simulation.apt(WANTED, answering("E: Unable to locate package x\n", 100)), WANTED)
    assert "Unable to locate package x" in why


def dnf_tells(warning="", **told):
    """dnf's library as the script in simulation.py reports it, after whatever plugins print."""
    return simulation.dnf(WANTED, answering(warning + json.dumps({**DNF_CLEAN, **told}) + "\n"))


def test_dnf_tells_what_would_come():
    """What is new is named with its version, also below a plugin's warning; libraries of what was asked are allowed."""
    done = dnf_tells("Unable to read consumer identity\n")
    assert [name for name, _ in done.new] == ["nvidia-driver-cuda", "libnvidia-ml"]
    assert refusal(done, ["nvidia-driver-cuda"]) is None


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"changed": [["kernel", "5.14.0-427.el9", "5.14.0-503.el9"]]}, "kernel from 5.14.0-427.el9 to 5.14.0-503.el9"),
        ({"removed": ["nvidia-driver-assistant"]}, "would remove nvidia-driver-assistant"),
        ({"new": [["kernel-core", "6.1-1.el9"]]}, "another kernel: kernel-core 6.1-1.el9"),
        ({"new": [], "error": "No match for argument:\n  x"}, "cannot do it: No match for argument: x"),
    ],
)
def test_H06_what_dnf_would_change_is_refused_by_name(told, words):
    """Each in one line."""
    assert words in refusal(dnf_tells(**told), WANTED)


@pytest.mark.parametrize(("text", "words"), [("", "dnf ended with 1"), ("ImportError: dnf\n", "ImportError: dnf")])
def test_a_dnf_that_cannot_be_asked_is_a_refusal(text, words):
    """No answer is never a yes."""
    assert words in refusal(simulation.dnf(WANTED, answering(text, 1)), WANTED)


@pytest.mark.parametrize(
    ("line", "python"),
    [
        ("#!/usr/libexec/platform-python\n", "/usr/libexec/platform-python"),
        ("#!/usr/bin/python3 -s\n", "/usr/bin/python3"),
        ("\x7fELF", "/usr/bin/python3"),
    ],
)
def test_dnfs_own_python_is_asked(tmp_path, line, python):
    """Its library is in no other."""
    (tmp_path / "dnf").write_text(line)
    asked = []
    simulation.dnf(WANTED, lambda argv: asked.append(argv[0]) or (1, ""), str(tmp_path / "dnf"))
    assert asked == [python]


def test_the_kernel_that_was_asked_for_is_no_surprise():
    """A wanted package is not refused for its name."""
    assert refusal(Simulated((("kernel", "5"),), (), ()), ["kernel"]) is None


def test_a_fabric_manager_unequal_to_the_driver_is_refused():
    """The pair must agree to the last digit, epoch and packaging aside."""
    equal = (("libnvidia-compute-580-server", "580.95.05-0ubuntu1"), ("nvidia-fabricmanager-580", "580.95.05-1"))
    assert refusal(Simulated(equal, (), ()), WANTED) is None
    apart = (*equal[:1], ("nvidia-fabricmanager-580", "580.82.07-1"))
    assert "580.82.07 but libnvidia-compute-580-server 580.95.05" in refusal(Simulated(apart, (), ()), WANTED)
