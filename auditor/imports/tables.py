"""Rows of a CSV, an XLSX or an ssh_config as plain mappings, capped in every direction."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from pathlib import Path

import openpyxl

from auditor.errors import UserError

MAX_BYTES = 16 << 20
MAX_UNPACKED = 64 << 20
MAX_ROWS = 20_000
_MATCH = re.compile(r"^[ \t]*match\b.*?(?=^[ \t]*host\b|\Z)", re.I | re.M | re.S)


class Formula(str):
    """A cell that holds a formula and no result of it."""


def rows(path: Path) -> list[list[str]]:
    """The cells of the first sheet with any, row by row, as text; a formula without a kept result is the formula.

    Raises:
        UserError: the file cannot be read or is larger than an order list can be.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"{path}: {len(data) >> 20} MiB is no order list; {MAX_BYTES >> 20} MiB at most.")
    found = _xlsx(data, path) if data[:4] == b"PK\x03\x04" else _csv(data, path)
    filled = sum(any(text.strip() for text in row) for row in found)
    if filled > MAX_ROWS:
        raise UserError(f"{path}: {filled} rows; {MAX_ROWS} at most.")
    return found


def _xlsx(data: bytes, path: Path) -> list[list[str]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
            if unpacked > MAX_UNPACKED:
                raise UserError(f"{path}: unpacks to {unpacked >> 20} MiB; {MAX_UNPACKED >> 20} MiB at most.")
        values, formulas = (
            openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=kept) for kept in (True, False)
        )
    except UserError:
        raise
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, TypeError) as error:
        raise UserError(f"{path}: no workbook that can be read ({error}). Save it as .xlsx or .csv.") from None
    for sheets in zip(values.worksheets, formulas.worksheets, strict=True):
        out = []
        both = (sheet.iter_rows(values_only=True, max_row=MAX_ROWS + 1, max_col=60) for sheet in sheets)
        for row in zip(*both, strict=True):
            out.append([_shown(value, formula) for value, formula in zip(*row, strict=True)])
        if any(any(row) for row in out):
            return out
    return []


def _shown(value: object, formula: object) -> str:
    """A program that wrote the sheet without calculating it left a formula and no value."""
    if value is not None:
        return str(value)
    if formula is None:
        return ""
    return Formula(formula if isinstance(formula, str) else getattr(formula, "text", None) or "=...")  # over many cells


def _csv(data: bytes, path: Path) -> list[list[str]]:
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            text = data.decode(encoding)
            break
        except UnicodeDecodeError:
            continue
    else:
        raise UserError(f"{path}: neither UTF-8 nor GB18030 text. Save it as CSV UTF-8.")
    first = text.split("\n", 1)[0]
    mark = max(",;\t", key=first.count)
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=mark))
    except csv.Error as error:
        raise UserError(f"{path}: no CSV that can be read ({error}).") from None


def ssh_config(path: Path) -> list[dict[str, str]]:
    """The concrete hosts of an ssh_config: name, address, port, user, jump."""
    import paramiko

    try:
        # Without its Match blocks: `Match exec` would run a stranger's command here.
        config = paramiko.SSHConfig.from_text(_MATCH.sub("", path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, paramiko.ssh_exception.ConfigParseError) as error:
        raise UserError(f"{path}: no ssh_config that can be read ({error}).") from None
    out = []
    for name in sorted(config.get_hostnames()):
        if any(mark in name for mark in "*?!"):
            continue
        known = config.lookup(name)
        row = {"name": name, "address": known.get("hostname", name)}
        for key, word in (("port", "port"), ("user", "user"), ("proxyjump", "jump")):
            if word and known.get(key):
                row[word] = str(known[key])
        out.append(row)
    return out
