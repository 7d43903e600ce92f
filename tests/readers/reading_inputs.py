"""An input file to plain data: every section's kind, readings and unreadable lines, as the expected files hold them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from auditor.readers import text
from auditor.readers.sections import read, sections

INPUTS = Path(__file__).parent / "inputs"


def cases() -> list[Path]:
    """Every input, by kind and quirk."""
    return sorted(INPUTS.glob("*/*.txt"))


def plain(data: bytes) -> list[dict[str, Any]]:
    """What the whole pipeline makes of the bytes of one file."""
    out = []
    for section in sections(text.clean(text.decode(data))):
        parsed = read(section)
        out.append(
            {
                "kind": section.reader.KIND if section.reader else None,
                "host": section.host,
                "line": section.line,
                "readings": [
                    " ".join([r.subject, r.metric, *(f"{k}={v}" for k, v in r.conditions.items()), "=", repr(r.value)])
                    for r in parsed.readings
                ],
                "unreadable": [f"{u.line}: {u.why}" for u in parsed.unreadable],
            }
        )
    return out
