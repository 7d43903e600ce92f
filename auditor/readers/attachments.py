"""Raw outputs of foreign tools that a probe attached to its record, read on the controller.

The probe ran the tool itself, so the tool's word counts as the driver's or the kernel's, not as a text's.
"""

from __future__ import annotations

import dataclasses

from auditor.readers import text
from auditor.readers.machines import renamed
from auditor.readers.parsed import key_of
from auditor.readers.sections import read as read_section
from auditor.readers.sections import sections
from auditor.records import Reading, Record

# Source of a text → the probe whose row it belongs to, and the source it counts as.
_OWN = {
    "text/dcgmi": ("dcgm", "driver/dcgm"),
    "text/fio": ("storage", "measured"),
    "text/dmesg": ("gpu_health", "kernel/log"),
    "text/fabricmanager": ("gpu_health", "kernel/log"),
}


def readings(record: Record) -> tuple[Reading, ...]:
    """Every reading that the attachments hold, about the record's own GPUs; empty where there are none."""
    found: dict[tuple[object, ...], Reading] = {}
    by_pci = {subject.pci: subject.id for subject in record.subjects if subject.kind == "gpu" and subject.pci}
    for attached in record.attachments.values():
        for reading in _of(attached, by_pci):
            found[key_of(reading.metric, reading.subject, reading.source, reading.conditions)] = reading
    own = {key_of(r.metric, r.subject, r.source, r.conditions) for r in record.readings} if found else set()
    return tuple(reading for key, reading in found.items() if key not in own)


def _of(attached: str, by_pci: dict[str, str]) -> list[Reading]:
    out = []
    for section in sections(text.clean(attached)):
        parsed = read_section(section)
        names = {s.id: by_pci[s.pci] for s in parsed.subjects if s.kind == "gpu" and s.pci in by_pci}
        for reading in parsed.readings:
            subject, conditions = renamed(reading.subject, names), dict(reading.conditions)
            if subject.startswith("gpu:"):
                # An address of no GPU of ours: a shared kernel log speaks of other tenants' GPUs too.
                subject, conditions = "server", {**conditions, "pci": subject[4:]}
            probe, source = _OWN.get(reading.source, (reading.probe, reading.source))
            out.append(dataclasses.replace(reading, probe=probe, subject=subject, conditions=conditions, source=source))
    return out
