"""The controller's side of an audit: opens the run, keeps what comes, notes what does not.

Called by the action plugins; knows nothing of Ansible. Everything is written through `auditor.runs`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from auditor import __version__, order, runs
from auditor.errors import UserError
from auditor.runs import RunInfo, State
from auditor.showing import show

Detail = str | int | float | bool | None
RUN_ID = re.compile(r"\d{8}T\d{6}Z")
_POLICY = Path(__file__).parents[1] / "judge" / "policy.yaml"


class Wanted(NamedTuple):
    """One server of the inventory as a person wrote it: `order` is None where nothing was ordered."""

    name: str
    order: Any = None
    label: str | None = None


class Controller(msgspec.Struct, frozen=True):
    """Which process drives a run; a dead one's probes may be taken over by a later run."""

    pid: int
    ticks: str
    boot: str


class Checked(NamedTuple):
    """The orders by server, and by server what is wrong with one: it stands there as None and is not measured."""

    orders: dict[str, order.Order | None]
    bad: dict[str, str]


def check(wanted: Sequence[Wanted]) -> Checked:
    """Hold names and orders against what they may be.

    Raises:
        UserError: a name that cannot be used; the sentence names the server.
    """
    orders: dict[str, order.Order | None] = {}
    bad: dict[str, str] = {}
    for server in wanted:
        runs.check_name(server.name)
        twin = next((n for n in orders if n.casefold() == server.name.casefold() and n != server.name), None)
        if twin:
            raise UserError(f"inventory: {twin} and {server.name} differ only in case: rename one.")
        orders[server.name] = None
        try:
            if server.order is not None:
                orders[server.name] = order.parse(server.order, server.name)
        except UserError as error:
            bad[server.name] = f"{error} Correct audit_order in the inventory and audit this server again."
    return Checked(orders, bad)


def inventory_name(sources: Sequence[str]) -> str:
    """What the run folder's parent is called: the inventory's folder or file, made safe."""
    words = []
    for source in sources:
        path = Path(source)
        stem = path.stem if path.suffix in (".yml", ".yaml", ".ini", ".json", ".toml", ".py") else path.name
        word = path.parent.name if stem in ("hosts", "inventory") and path.parent.name else stem
        words.append("hosts" if "," in source else word)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", "+".join(words)).strip(".-") or "hosts"


def open_run(
    results: Path, inventory: str, wanted: Sequence[Wanted], *, profile: str, of_inventory: int, lang: str | None
) -> Path:
    """A new run folder with everything known before the first server is contacted.

    A server whose order is not understood has ended here: what it would be held against is unknown.

    Raises:
        UserError: a name cannot be used, or the folder cannot be made.
    """
    orders, bad = check(wanted)
    folder, moment = _new_folder(results / inventory)
    info = RunInfo(
        run=folder.name,
        inventory=inventory,
        profile=profile,
        version=__version__,
        started=moment,
        of_inventory=of_inventory,
        nonces={server.name: secrets.token_hex(16) for server in wanted},
        labels={server.name: server.label for server in wanted if server.label},
        lang=lang,
    )
    runs.write(folder / "run.json", info)
    runs.write(folder / "orders.json", orders)
    if _POLICY.exists():
        runs.write_bytes(folder / "policy.yaml", _POLICY.read_bytes())
    for name, sentence in bad.items():
        note(folder, name, "start", "bad_order", sentence)
    return folder


def latest_run(parent: Path) -> Path:
    """The run of an inventory that was opened last.

    Raises:
        UserError: there is none, or it still runs.
    """
    found = sorted(path.parent for path in parent.glob("*/run.json") if RUN_ID.fullmatch(path.parent.name))
    if not found:
        raise UserError(f"{parent}: holds no run to report on. Audit first, without --tags and --skip-tags.")
    if driven(found[-1]):
        raise UserError(
            f"{found[-1]}: this audit still runs and will make its report itself. For an earlier one: "
            "`auditor report RUN`."
        )
    return found[-1]


def claim(folder: Path, pid: int) -> None:
    """Note which process drives this run."""
    runs.write(folder / "controller.json", Controller(pid, _ticks(pid), _boot()))


def driven(folder: Path) -> bool:
    """Whether the process that drives this run still lives."""
    try:
        who = msgspec.json.decode((folder / "controller.json").read_bytes(), type=Controller)
    except (OSError, msgspec.DecodeError):
        return False
    if who.boot != _boot():
        return False
    if not who.ticks:  # a controller without /proc
        with contextlib.suppress(OSError):
            os.kill(who.pid, 0)
            return True
        return False
    return who.ticks == _ticks(who.pid)


