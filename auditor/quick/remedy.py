"""The one command that would bring torch to a server that has none."""

from __future__ import annotations

import importlib.util
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

from auditor.catalog import Catalog
from auditor.records import Record, Value

_PLAN = Path(__file__).parents[2] / "plugins" / "module_utils" / "torch_plan.py"
_PLACE = "$HOME/auditor-torch"


def command(record: Record | None, bringer: str, python: str, catalog: Catalog) -> str:
    """For that server's shell; into a folder of its own, where the search for torch finds it.

    `python` is the interpreter that was found there, `bringer` what it has to install with.
    """
    wheel, python = _wheel(record, catalog), shlex.quote(python)
    if bringer == "venv":
        return f"{python} -m venv {_PLACE} && {_PLACE}/bin/pip install {wheel}"
    if bringer == "pip":
        packages = f"{_PLACE}/lib/python3*/site-packages"
        return f"{python} -m venv --without-pip {_PLACE} && {python} -m pip install --target {packages} {wheel}"
    return f"sudo apt-get install -y python3-venv && python3 -m venv {_PLACE} && {_PLACE}/bin/pip install {wheel}"


def over_ssh(ssh: str | None, line: str) -> str:
    """The command as a person types it on this side; unchanged when this is the server itself."""
    return f"{ssh} {shlex.quote(line)}" if ssh else line


def _wheel(record: Record | None, catalog: Catalog) -> str:
    """The build that this Python, driver and GPU can run, by the table that the role uses."""
    facts = {r.metric: r.value for r in record.readings} if record else {}
    python = _numbers(facts.get("server_facts_interpreter"))[:2] or (3, 10)
    driver = _numbers(facts.get("server_facts_driver_version"))
    names = [r.value for r in record.readings if r.metric == "gpu_identity_name"] if record else []
    models = [model for name in names for model in catalog.named(str(name))]
    generations = sorted({model.architecture.lower() for model in models}) or ["unknown"] if driver else []
    chosen = _plan().choose((python[0], python[-1]), driver[0] if driver else None, generations)
    if chosen.version is None:
        return "torch"
    index = f" --index-url https://download.pytorch.org/whl/{chosen.index}" if chosen.index else ""
    return f"torch=={chosen.version}{index}"


def _numbers(value: Value) -> tuple[int, ...]:
    match = re.search(r"\d+(?:\.\d+)+", value if isinstance(value, str) else "")
    return tuple(int(part) for part in match[0].split(".")) if match else ()


@cache
def _plan() -> Any:
    """The role's table; it lies with what runs on servers, outside this package."""
    spec = importlib.util.spec_from_file_location("torch_plan", _PLAN)
    if spec is None or spec.loader is None:
        raise ImportError(f"{_PLAN} is missing: the project folder is not whole")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
