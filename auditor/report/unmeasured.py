"""What a record says it did not measure, equal GPUs together."""

from __future__ import annotations

from auditor.records import Record

Ending = tuple[str, str, str, tuple[str, ...]]


def unmeasured(record: Record) -> dict[Ending, list[str]]:
    """(probe, status, reason, what was cut) → the subjects; whatever is not plainly `measured`."""
    groups: dict[Ending, list[str]] = {}
    for row in record.probes:
        if row.status != "measured" or row.cut:
            groups.setdefault((row.probe, row.status, row.reason or "", row.cut), []).append(row.subject)
    return groups
