"""Readings in, findings and verdicts out: pure, streamed, one server in memory at a time.

First every record is judged alone and digested; when all are read, the fleet rules compare the digests.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator

import msgspec

from auditor import catalog as catalogue
from auditor.catalog import Catalog
from auditor.finding import Finding, Judgement, ServerResult
from auditor.judge import case as cases
from auditor.judge import causes, figures, needs, ranking, rule, verdict
from auditor.judge import policy as policies
from auditor.judge.case import Case
from auditor.judge.fleet import Digest, Fleet
from auditor.judge.fleet import digest as digested
from auditor.judge.policy import Policy
from auditor.judge.view import ServerView
from auditor.order import Order
from auditor.records import Record
from auditor.runs import State


class ServerInput(msgspec.Struct, frozen=True):
    """One server as it comes before the judge; `record` is None when none came or it was `refused`.

    `nonce` is what was sent with this audit, None when nothing was; `between` are the times on the controller's clock
    (RFC 3339) from which to which it can have been made, None where nobody knows.
    """

    name: str
    order: Order | None = None
    label: str | None = None
    record: Record | None = None
    refused: str | None = None
    state: State | None = None
    sha256: str | None = None
    text_only: bool = False
    nonce: str | None = None
    between: tuple[str | None, str | None] = (None, None)


def judge(
    source: Callable[[], Iterable[ServerInput]],
    *,
    run: str = "",
    inventory: str = "",
    version: str = "",
    catalog: Catalog | None = None,
    policy: Policy | None = None,
    of_inventory: int | None = None,
    started: str | None = None,
    finished: str | None = None,
) -> Judgement:
    """Judge every server of a run. `source` is called once and read as a stream."""
    catalog = catalog or catalogue.load()
    policy = policy or policies.load()
    results: list[ServerResult] = []
    findings: list[list[Finding]] = []
    digests: list[Digest | None] = []
    with _collector_at_rest():
        for server in source():
            result, found, kept = _guarded(server, catalog, policy)
            results.append(result)
            findings.append(found)
            digests.append(kept)
    fleet = Fleet((d for d in digests if d is not None), policy)
    judged = [
        _closed(result, found, kept, fleet) for result, found, kept in zip(results, findings, digests, strict=True)
    ]
    return Judgement(
        run=run,
        inventory=inventory,
        version=version,
        servers=tuple(ranking.ranked(judged, policy)),
        policy_sha256=policy.sha256,
        catalog_sha256=catalog.sha256,
        weights=policy.weights,
        of_inventory=of_inventory,
        started=started,
        finished=finished,
    )


@contextlib.contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Records are trees without cycles and free themselves; the cycle collector would walk every one of them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _guarded(
    server: ServerInput, catalog: Catalog, policy: Policy
) -> tuple[ServerResult, list[Finding], Digest | None]:
    """`alone`, so that a record nobody foresaw costs its own row and not the others' report."""
    try:
        return alone(server, catalog, policy)
    except Exception as error:  # noqa: BLE001  # the border between one server's data and the whole report
        return _unjudged(server, error), [], None


def _unjudged(server: ServerInput, error: Exception) -> ServerResult:
    bare = ServerResult(
        name=server.name,
        verdict="incomplete",
        label=server.label,
        order=server.order,
        phase=server.state.phase if server.state else None,
        text_only=server.text_only,
        sha256=server.sha256,
    )
    return _failed(bare, error)


def _failed(result: ServerResult, error: Exception) -> ServerResult:
    said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return msgspec.structs.replace(
        result, verdict="incomplete", reason=f"could not be judged: {said}", missing=("judgement",)
    )


def alone(server: ServerInput, catalog: Catalog, policy: Policy) -> tuple[ServerResult, list[Finding], Digest | None]:
    """Everything that one server's record says by itself, and what the fleet keeps of it."""
    view = ServerView(server.record, policy.oldest_method)
    case = cases.build(server.name, view, server.order, catalog, policy)
    case = msgspec.structs.replace(
        case,
        state=server.state,
        refused=server.refused,
        text_only=server.text_only,
        nonce=server.nonce,
        between=server.between,
    )
    found = [finding for each in rule.server_rules() for finding in each(case)]
    rows = figures.gpus(case)
    measured = figures.of_server(case, rows)
    record = server.record
    result = ServerResult(
        name=server.name,
        verdict="incomplete",
        label=server.label,
        order=server.order,
        reason=_reason(server),
        phase=server.state.phase if server.state else None,
        missing=tuple(_missing(case)),
        model=case.model.name if case.model else None,
        gpus=rows,
        level=_level(found),
        profile=record.profile if record else None,
        device=record.device if record else None,
        synthetic=record.synthetic if record else False,
        text_only=server.text_only,
        started=record.started if record else None,
        seconds=record.seconds.total if record else None,
        sha256=server.sha256,
        figures=measured,
        cost=ranking.cost(server.order, measured),
    )
    return result, found, digested(case) if record is not None and not server.text_only else None


def _closed(result: ServerResult, found: list[Finding], kept: Digest | None, fleet: Fleet) -> ServerResult:
    if kept is not None:
        try:
            found = found + [finding for each in rule.fleet_rules() for finding in each(kept, fleet)]
        except Exception as error:  # noqa: BLE001  # the same border: among the others it is still one server's data
            return _failed(result, error)
    standing = verdict.unique(verdict.held(finding) for finding in found)
    joined = verdict.ordered(causes.joined(standing))
    word = verdict.verdict(joined, bool(result.missing), result.text_only)
    return msgspec.structs.replace(result, findings=joined, verdict=word)


def _missing(case: Case) -> Iterator[str]:
    if case.view.record is None:
        yield "record"
        return
    for need in needs.missing(case):
        yield need.need if need.subject == "server" else f"{need.need} of {need.subject}"


def _reason(server: ServerInput) -> str | None:
    if server.refused is not None:
        return f"record refused: {server.refused}"
    state = server.state
    if state is None or state.reason is None or (server.record is not None and state.reason == "never_started"):
        return None if server.record is not None else "no record"
    return f"{state.reason}: {state.detail}" if state.detail else state.reason


def _level(found: Iterable[Finding]) -> str | None:
    levels = [f.parameters.get("level") for f in found if f.id in ("virtualized", "bare-metal")]
    return str(levels[0]) if levels else None
