"""A healthy record with one fault more: exactly its root finding, and nothing else at review or above."""

from __future__ import annotations

import pytest

from auditor.records import Record
from tests import builders
from tests.judge.faults import FAULTS, Fault
from tests.judge.judged import METAL_A100, METAL_H200, found, one, roots

ORDERS = {"A100 SXM4 80GB": METAL_A100, "H200 SXM5 141GB": METAL_H200}
HEALTHY = {model: builders.healthy(model) for model in ORDERS}


@pytest.mark.parametrize("model", ORDERS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_one_fault_is_one_root(model: str, fault: Fault) -> None:
    """Each fault alone gives its own root finding at its severity; its consequences hang under it."""
    record: Record = fault.edit(HEALTHY[model])
    result = one(record, ORDERS[model])
    assert roots(result) == [fault.id] * len(roots(result)), [f.key for f in result.roots]
    severity = {f.severity for f in result.roots if f.id == fault.id}
    assert fault.severity in severity
    assert result.verdict == fault.severity
    for finding in result.findings:
        if finding.root is not None:
            assert found(result, finding.root.split(":")[1], finding.root.split(":")[2])
