"""`python -m tests.simulation`: run the large simulation and write its tables into docs/thresholds.md."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.page import THRESHOLDS, replaced
from tests.simulation.table import REPORTED, SPREADS, Result, document, run, spread_row


def reported(name: str) -> tuple[str, Result]:
    """One spread, on the report seed."""
    result = run(REPORTED, SPREADS[name])
    print(spread_row(name, result), file=sys.stderr, flush=True)
    return name, result


if __name__ == "__main__":
    with ProcessPoolExecutor(len(SPREADS)) as pool:
        results = dict(pool.map(reported, SPREADS))
    THRESHOLDS.write_text(replaced(THRESHOLDS.read_text(encoding="utf-8"), document(results)), encoding="utf-8")
