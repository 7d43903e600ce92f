"""From a run folder, or a heap of files, to a judgement: reads records, adds what attachments say, judges."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from auditor import __version__, reading, runs
from auditor.errors import UserError
from auditor.finding import Judgement
from auditor.judge import ServerInput, judge
from auditor.judge import policy as policies
from auditor.order import Order, Orders
from auditor.records import Reading, Record
from auditor.runs import Run, RunInfo, State


class Judged(msgspec.Struct, frozen=True):
    """A judgement with its way back to the records on disk; `unanswered` servers are in ORDER.yml and in no record."""

    judgement: Judgement
    run: Run | None
    paths: dict[str, Path]
    unanswered: tuple[str, ...] = ()

    def record(self, name: str) -> Record | None:
        """One server's record, read again from disk; None when none came or it is refused."""
        path = self.paths.get(name)
        if path is None or not path.exists():
            return None
        found = reading.read_file(path)
        return with_attachments(found.record) if isinstance(found, reading.Read) else None


def judge_run(folder: Path) -> Judged:
    """Judge a run folder; every server of its orders gets a row.

    Raises:
        UserError: the folder is no run, or one of its own files is damaged.
    """
    run = runs.open_run(folder)
    own = folder / "policy.yaml"
    policy = policies.read(own if own.exists() else None)
    judgement = judge(
        lambda: _of_run(run),
        run=run.info.run,
        inventory=run.info.inventory,
        version=__version__,
        policy=policy,
        of_inventory=run.info.of_inventory,
        started=run.info.started,
        finished=run.info.finished,
    )
    return Judged(judgement, run, {name: run.record_path(name) for name in run.orders})


def judge_heap(files: Sequence[Path], orders: Orders | None = None) -> Judged:
    """Judge records that came another way; a server is named by its record, else by its file.

    A server that has an order of its own and no record is a row too: `unanswered` names it.

    Raises:
        UserError: no file was given, or two records are of one server.
    """
    if not files:
        raise UserError("no record was named: give a run folder or the record files.")
    paths: dict[str, Path] = {}
    for path in files:
        name = _name(path)
        if name in paths:
            raise UserError(f"{path}: a record of the server {name} was already given by {paths[name]}; keep one.")
        paths[name] = path
    orders = orders or Orders()
    unanswered = tuple(name for name in orders.servers if name not in paths)
    judgement = judge(
        lambda: itertools.chain(_of_files(paths, orders), _ordered_alone(unanswered, orders)),
        run=runs.LOOSE,
        inventory=runs.LOOSE,
        version=__version__,
        of_inventory=len(paths) + len(unanswered),
    )
    return Judged(judgement, None, paths, unanswered)


def with_attachments(record: Record) -> Record:
    """The record with the readings that `auditor.readers.attachments` finds in what foreign tools wrote."""
    if not record.attachments:
        return record
    more = _attachment_readings()(record)
    return dataclasses.replace(record, readings=record.readings + tuple(more)) if more else record


def _attachment_readings() -> Callable[[Record], Iterable[Reading]]:
    found: Callable[[Record], Iterable[Reading]] = importlib.import_module("auditor.readers.attachments").readings
    return found


# No record can be older than the project; where no controller noted an audit's times this is all that is known.
_EARLIEST = "2025-01-01T00:00:00Z"


def _of_run(run: Run) -> Iterator[ServerInput]:
    for name, order in run.orders.items():
        yield _input(name, run.record_path(name), order, run)


def _of_files(paths: dict[str, Path], orders: Orders) -> Iterator[ServerInput]:
    for name, path in paths.items():
        yield _input(name, path, orders.for_server(name), None)


def _ordered_alone(names: Iterable[str], orders: Orders) -> Iterator[ServerInput]:
    for name in names:
        yield ServerInput(name, orders.for_server(name), state=State("collect", "no_record_given"))


def _input(name: str, path: Path, order: Order | None, run: Run | None) -> ServerInput:
    state = run.states[name] if run else None
    label = run.info.labels.get(name) if run else None
    if run is not None and not path.exists():
        return ServerInput(name, order, label, state=state)
    found = reading.read_file(path)
    if isinstance(found, reading.Refused):
        return ServerInput(name, order, label, refused=str(found), state=state, sha256=found.sha256)
    nonce = run.info.nonces.get(name) if run else None
    between = _between(run.info, state) if run else (_EARLIEST, _now())
    record = with_attachments(found.record)
    return ServerInput(name, order, label, record, state=state, sha256=found.sha256, nonce=nonce, between=between)


def _between(info: RunInfo, state: State | None) -> tuple[str, str]:
    """When the controller first met the server and when it was done with it, by the controller's own clock."""
    started, finished = (state.started, state.finished) if state else (None, None)
    return started or info.started, finished or info.finished or _now()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _name(path: Path) -> str:
    found = reading.read_file(path)
    name = found.record.server if isinstance(found, reading.Read) else path.stem
    return name if runs.SERVER_NAME.fullmatch(name) else path.stem
