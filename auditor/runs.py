"""The run folder: where one audit's records and states lie, and the only code that knows its layout.

results/<inventory>/<UTC time>/
    run.json                 versions, nonces, times
    orders.json              every server of the inventory and what was ordered (null: no order)
    policy.yaml              the policy in force
    servers/NAME/record.json bytes as fetched
    servers/NAME/state.json  phase, reason, hash, times on the controller's clock
    report/                  everything made from the above
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeVar

import msgspec

from auditor.errors import UserError
from auditor.order import Order, checked

_T = TypeVar("_T")
LOOSE = "files"  # stands for the run and the inventory of records that came without a run folder
SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class State(msgspec.Struct, frozen=True):
    """What the controller knows of one server's audit.

    `phase` is where it ended: reach, start, measure, collect, done. `reason` is a fixed word such as
    unreachable, host_key_unknown, host_key_changed, disk_full, no_python, timed_out, record_refused; None when done.
    """

    phase: str
    reason: str | None = None
    detail: str | None = None
    sha256: str | None = None
    started: str | None = None
    finished: str | None = None
    details: dict[str, str | int | float | bool | None] = {}


class RunInfo(msgspec.Struct, frozen=True):
    """run.json: what was run, when, by which version, and the nonce sent to each server."""

    run: str
    inventory: str
    profile: str
    version: str
    started: str
    finished: str | None = None
    of_inventory: int | None = None
    nonces: dict[str, str] = {}
    labels: dict[str, str] = {}
    lang: str | None = None


class Run(msgspec.Struct, frozen=True):
    """An opened run folder."""

    folder: Path
    info: RunInfo
    orders: dict[str, Order | None]
    states: dict[str, State]

    def record_path(self, server: str) -> Path:
        """Where the server's record lies, whether or not it came."""
        return self.folder / "servers" / server / "record.json"


def check_name(name: str) -> str:
    """The inventory name, if it may name a folder and a row (threat C07).

    Raises:
        UserError: the name holds something else than letters, digits, dot, dash, underscore.
    """
    if not SERVER_NAME.fullmatch(name):
        raise UserError(
            f"inventory: the server name {name[:80]!r} is refused: use letters, digits, '.', '_' and '-', "
            "at most 63 (audit_label gives it a display name in any script)."
        )
    return name


def open_run(folder: Path) -> Run:
    """Read a run folder's own files (not the records).

    Raises:
        UserError: the folder is no run, or one of its files cannot be understood.
    """
    own = (folder / "run.json", folder / "orders.json")
    if not any(path.exists() for path in own) and any(folder.glob("*.json")):
        raise UserError(f"{folder}: is no run folder; to judge the record files in it, name the files: {folder}/*.json")
    info = _read(folder / "run.json", RunInfo)
    orders = _read(folder / "orders.json", dict[str, Order | None])
    states = {}
    for name, wanted in orders.items():
        check_name(name)
        if wanted is not None:
            checked(wanted, f"{folder / 'orders.json'}: {name}")
        path = folder / "servers" / name / "state.json"
        states[name] = _read(path, State) if path.exists() else State(phase="reach", reason="never_started")
    return Run(folder, info, orders, states)


def write(path: Path, value: object) -> None:
    """Write one JSON file whole: temporary file, fsync, rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


def write_bytes(path: Path, data: bytes) -> None:
    """Write bytes whole: temporary file, fsync, rename."""
    temporary = path.with_name(path.name + ".new")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _read(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}). Name a run folder, results/INVENTORY/TIME."
        ) from None
    except msgspec.DecodeError as error:
        raise UserError(f"{path}: {error}. The run folder is damaged; audit again or restore the file.") from None
