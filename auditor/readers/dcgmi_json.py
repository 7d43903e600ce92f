"""`dcgmi diag -j`: dialects of DCGM 3.1 to 4.6. A document that is cut or elided is read result by result.

Skip is not Pass; the warnings count, also on a Pass (a memory test that could not allocate still says Pass).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from auditor.readers import json_text
from auditor.readers.json_text import Broken, document, rows
from auditor.readers.parsed import Book, Parsed, shown

KIND = "dcgmi_json"
TOOL = "dcgmi"
HINTS = ('Diagnostic"',)
BEGINS = re.compile(r'(?:\{\s{0,40})?"DCGM (?:GPU )?Diagnostic"')
_STATUS = {"pass": "pass", "fail": "fail", "warn": "warn", "skip": "skip", "skipped": "skip"}
_FROM_BEST = ("pass", "skip", "warn", "fail")
_Worst = dict[tuple[str, str], str]
_ECC_OFF = 55
_TOKENS = re.compile(
    r'"(?P<key>name|category|gpu_ids?|entity_id|status|warning|error_id|version|Driver Version Detected)"[ \t]*:[ \t]*'
    r'(?:"(?P<text>(?:[^"\\\n]|\\.)*)"|(?P<number>[^\s",}\]]+))'
)
end = json_text.closing


def recognise(text: str) -> float:
    """The root key."""
    return 0.99 if re.search(r'"DCGM (?:GPU )?Diagnostic"', text) else 0.0


def read(text: str) -> Parsed:
    """Result and warnings per test and GPU."""
    book = Book(KIND, TOOL)
    try:
        found, line = document(text)
    except Broken as broken:
        book.unreadable(broken.line, broken.why)
        _piecewise(book, text)
        return book.parsed()
    before = text.split("\n")[: line - 1]
    for number, words in enumerate(before, 1):
        if words.strip():
            book.unreadable(number, f"text before the JSON: {shown(words)}")
    root: dict[str, Any] = {}
    for key in ("DCGM GPU Diagnostic", "DCGM Diagnostic"):
        root = found[key] if isinstance(found.get(key), dict) else root
    _metadata(book, found, root)
    if isinstance(root.get("runtime_error"), str):
        book.add("dcgm_warning", root["runtime_error"], test="diag", row=0)
    worst: _Worst = {}
    bodies = [root, *rows(root.get("iterations"))]
    for body in bodies:
        for category in rows(body.get("test_categories")):
            for test in rows(category.get("tests")):
                _test(book, test, line, worst)
    return book.parsed()


def _metadata(book: Book, found: dict[str, Any], root: dict[str, Any]) -> None:
    metadata = found.get("metadata") if isinstance(found.get("metadata"), dict) else {}
    for place in (metadata, found, root):
        version = place.get("version") if isinstance(place, dict) else None
        driver = place.get("Driver Version Detected") if isinstance(place, dict) else None
        if isinstance(version, str):
            book.add("dcgm_version", version)
        if isinstance(driver, str):
            book.add("server_facts_driver_version", driver)
    for group in rows(found.get("entity_groups")):
        for entity in rows(group.get("entities")):
            device, index = entity.get("device_id"), entity.get("entity_id")
            if group.get("entity_group") != "GPU" or not isinstance(index, int) or not isinstance(device, str):
                continue
            if re.fullmatch(r"[0-9a-fA-F]{4}", device):
                book.add("gpu_identity_pci_device", f"10de:{device.lower()}", book.gpu(index))


def _test(book: Book, test: dict[str, Any], line: int, worst: _Worst) -> None:
    name = _name(test.get("name"))
    results = rows(test.get("results"))
    for result in results:
        for subject in _subjects(book, result):
            _result(book, name, subject, result, line, worst)
    summary = test.get("test_summary")
    if isinstance(summary, dict) and not results:
        _result(book, name, "server", summary, line, worst)


def _result(book: Book, name: str, subject: str, result: dict[str, Any], line: int, worst: _Worst) -> None:
    status = _STATUS.get(str(result.get("status", "")).lower())
    if status:
        _note(book, name, subject, status, worst)
    else:
        book.unreadable(line, f"test {name}: status {shown(str(result.get('status')))!r} is none that is known")
    for row, (words, error, severity) in enumerate(_warnings(result)):
        with_ = {"severity": severity} if severity is not None else {}
        book.add("dcgm_warning", words, subject, test=name, error=error, row=row, **with_)
        if error == _ECC_OFF:
            book.add("gpu_identity_ecc_enabled", False, subject, which="current")


def _note(book: Book, test: str, subject: str, status: str, worst: _Worst) -> None:
    """One result; where several are of one subject (iterations, entities that are no GPU) the worst stands."""
    before = worst.get((subject, test), status)
    worst[subject, test] = max(before, status, key=_FROM_BEST.index)
    book.add("dcgm_result", worst[subject, test], subject, test=test)


def _warnings(result: dict[str, Any]) -> Iterator[tuple[str, int, int | None]]:
    given = result.get("warnings")
    if isinstance(given, str) and given.strip():
        error = result.get("error_id")
        yield given.strip(), error if isinstance(error, int) else 0, None
    for one in rows(given):
        words = one.get("warning") or one.get("warnings") or ""
        error, severity = one.get("error_id"), one.get("error_severity")
        if isinstance(words, str) and words.strip():
            known = severity if isinstance(severity, int) else None
            yield words.strip(), error if isinstance(error, int) else 0, known


def _subjects(book: Book, result: dict[str, Any]) -> list[str]:
    if "entity_id" in result and result.get("entity_group", "GPU") != "GPU":
        return ["server"]
    given = result.get("gpu_ids", result.get("gpu_id", result.get("entity_id")))
    items = given if isinstance(given, list) else str(given).split(",") if given is not None else []
    found = [book.gpu(int(one)) for one in (str(item).strip() for item in items) if one.isdigit() and len(one) < 5]
    return found or ["server"]


def _name(value: object) -> str:
    return re.sub(r"[^a-z0-9]+", "_", str(value).lower()).strip("_") or "unnamed"


def _piecewise(book: Book, text: str) -> None:
    """Results of a broken document, in the order they stand: a test's name, its GPUs, the status of each."""
    test: str | None = None
    subjects: list[str] = []
    row = 0
    worst: _Worst = {}
    for token in _TOKENS.finditer(text):
        key, value = token["key"], token["text"] if token["text"] is not None else token["number"]
        if token["text"] is None and key not in ("gpu_id", "gpu_ids", "entity_id"):
            continue
        if key == "name":
            test, subjects = _name(value), []
        elif key == "category":
            test = None
        elif key in ("gpu_id", "gpu_ids", "entity_id"):
            subjects = _subjects(book, {"gpu_ids": value})
        elif key == "status" and test:
            status = _STATUS.get(value.lower())
            for subject in subjects or ["server"]:
                if status:
                    _note(book, test, subject, status, worst)
        elif key == "warning" and test:
            for subject in subjects or ["server"]:
                book.add("dcgm_warning", value, subject, test=test, error=0, row=row)
            row += 1
        elif key == "version":
            book.add("dcgm_version", value)
