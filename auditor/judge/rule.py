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
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, TypeVar, get_args

from auditor.finding import Category, Finding
from auditor.judge.policy import Lines
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
    return next(iter(docstrings(finding_id)), "")


@cache
def docstrings(finding_id: str) -> tuple[str, ...]:
    """The same of every rule that gives the finding, the one of its own theme first."""
    own = [module for module in modules() if finding_id in getattr(module, "TEXTS", {})]
    if not own:
        return ()
    deciding = [function for module in (*own, *modules()) for function in deciders(module, finding_id)]
    return tuple(dict.fromkeys(str(f.__doc__ or "") for f in deciding)) or (str(own[0].__doc__ or ""),)


def deciders(module: ModuleType, finding_id: str) -> list[FunctionType]:
    """The rules of a module whose code, or that of a function of the module they call, names the finding."""
    rules = [f for f in vars(module).values() if getattr(f, _MARK, None) and f.__module__ == module.__name__]
    if finding_id in get_args(Category):  # the word of a category stands in every rule of it
        return [function for function in rules if function.__name__ == finding_id]
    return [function for function in rules if finding_id in _named(module, function)]


@cache
def _named(module: ModuleType, function: FunctionType) -> frozenset[object]:
    """Every constant in the code of a rule; the Method sheet asks for each finding there is."""
    return frozenset(constant for code in _codes(module, function) for constant in _constants(code))


def _constants(code: CodeType) -> Iterator[object]:
    """The constants of a piece of code, those inside tuples too."""
    waiting: list[object] = list(code.co_consts)
    while waiting:
        one = waiting.pop()
        waiting += one if isinstance(one, tuple) else ()
        yield one


def lines_used(finding_id: str) -> tuple[str, ...]:
    """The names of the policy's lines that the rules of a finding read."""
    wanted = set(Lines.__struct_fields__)
    codes = [
        code for module in modules() for function in deciders(module, finding_id) for code in _codes(module, function)
    ]
    return tuple(dict.fromkeys(name for code in codes for name in code.co_names if name in wanted))


def _codes(module: ModuleType, function: FunctionType) -> Iterator[CodeType]:
    """The code of a rule, of what is nested in it, and of the module's own functions it calls."""
    seen: set[CodeType] = set()
    waiting = [function.__code__]
    while waiting:
        code = waiting.pop(0)
        if code in seen:
            continue
        seen.add(code)
        yield code
        waiting += [one for one in code.co_consts if isinstance(one, CodeType)]
        called = (vars(module).get(name) for name in code.co_names)
        waiting += [f.__code__ for f in called if isinstance(f, FunctionType) and f.__module__ == module.__name__]


def _marked(scope: str) -> Iterator[Callable[..., Iterator[Finding]]]:
    for module in modules():
        for name in sorted(vars(module)):
            function = vars(module)[name]
            if getattr(function, _MARK, None) == scope and function.__module__ == module.__name__:
                yield function
