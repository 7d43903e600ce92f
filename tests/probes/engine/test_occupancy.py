"""Is somebody else on the GPU? Decided from what the driver tells."""

import os

import pytest

from auditor.probes.engine import occupancy
from auditor.probes.engine.occupancy import Tenants

GIB = 1 << 30


def process(pid, size=None):
    """A row of NVML's list."""
    return {"pid": pid, "bytes": size}


def test_the_first_visible_process_owns_the_gpu():
    """Named where /proc shows it, with its memory where the driver tells it."""
    assert occupancy.owner({"processes": []}) is None
    assert occupancy.owner({"processes": None}) is None
    assert f"(pid {os.getpid()}, 2.0 GiB)" in occupancy.owner({"processes": [process(os.getpid(), 2 * GIB)]})
    assert occupancy.owner({"processes": [process(4_000_001)]}) == "a process (pid 4000001)"


@pytest.mark.parametrize(
    ("memory", "loads", "told"),
    [
        (0, [], None),
        (600 << 20, [], None),  # what the driver keeps for itself with persistence on
        (None, [0.0] * 10, None),
        (2 * GIB, [], "2.0 GiB"),
        (0, [0.0, 0.0, 1.0, 0.0, 0.0], None),  # one spike: the driver woke the GPU
        (0, [0.9, 0.9, 0.9], None),  # too few to tell
        (0, [0.9, 0.0, 0.8, 0.9], "90 % load"),
    ],
)
def test_memory_or_load_without_a_process_is_doubt(memory, loads, told):
    """A driver's own share and a single spike are none."""
    found = occupancy.hidden(memory, loads)
    assert found is None if told is None else told in found


def test_with_the_kernels_own_numbers_every_other_process_is_a_stranger():
    """Also before ours has a context there."""
    tenants = Tenants(exact=True)
    assert tenants.look([process(10)], {10}, 1) is None
    assert tenants.look([process(10)], set(), 1) is None  # it was ours: on its way out
    assert "pid 99" in tenants.look([process(10), process(99)], {10}, 1)
    assert "pid 99" in Tenants(exact=True).look([process(99)], {10}, 1)


def test_in_a_container_with_numbers_of_its_own_the_count_decides():
    """Ours never appear; one process more than ours, twice, is a stranger, and the new number is it."""
    tenants = Tenants(exact=False)
    assert tenants.look([process(5000)], {10}, 1) is None
    assert tenants.look([process(5000), process(6000)], {10}, 1) is None
    assert "pid 6000" in tenants.look([process(5000), process(6000)], {10}, 1)


def test_one_of_ours_on_its_way_out_is_no_stranger():
    """A worker that was replaced is listed beside its successor for a moment."""
    tenants = Tenants(exact=False)
    assert tenants.look([process(5000)], {10}, 1) is None
    assert tenants.look([process(5000), process(6000)], {10}, 1) is None
    assert tenants.look([process(6000)], {10}, 1) is None
    assert tenants.look([process(6000), process(7000)], {10}, 1) is None


def test_a_list_that_may_not_be_read_tells_nothing():
    """No permission is no stranger."""
    assert Tenants(exact=True).look(None, {10}, 1) is None


def test_ours_among_the_listed_show_whose_numbers_they_are():
    """A container that shares the machine's numbers is as good as the machine."""
    tenants = Tenants(exact=False)
    assert tenants.look([process(10)], {10}, 1) is None
    assert "pid 99" in tenants.look([process(10), process(99)], {10}, 1)
