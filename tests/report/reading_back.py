"""Reads a written workbook back: tables as dictionaries, and the raw XML of the package."""

from __future__ import annotations

import re
import zipfile
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import openpyxl
from openpyxl.workbook import Workbook

Rows = list[dict[str, object]]


@cache
def load_workbook(path: Path) -> Workbook:
    """The file as openpyxl reads it, read once: tests only look."""
    return openpyxl.load_workbook(path)


def table(path: Path, title: str) -> Rows:
    """A sheet's table as dictionaries by header."""
    sheet = load_workbook(path)[title]
    (one,) = sheet.tables.values()
    cells = [[cell.value for cell in line] for line in sheet[one.ref]]
    return [dict(zip(map(str, cells[0]), line, strict=True)) for line in cells[1:]]


def texts(path: Path, title: str) -> list[str]:
    """Every text of a sheet, in reading order."""
    return [str(v) for line in load_workbook(path)[title].iter_rows(values_only=True) for v in line if v is not None]


def parts(path: Path) -> dict[str, bytes]:
    """Every part of the package."""
    with zipfile.ZipFile(path) as package:
        return {name: package.read(name) for name in package.namelist()}


def faults(path: Path) -> list[str]:
    """The known causes of a repair prompt, as far as a package shows them, and whatever is forbidden here."""
    found = []
    package = parts(path)
    names: list[str] = []
    for name, data in package.items():
        if name.endswith((".xml", ".rels")):
            ElementTree.fromstring(data)  # raises on broken XML
        if re.search(r"externalLink|vba|calcChain|connections|activeX", name, re.IGNORECASE):
            found.append(f"{name}: forbidden part")
        if name.startswith("xl/worksheets/sheet"):
            text = data.decode()
            for forbidden in ("<f>", "<f ", "<hyperlink", "<mergeCell", "\x00"):
                if forbidden in text:
                    found.append(f"{name}: {forbidden}")
        if name.startswith("xl/tables/"):
            names.append(ElementTree.fromstring(data).attrib["displayName"])
        if b'TargetMode="External"' in data:
            found.append(f"{name}: external target")
    if len(set(names)) != len(names):
        found.append(f"tables named twice: {names}")
    workbook = load_workbook(path)
    for sheet in workbook.worksheets:
        found += _sheet_faults(sheet)
    return found


def _sheet_faults(sheet: object) -> list[str]:
    found = []
    title = str(sheet.title)  # type: ignore[attr-defined]
    if len(title) > 31 or re.search(r"[\\/*?:\[\]]", title):
        found.append(f"{title}: not a sheet title")
    if sheet.sheet_state != "visible":  # type: ignore[attr-defined]
        found.append(f"{title}: hidden")
    for one in sheet.tables.values():  # type: ignore[attr-defined]
        header = [cell.value for cell in sheet[one.ref][0]]  # type: ignore[index]
        columns = [column.name for column in one.tableColumns]
        if header != columns:
            found.append(f"{title}: header {header} but columns {columns}")
        if not all(isinstance(name, str) and name and "\n" not in name for name in header):
            found.append(f"{title}: a header is no text")
        if len({str(name).casefold() for name in header}) != len(header):
            found.append(f"{title}: two columns of one name")
        if len(sheet[one.ref]) < 2:  # type: ignore[index]
            found.append(f"{title}: a table without a row")
    for line in sheet.iter_rows():  # type: ignore[attr-defined]
        for cell in line:
            if cell.data_type == "f" or cell.hyperlink is not None:
                found.append(f"{title}!{cell.coordinate}: formula or link")
            if isinstance(cell.value, str) and len(cell.value) > 32_767:
                found.append(f"{title}!{cell.coordinate}: too long")
    return found
