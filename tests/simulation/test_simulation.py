"""False accusations and misses on a simulated fleet: a small one here, the large one with `make test-scale`."""

from __future__ import annotations

import pytest

from tests.simulation.spreads import MEAN, NODE, WORST
from tests.simulation.table import REPORTED, faulty_run, healthy_run, markdown


def test_small_fleet_accuses_nobody_and_misses_nothing() -> None:
    """Sixty healthy servers without a reject, every kind of fault found; another seed than the lines were tuned on."""
    healthy = healthy_run(REPORTED, 60, MEAN)
    assert healthy.verdicts["reject"] == 0
    assert healthy.verdicts["accept"] + healthy.verdicts["review"] == healthy.servers
    counts = faulty_run(REPORTED, 1, MEAN, company=8)
    assert sum(count.missed for count in counts.values()) == 0, markdown(counts)


@pytest.mark.scale
@pytest.mark.parametrize("spread", [MEAN, NODE, WORST], ids=["8 %", "node", "22 %"])
def test_large_fleet(spread) -> None:  # type: ignore[no-untyped-def]
    """1,000 healthy servers: false reject below 0.1 %; every kind of fault: missed below 1 %."""
    healthy = healthy_run(REPORTED, 1000, spread)
    print(f"\nhealthy: {dict(healthy.verdicts)} {dict(healthy.roots)}")
    assert healthy.verdicts["reject"] == 0
    counts = faulty_run(REPORTED, 50, spread)
    print(markdown(counts))
    servers, missed = sum(c.servers for c in counts.values()), sum(c.missed for c in counts.values())
    print(f"missed {missed} of {servers}")
    assert missed < 0.01 * servers
