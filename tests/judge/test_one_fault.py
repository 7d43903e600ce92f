"""A healthy record with one fault more: exactly its root finding, and nothing else at review or above."""

from __future__ import annotations

import msgspec
import pytest

from auditor import order
from auditor.records import Record
from tests import builders
from tests.judge.faults import FAULTS, REMARKS, Fault
from tests.judge.judged import METAL_A100, METAL_H200, found, one, roots

ORDERS = {"A100 SXM4 80GB": METAL_A100, "H200 SXM5 141GB": METAL_H200}
DRIVER = "driver-differs"
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


@pytest.mark.parametrize("model", ORDERS)
@pytest.mark.parametrize("remark", REMARKS, ids=lambda fault: fault.name)
def test_a_remark_is_said_and_complains_of_nothing(model: str, remark: Fault) -> None:
    """What is only worth a word is one finding of advice; the server stays accepted."""
    paid = order.parse(ORDERS[model], "test")
    if remark.id == DRIVER:
        paid = msgspec.structs.replace(paid, driver="580")
    result = one(remark.edit(HEALTHY[model]), msgspec.to_builtins(paid))
    finding = found(result, remark.id)
    assert (result.verdict, finding.severity, finding.root) == ("accept", "advice", None)
    assert {f.id for f in result.roots if f.severity == "advice"} == {remark.id}
