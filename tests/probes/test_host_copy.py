"""host_copy: never more of the server's memory than it can spare; every direction with its conditions."""

from __future__ import annotations

import pytest

from auditor.probes import host_copy
from bench.desk import Desk


def test_buffers_shrink_with_the_number_of_gpus() -> None:
    """A thousand workers get small buffers, never smaller than 16 MiB; one gets what it wants or what is there."""
    assert host_copy._affordable(host_copy.SIZE, 100_000) == 16 << 20
    assert 16 << 20 <= host_copy._affordable(host_copy.SIZE, 1) <= host_copy.SIZE


@pytest.mark.gpu
def test_on_a_gpu_every_direction_is_measured_and_the_link_read_under_load() -> None:
    """Pinned up, down and both, pageable up and down; generation and width from at least one family."""
    readings = list(host_copy.run(Desk("host_copy")))
    found = {
        (r.conditions["memory"], r.conditions["direction"]): float(r.value or 0)
        for r in readings
        if r.metric == "host_copy_bytes_per_second"
    }
    assert set(found) == {("pinned", d) for d in ("h2d", "d2h", "both")} | {("pageable", d) for d in ("h2d", "d2h")}
    assert found["pinned", "both"] > found["pinned", "h2d"] > found["pageable", "h2d"] > 1e8
    assert any(r.metric == "host_copy_pcie_generation" for r in readings)
