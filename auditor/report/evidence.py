"""Evidence: one file with everything that a verdict rests on, and the check that nobody changed it.

A zip of the record as fetched, the order, the findings in words, the method, the policy in force and the versions,
under a manifest that `sha256sum -c` understands too. The sum of the file itself is told when it is made: whoever
was given that sum can prove that the file is still the same.
"""

from __future__ import annotations

import hashlib
import platform
import re
import zipfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

import msgspec

from auditor.assembly import Judged
from auditor.errors import UserError
from auditor.judge import policy as policies
from auditor.report.formats import json as documents
from auditor.report.metrics import PAGE
from auditor.report.texts import load
from auditor.report.view import Report

MANIFEST = "MANIFEST.sha256"
MOST_FILES = 32
LARGEST_FILE = 256 * 1024 * 1024
_LINE = re.compile(r"([0-9a-f]{64})  ([A-Za-z0-9._-]{1,80})")
_BLOCK = 1024 * 1024
README = """Evidence of one server's audit.

record.json     what the server sent, byte for byte
state.json      what the controller noted: times on its own clock, the record's SHA-256
order.json      what was ordered
findings.json   the verdict and every finding in words, with the readings it rests on (schema: report-1.json)
policy.yaml     the thresholds in force, each with its source
method.md       how every figure was measured
versions.json   which auditor and catalogue judged
MANIFEST.sha256 the sums of these files

To check: unzip, then `sha256sum -c MANIFEST.sha256`; or `auditor evidence verify FILE`.
To judge again: `auditor report record.json --order ORDER.yml`.
"""


@dataclass(frozen=True)
class Check:
    """What a verification came to: one line per file, and whether all is as it was."""

    lines: tuple[str, ...]
    intact: bool
    sha256: str


def build(judged: Judged, server: str, path: Path, lang: str = "en") -> str:
    """Write the evidence of one server; returns the SHA-256 of the file.

    Raises:
        UserError: the run has no such server.
    """
    files = _files(judged, server, lang)
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    files[MANIFEST] = "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as package:
        for name, data in files.items():
            member = zipfile.ZipInfo(name, _when(judged.judgement.finished or judged.judgement.started))
            member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            package.writestr(member, data)
    temporary.replace(path)
    return file_sha256(path)


def _files(judged: Judged, server: str, lang: str) -> dict[str, bytes]:
    run = judged.run
    result = next((one for one in judged.judgement.servers if one.name == server), None)
    if run is None or result is None:
        known = ", ".join(one.name for one in judged.judgement.servers[:20])
        raise UserError(f"evidence: the run has no server {server!r}; it has {known}.")
    report = Report([judged], load(lang))
    seen = next(one for one in report.seen() if one.server.name == server)
    document = {**documents.head(report), "servers": [documents.server_document(report, seen)], "ranking": {}}
    judgement = judged.judgement
    files = {
        "README.txt": README.encode(),
        "findings.json": _json(document),
        "order.json": _json(result.order),
        "versions.json": _json(
            {
                "auditor": judgement.version,
                "python": platform.python_version(),
                "run": judgement.run,
                "inventory": judgement.inventory,
                "policy_sha256": judgement.policy_sha256,
                "catalog_sha256": judgement.catalog_sha256,
            }
        ),
        "policy.yaml": _first(run.folder / "policy.yaml", policies.SHIPPED),
    }
    folder = run.folder / "servers" / server
    for name in ("record.json", "state.json"):
        if (folder / name).is_file():
            files[name] = (folder / name).read_bytes()
    if PAGE.is_file():
        files["method.md"] = PAGE.read_bytes()
    return files


def verify(path: Path) -> Check:
    """Compare every file of the package with its manifest.

    Raises:
        UserError: this is no evidence file.
    """
    try:
        with zipfile.ZipFile(path) as package:
            return _verified(package, path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file. Give the zip that `auditor evidence` wrote.") from None
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise UserError(
            f"{path}: not an evidence file ({_why(error)}). Give the zip that `auditor evidence` wrote."
        ) from None


def _why(error: Exception) -> str:
    """The system's word for it, or what the reader of zips says."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _verified(package: zipfile.ZipFile, path: Path) -> Check:
    members = package.infolist()
    names = [member.filename for member in members]
    if len(members) > MOST_FILES or len(set(names)) != len(names):
        raise UserError(f"{path}: not an evidence file: {len(members)} files in it, or one of them twice.")
    if MANIFEST not in names:
        raise UserError(f"{path}: not an evidence file: {MANIFEST} is missing.")
    wanted = _manifest(package, path)
    lines, intact = [], True
    for name in sorted(set(names) | set(wanted)):
        word = _compare(package, name, wanted, names)
        intact = intact and word in ("unchanged", "the manifest")
        lines.append(f"{name}: {word}")
    return Check(tuple(lines), intact, file_sha256(path))


def _compare(package: zipfile.ZipFile, name: str, wanted: dict[str, str], names: list[str]) -> str:
    if name == MANIFEST:
        return "the manifest"
    if name not in names:
        return "MISSING"
    if name not in wanted:
        return "ADDED: not in the manifest"
    with package.open(name) as file:
        digest = _sum(file)
    return "unchanged" if digest == wanted[name] else "CHANGED"


def _manifest(package: zipfile.ZipFile, path: Path) -> dict[str, str]:
    with package.open(MANIFEST) as file:
        text = file.read(_BLOCK).decode("utf-8", "replace")
    found = [_LINE.fullmatch(line) for line in text.splitlines()]
    if not found or not all(found):
        raise UserError(f"{path}: {MANIFEST} cannot be read; the file is damaged or no evidence file.")
    return {match[2]: match[1] for match in found if match}


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, read in blocks."""
    with path.open("rb") as file:
        return _sum(file) or ""


def _sum(file: IO[bytes]) -> str | None:
    """The sum of what comes out; None past the largest size an evidence file may hold."""
    digest, total = hashlib.sha256(), 0
    while block := file.read(_BLOCK):
        total += len(block)
        if total > LARGEST_FILE:
            return None
        digest.update(block)
    return digest.hexdigest()


def _first(own: Path, shipped: Path) -> bytes:
    """The policy that was laid over the shipped one, and the shipped one below it."""
    if own.is_file() and own.read_bytes().strip():
        return (
            own.read_bytes()
            + b"\n# --- the shipped policy below it ---\n"
            + b"".join(b"# " + line for line in shipped.read_bytes().splitlines(keepends=True))
        )
    return shipped.read_bytes()


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _when(text: str | None) -> tuple[int, int, int, int, int, int]:
    """A time a zip can hold."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return (1980, 1, 1, 0, 0, 0)
    return (max(moment.year, 1980), moment.month, moment.day, moment.hour, moment.minute, moment.second)
