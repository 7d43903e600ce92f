"""What a package manager says it would do decides whether it may."""

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
DNF_CLEAN = """Dependencies resolved.
=====================================================================
 Package                 Arch     Version            Repository  Size
=====================================================================
Installing:
 nvidia-driver-cuda      x86_64   3:580.95.05-1.el9  cuda        10 M
Installing dependencies:
 libnvidia-ml            x86_64   3:580.95.05-1.el9  cuda       2.1 M
Transaction Summary
"""
DNF_UPGRADE = DNF_CLEAN.replace(
    "Transaction", "Upgrading:\n kernel                  x86_64   5.14.0-503.el9     baseos     1.2 M\nTransaction"
)
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


def test_dnf_says_no_and_is_understood():
    """`--assumeno` ends with 1 by design; the table is what counts."""
    done = simulation.dnf(["nvidia-driver-cuda"], answering(DNF_CLEAN, 1))
    assert [name for name, _ in done.new] == ["nvidia-driver-cuda", "libnvidia-ml"]
    assert refusal(done, ["nvidia-driver-cuda"]) is None
    assert "kernel" in refusal(simulation.dnf(WANTED, answering(DNF_UPGRADE, 1)), WANTED)


def test_dnf_without_a_package_is_an_error():
    """No match for an argument is a refusal with dnf's words."""
    why = refusal(simulation.dnf(WANTED, answering("Error: Unable to find a match: x\n", 1)), WANTED)
    assert "Unable to find a match" in why


def test_the_kernel_that_was_asked_for_is_no_surprise():
    """A wanted package is not refused for its name."""
    assert refusal(Simulated((("kernel", "5"),), (), ()), ["kernel"]) is None


def test_a_fabric_manager_unequal_to_the_driver_is_refused():
    """The pair must agree to the last digit, epoch and packaging aside."""
    equal = (("libnvidia-compute-580-server", "580.95.05-0ubuntu1"), ("nvidia-fabricmanager-580", "580.95.05-1"))
    assert refusal(Simulated(equal, (), ()), WANTED) is None
    apart = (*equal[:1], ("nvidia-fabricmanager-580", "580.82.07-1"))
    assert "580.82.07 but libnvidia-compute-580-server 580.95.05" in refusal(Simulated(apart, (), ()), WANTED)
