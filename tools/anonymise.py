"""Makes a record fit to be shown: what names a machine, a board or a kernel build becomes a neutral value.

    python -m tools.anonymise record.json neutral.json

Kept: models, versions of driver and libraries, firmware versions (they belong to a model), all figures.
Replaced, wherever they stand: UUIDs, serial numbers, host names, boot ids, kernel release and build, hardware
addresses, IP addresses, the kernel's command line, folders of the run, nonce and run id.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_RUN, _STARTED = "20261201T000000Z", "2026-12-01T00:00:00Z"
_SERVER = "h200"

# Metrics whose value names this one machine, and what stands there instead.
_NAMING: dict[str, Callable[[int], str]] = {
    "gpu_identity_uuid": lambda n: f"GPU-00000000-0000-4000-8000-{n:012d}",
    "gpu_identity_serial": lambda n: f"{1650000000000 + n}",
    "server_facts_hostname": lambda n: "gpu-server",
    "server_facts_boot_id": lambda n: "00000000-0000-4000-8000-000000000000",
    "server_facts_kernel": lambda n: "6.18.0-guest",
}
_KERNEL_TEXT = "Linux version 6.18.0-guest (builder@localhost) #1 SMP"

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.I), "00:00:00:00:00:00"),
    (re.compile(r"\b(?!127\.|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}\b(?!\.\d)(?=[:/ ]|$)"), "192.0.2.1"),
    (re.compile(r"((?:Kernel command|Command) line: ).*"), r"\1[left out]"),
    (re.compile(r"\(\S*@\S*\)"), "(builder@localhost)"),
    (re.compile(r"/tmp/auditor-probe-[A-Za-z0-9_]+"), "/tmp/auditor-probe"),  # noqa: S108  # a text, no file
    (
        re.compile(r"\bGPU-(?!0{8}-)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"),
        "GPU-00000000-0000-4000-8000-000000000000",
    ),
)


def neutral(document: dict[str, Any]) -> dict[str, Any]:
    """The same record with neutral names."""
    known = dict(_names(document))
    out = _walk(document, lambda text: _replaced(text, known))
    out["run"], out["started"], out["nonce"], out["server"] = _RUN, _STARTED, None, _SERVER
    for reading in out["readings"]:
        if reading["metric"] == "server_facts_kernel_version_text" and isinstance(reading["value"], str):
            reading["value"] = _KERNEL_TEXT
        if reading["metric"] == "server_facts_hostname" and reading["value"]:
            reading["value"] = _NAMING["server_facts_hostname"](0)
    return out  # type: ignore[no-any-return]


def _names(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What this record's machine calls itself and its boards, each with its neutral word."""
    uuids = [subject["uuid"] for subject in document["subjects"] if subject.get("uuid")]
    for number, uuid in enumerate(uuids):
        word = _NAMING["gpu_identity_uuid"](number)
        yield uuid, word
        yield uuid.replace("GPU-", ""), word.replace("GPU-", "")
    counts: dict[str, int] = {}
    for reading in document["readings"]:
        make = _NAMING.get(reading["metric"])
        value = reading["value"]
        # A name of two letters would be found inside other words.
        if make is not None and isinstance(value, str) and len(value) > 3 and value not in uuids:
            number = counts[reading["metric"]] = counts.get(reading["metric"], -1) + 1
            yield value, make(number)


def _replaced(text: str, known: dict[str, str]) -> str:
    for name in sorted(known, key=len, reverse=True):
        text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", known[name], text)
    for pattern, word in _PATTERNS:
        text = pattern.sub(word, text)
    return text


def _walk(value: Any, replace: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, list):
        return [_walk(item, replace) for item in value]
    if isinstance(value, dict):
        return {key: _walk(item, replace) for key, item in value.items()}
    return value


def main(argv: list[str]) -> int:
    """Read, replace, write; one reading a line, so that two goldens can be compared."""
    if len(argv) != 2:
        sys.stderr.write("usage: python -m tools.anonymise RECORD.json NEUTRAL.json\n")
        return 2
    document = neutral(json.loads(Path(argv[0]).read_text(encoding="utf-8")))
    Path(argv[1]).write_text(lines(document), encoding="utf-8")
    return 0


def lines(document: dict[str, Any]) -> str:
    """The document as JSON with one row a line."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in value)
            parts.append(f" {json.dumps(key)}: [\n  {rows}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