def nonce(folder: Path, server: str) -> str | None:
    """The nonce this run sent to a server; None where the run or the server is not known here."""
    try:
        return msgspec.json.decode((folder / "run.json").read_bytes(), type=RunInfo).nonces.get(server)
    except (OSError, msgspec.DecodeError):
        return None


def note(
    folder: Path, server: str, phase: str, reason: str | None = None, detail: str | None = None, /, **details: Detail
) -> State:
    """Write a server's state: where its audit stands or ended, and why. Earlier details stay."""
    before = state(folder, server)
    now = _now()
    new = State(
        phase=phase,
        reason=reason,
        detail=show(detail, 400) if detail else None,
        sha256=before.sha256 if before else None,
        started=before.started if before else now,
        finished=now if reason or phase == "done" else None,
        details={**(before.details if before else {}), **details},
    )
    runs.write(folder / "servers" / server / "state.json", new)
    return new


def state(folder: Path, server: str) -> State | None:
    """The server's state so far; None before its first contact."""
    try:
        return msgspec.json.decode((folder / "servers" / server / "state.json").read_bytes(), type=State)
    except (OSError, msgspec.DecodeError):
        return None


def keep_listing(folder: Path, server: str, when: str, listing: dict[str, list[str]]) -> None:
    """Keep what was on the server `before` or `after`; the first `before` stays, also when a start is repeated."""
    kept = listings(folder, server)
    if when == "after" or when not in kept:
        runs.write(folder / "servers" / server / "listing.json", {**kept, when: listing})


def listings(folder: Path, server: str) -> dict[str, dict[str, list[str]]]:
    """The listings of a server kept so far."""
    try:
        data = (folder / "servers" / server / "listing.json").read_bytes()
        return msgspec.json.decode(data, type=dict[str, dict[str, list[str]]])
    except (OSError, msgspec.DecodeError):
        return {}


def left_behind(folder: Path, server: str, with_packages: bool) -> list[str]:
    """What is on the server after the audit and was not before; a driver that was brought may stay on purpose."""
    kept = listings(folder, server)
    before, after = kept.get("before", {}), kept.get("after", {})
    kinds = sorted(set(after) - (set() if with_packages else {"packages", "modules"}))
    return [f"{kind} {one}" for kind in kinds for one in sorted(set(after[kind]) - set(before.get(kind, ())))]


def keep_record(folder: Path, server: str, data: bytes) -> str:
    """Save a record's bytes as they came; returns their hash. What they hold is judged elsewhere."""
    path = folder / "servers" / server / "record.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    runs.write_bytes(path, data)
    digest = hashlib.sha256(data).hexdigest()
    before = state(folder, server)
    if before:
        runs.write(path.with_name("state.json"), msgspec.structs.replace(before, sha256=digest))
    return digest


def close_run(folder: Path) -> RunInfo:
    """Note the end; a server that a run took over from an earlier one keeps the nonce it was given then."""
    info = msgspec.json.decode((folder / "run.json").read_bytes(), type=RunInfo)
    nonces = dict(info.nonces)
    for server in nonces:
        known = state(folder, server)
        taken = known.details.get("nonce") if known else None
        if isinstance(taken, str):
            nonces[server] = taken
    closed = msgspec.structs.replace(info, nonces=nonces, finished=_now())
    runs.write(folder / "run.json", closed)
    (folder / "controller.json").unlink(missing_ok=True)
    return closed


def counts(states: Mapping[str, State | None]) -> dict[str, int]:
    """How many servers ended in which reason; "done" for those that were measured."""
    out: dict[str, int] = {}
    for one in states.values():
        word = "never_started" if one is None else one.reason or one.phase
        out[word] = out.get(word, 0) + 1
    return out


def _new_folder(parent: Path) -> tuple[Path, str]:
    """Named by the second; two runs begun in one second get two names."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            now = datetime.now(UTC)
            folder = parent / now.strftime("%Y%m%dT%H%M%SZ")
            try:
                folder.mkdir()
                return folder, now.isoformat(timespec="seconds").replace("+00:00", "Z")
            except FileExistsError:
                time.sleep(0.2)
    except OSError as error:
        raise UserError(
            f"{error.filename}: the run folder cannot be made ({error.strerror}). "
            "Free some room or name another place with -e audit_results=DIR."
        ) from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return os.uname().nodename


def _ticks(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
