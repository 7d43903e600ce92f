"""Strict YAML for the files people edit: every error names file and line, nothing is guessed.

Duplicate keys are refused (YAML would keep the last), unknown keys and wrong types are refused by the
target structure, and a number that YAML reads as text (`3.35e12`) is named as such.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from auditor.errors import UserError

_T = TypeVar("_T")
_Path = tuple[str | int, ...]
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"unknown field `([^`]+)`")
_NUMBER_AS_TEXT = re.compile(r"[-+]?\d+(\.\d*)?[eE]\d+")


def load(path: Path, kind: type[_T]) -> _T:
    """Read one YAML file as `kind`.

    Raises:
        UserError: the file cannot be read, is not YAML, or says something `kind` does not know.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({error}).") from None
    return loads(text, kind, str(path))


def loads(text: str, kind: type[_T], where: str) -> _T:
    """Read YAML text as `kind`; `where` names the file in errors."""
    data, lines = document(text, where)
    return convert(data, lines, kind, where)


def convert(data: Any, lines: dict[_Path, int], kind: type[_T], where: str) -> _T:
    """Plain data as `kind`; `lines` are the places that `document` found."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise UserError(_explain(str(error), data, lines, where)) from None


def document(text: str, where: str) -> tuple[Any, dict[_Path, int]]:
    """The plain data of a YAML text and the line of every value and key in it."""
    try:
        root = yaml.compose(text, _LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise UserError(f"{where}{line}: not YAML: {getattr(error, 'problem', None) or error}.") from None
    if root is None:
        raise UserError(f"{where}: the file is empty.")
    lines: dict[_Path, int] = {}
    build = yaml.SafeLoader("")
    return _plain(root, (), lines, where, build), lines


def _plain(node: yaml.Node, path: _Path, lines: dict[_Path, int], where: str, build: yaml.SafeLoader) -> Any:
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in out:
                raise UserError(f"{where}:{key_node.start_mark.line + 1}: `{key}` stands twice; keep one.")
            out[key] = _plain(value_node, (*path, key), lines, where, build)
            lines[(*path, key)] = key_node.start_mark.line + 1
        return out
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*path, index), lines, where, build) for index, item in enumerate(node.value)]
    return build.construct_object(node)


def _explain(message: str, data: Any, lines: dict[_Path, int], where: str) -> str:
    what, _, at = message.partition(" - at `")
    path: _Path = ()
    for name, index in _STEP.findall(at):
        if index == "...":
            break
        path = (*path, int(index) if index else name)
    unknown = _UNKNOWN.search(what)
    named = (*path, unknown[1]) if unknown else path
    line = lines.get(named, lines.get(path, 1))
    text = f"{where}:{line}: {what[:1].lower()}{what[1:]}"
    if path:
        text += f" at `{_spell(path)}`"
    value = _at(data, path)
    if isinstance(value, str) and _NUMBER_AS_TEXT.fullmatch(value):
        text += f"; YAML reads {value} as text, write {value.lower().replace('e', 'e+')}"
    return text + "."


def _at(data: Any, path: _Path) -> Any:
    for step in path:
        data = data[step]
    return data


def _spell(path: _Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
