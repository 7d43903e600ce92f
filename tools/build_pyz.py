"""Builds build/auditor-probe.pyz: the records, the probes and pynvml in one file that any Python >= 3.8 runs.

The same sources give the same bytes: entries sorted, timestamps fixed, nothing of this machine inside.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "build" / "auditor-probe.pyz"
MOST_BYTES = 1_000_000
_MOMENT = (2020, 1, 1, 0, 0, 0)
_MAIN = b"""import sys

if sys.version_info < (3, 8):
    sys.stderr.write("auditor-probe: needs Python 3.8 or newer, this is %s\\n" % sys.version.split()[0])
    sys.exit(2)
from auditor.probes.engine.entrance import enter

sys.exit(enter(sys.argv[1:]))
"""


def sources(root: Path = ROOT) -> Iterator[tuple[str, bytes]]:
    """Every file of the pyz: its name inside, its content."""
    yield "__main__.py", _MAIN
    for name in ("auditor/__init__.py", "auditor/records.py"):
        yield name, (root / name).read_bytes()
    for path in (root / "auditor/probes").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(root).as_posix(), path.read_bytes()
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise SystemExit("build_pyz: nvidia-ml-py is not installed here: run `make setup`")
    yield "pynvml.py", Path(spec.origin).read_bytes()


def pyz(root: Path = ROOT) -> bytes:
    """The file's bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(sources(root)):
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.compress_type, entry.external_attr, entry.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
            archive.writestr(entry, data, compresslevel=9)
    return b"#!/usr/bin/env python3\n" + buffer.getvalue()


def main() -> int:
    """Write it where it is missing or differs."""
    data = pyz()
    if len(data) > MOST_BYTES:
        sys.exit(f"build_pyz: {len(data)} bytes, {MOST_BYTES} is the most that is sent to a server")
    TARGET.parent.mkdir(exist_ok=True)
    if not TARGET.exists() or TARGET.read_bytes() != data:
        beside = TARGET.with_suffix(".new")
        beside.write_bytes(data)
        beside.chmod(0o755)
        beside.replace(TARGET)
    print(f"{TARGET.relative_to(ROOT)}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()[:16]}")  # noqa: T201  # what make pyz tells
    return 0


if __name__ == "__main__":
    sys.exit(main())
