"""Writes the synthetic golden records anew: `python -m tests.golden`."""

from __future__ import annotations

import json

from auditor.records import Record, to_document
from tests import builders
from tests.golden import FOLDER

SYNTHETIC = {"a100x8-kvm-nvlink-off": builders.a100x8_kvm}


def text(record: Record) -> str:
    """One reading a line: small, and a change shows as one line."""
    document = to_document(record)
    lists = {key: value for key, value in document.items() if isinstance(value, (list, tuple)) and value}
    head = json.dumps({key: value for key, value in document.items() if key not in lists}, indent=1)[:-2]
    parts = []
    for key, rows in lists.items():
        body = ",\n".join("  " + json.dumps(row, separators=(",", ":")) for row in rows)
        parts.append(f' "{key}": [\n{body}\n ]')
    return head + ",\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    for name, make in SYNTHETIC.items():
        (FOLDER / f"{name}.json").write_text(text(make()), encoding="utf-8")
