"""Raw values as text: exact, never in scientific notation."""

from __future__ import annotations

from decimal import Decimal

from auditor.records import Value
from auditor.report.show import show


def exact(value: Value) -> str:
    """The value as it stands in the record; texts on one line, nothing for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value == int(value) else format(Decimal(repr(value)), "f")
    return show(value, 32_000)
