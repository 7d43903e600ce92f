"""Rules are functions found by walking `auditor/judge/rules/`; nothing registers them.

A rule is a pure function from one server's `Case` to findings, decorated with `@rule`. A rule that needs
the other servers of the run is decorated with `@fleet_rule` and gets the server's `Digest` and the `Fleet`.
A module of rules also holds `TEXTS` (finding id → Text) and may hold `CAUSES` (finding id → the ids that
explain it, the most telling first).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from auditor.finding import Finding
from auditor.judge.texts import Text

if TYPE_CHECKING:
    from auditor.judge.case import Case
    from auditor.judge.fleet import Digest, Fleet

ServerRule = Callable[["Case"], Iterator[Finding]]
FleetRule = Callable[["Digest", "Fleet"], Iterator[Finding]]
_F = TypeVar("_F", bound=Callable[..., Iterator[Finding]])

_MARK = "__judge_rule__"


def rule(function: _F) -> _F:
    """Marks a rule on one server."""
    setattr(function, _MARK, "server")
    return function


def fleet_rule(function: _F) -> _F:
    """Marks a rule that compares a server with the others of the run."""
    setattr(function, _MARK, "fleet")
    return function


@cache
def modules() -> tuple[ModuleType, ...]:
    """Every module of `auditor/judge/rules/`."""
    package = importlib.import_module("auditor.judge.rules")
    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__))
    return tuple(importlib.import_module(f"{package.__name__}.{name}") for name in names)


@cache
def server_rules() -> tuple[ServerRule, ...]:
    """All rules on one server, in the order of their modules and names."""
    return tuple(_marked("server"))


@cache
def fleet_rules() -> tuple[FleetRule, ...]:
    """All rules on a server among the others."""
    return tuple(_marked("fleet"))


@cache
def texts() -> dict[str, Text]:
    """The texts of every finding id."""
    out: dict[str, Text] = {}
    for module in modules():
        out.update(getattr(module, "TEXTS", {}))
    return out


@cache
def causes() -> dict[str, tuple[str, ...]]:
    """Finding id → ids that explain it, the most telling first."""
    out: dict[str, tuple[str, ...]] = {}
    for module in modules():
        for effect, explained_by in getattr(module, "CAUSES", {}).items():
            out[effect] = (*out.get(effect, ()), *explained_by)
    return out


def docstring(finding_id: str) -> str:
    """What the rule behind a finding id decides, in its own words; empty when no rule names the id."""
    for module in modules():
        if finding_id in getattr(module, "TEXTS", {}):
            for function in vars(module).values():
                names = getattr(function, "__code__", None)
                if getattr(function, _MARK, None) and names and finding_id in names.co_consts:
                    return str(function.__doc__ or "")
            return str(module.__doc__ or "")
    return ""


def _marked(scope: str) -> Iterator[Callable[..., Iterator[Finding]]]:
    for module in modules():
        for name in sorted(vars(module)):
            function = vars(module)[name]
            if getattr(function, _MARK, None) == scope and function.__module__ == module.__name__:
                yield function
