"""What a pasted text betrays about itself. Nothing of it is proof: whoever sends a text can write it."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import Finding
from auditor.judge.case import Case
from auditor.judge.rule import rule
from auditor.judge.texts import N_, Text


@rule
def undated_table(case: Case) -> Iterator[Finding]:
    """A table of nvidia-smi without the time the program prints above it: cut off, or printed by something else.

    Packages that print canned tables leave the time out; people who paste do too.
    """
    record = case.view.record
    if not case.text_only or record is None:
        return
    rows = [reading for reading in record.readings if reading.probe == "smi_table"]
    if rows and not case.view.has("smi_table_printed_at"):
        yield case.finding(
            "table-undated",
            "unproven",
            "advice",
            "server",
            "evidence",
            "packages that print canned nvidia-smi tables print no time",
            {"count": sum(1 for reading in rows if reading.metric == "gpu_identity_memory_bytes")},
            rows[:1],
        )


TEXTS = {
    "table-undated": Text(
        N_("The table could be a picture of one"),
        N_("nvidia-smi's table without the time above it (GPUs: {count:int})"),
        N_("the time that nvidia-smi prints first"),
        N_(
            "Programs that print canned tables leave the time out, and so do people who cut it off. A second look a "
            "minute later shows whether anything moves."
        ),
        N_("Please send nvidia-smi run twice, a minute apart, and nvidia-smi -q -x beside it, uncut."),
    ),
}
