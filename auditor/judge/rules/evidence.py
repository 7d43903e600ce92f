"""Missing evidence: absence is a finding, never health. Also records that answer for somebody else."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from auditor.finding import Finding, Severity
from auditor.judge import needs
from auditor.judge.case import Case
from auditor.judge.rule import rule
from auditor.judge.texts import N_, Text
from auditor.records import Record

_UNREACHED = ("reach",)
IN_USE = "in use by"


@rule
def unreachable(case: Case) -> Iterator[Finding]:
    """The server never answered, or its audit ended before a record was made."""
    state = case.state
    if case.view.record is not None or case.refused is not None:
        return
    phase = state.phase if state else "reach"
    reason = state.reason if state else None
    told = ": ".join(word for word in (reason, state.detail if state else None) if word)
    id = "server-unreachable" if phase in _UNREACHED else "not-measured"
    details = {"phase": phase, "reason": told or phase}
    if id == "not-measured":
        details["what"] = N_("every probe")
    yield case.finding(
        id, "incomplete", "advice", "server", "evidence", "state of the audit on the controller", details
    )


@rule
def refused(case: Case) -> Iterator[Finding]:
    """A record came that is not accepted: too large, malformed, of a newer schema."""
    if case.refused is not None:
        yield case.finding(
            "record-refused",
            "incomplete",
            "advice",
            "server",
            "evidence",
            "the reader of records",
            {"reason": case.refused},
        )


@rule
def of_another(case: Case) -> Iterator[Finding]:
    """A record that calls itself another server's, or that was not made for this audit."""
    record = case.view.record
    if record is None or case.text_only:
        return
    if record.server != case.server:
        yield case.finding(
            "name-differs",
            "unproven",
            "review",
            "server",
            "contradiction",
            "the inventory against the record",
            {"claimed": record.server, "asked": case.server},
        )
    if case.nonce is not None and record.nonce != case.nonce:
        yield case.finding(
            "record-stale",
            "unproven",
            "review",
            "server",
            "contradiction",
            "the nonce sent with this audit",
            {"started": record.started},
        )
    elif (apart := _clock_apart(case, record)) is not None:
        yield case.finding(
            "clock-differs",
            "unproven",
            "advice",
            "server",
            "contradiction",
            "the server's clock against the controller's",
            {"started": record.started, "measured": apart, "expected": case.lines.clock_apart.value},
        )


def _clock_apart(case: Case, record: Record) -> float | None:
    """By how many seconds the record's times lie outside of the audit, where that is more than the line."""
    started, earliest, latest = (_moment(text) for text in (record.started, *case.between))
    if started is None:
        return None
    with contextlib.suppress(OverflowError):
        ended = started + timedelta(seconds=record.seconds.total)
        early = (earliest - started).total_seconds() if earliest else 0.0
        late = (ended - latest).total_seconds() if latest else 0.0
        return max(early, late) if max(early, late) > case.lines.clock_apart.value else None
    return None


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@rule
def in_use(case: Case) -> Iterator[Finding]:
    """A GPU that somebody works on is not measured: we are guests."""
    for gpu in case.gpus:
        row = next((r for r in case.view.all_rows() if r.subject == gpu and r.reason and IN_USE in r.reason), None)
        if row is not None:
            yield case.finding(
                "gpu-in-use",
                "incomplete",
                "advice",
                gpu,
                "evidence",
                "the probe's own manners",
                {"reason": row.reason},
                (case.view.one("gpu_identity_processes_total", gpu),),
            )


@rule
def not_measured(case: Case) -> Iterator[Finding]:
    """A needed reading is missing (advice; the verdict is incomplete), or another probe gave none (info)."""
    if case.text_only:  # a pasted text is never complete: one row says what it leaves open
        left = [need.need for need in needs.missing(case)]
        if left:
            yield _missing(case, "server", "advice", left, [N_("texts were read, nothing was measured")])
        return
    wanted: dict[str, list[needs.Missing]] = defaultdict(list)
    for need in needs.missing(case):
        wanted[need.subject].append(need)
    known = case.state.details if case.state else {}
    cause = [f"no_{what}: {known[f'{what}_missing']}" for what in ("driver", "torch") if known.get(f"{what}_missing")]
    for subject, needed in wanted.items():
        yield _missing(case, subject, "advice", [n.need for n in needed], [*(n.reason for n in needed), *cause])
    failed: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in case.view.all_rows():
        if row.status in ("failed", "timed_out", "skipped") and row.subject not in wanted:
            failed[row.subject].append((row.probe, f"{row.status}: {row.reason}" if row.reason else row.status))
    for subject, probes in failed.items():
        if not any(need.probe == name for need in wanted.get("server", ()) for name, _ in probes):
            yield _missing(case, subject, "info", [name for name, _ in probes], [reason for _, reason in probes])


def _missing(case: Case, subject: str, severity: Severity, what: list[str], reasons: list[str]) -> Finding:
    return case.finding(
        "not-measured",
        "incomplete",
        severity,
        subject,
        "evidence",
        "policy.yaml, needed" if severity == "advice" else "status of the probes",
        {"what": ", ".join(dict.fromkeys(what)), "reason": "; ".join(dict.fromkeys(reasons))},
    )


CAUSES = {
    "not-measured": ("gpu-in-use", "record-refused", "server-unreachable"),
}

TEXTS = {
    "server-unreachable": Text(
        N_("The server could not be reached"),
        N_("{reason}"),
        N_("an answer over SSH"),
        N_("Nothing is known of this server. It is listed as incomplete, never as healthy."),
        N_("The server {server} could not be reached ({reason}). Please check that it is up and accepts our key."),
    ),
    "record-refused": Text(
        N_("The server's record was refused"),
        N_("{reason}"),
        N_("a record of the known schema within its limits"),
        N_("What the server sent is not used. The raw file is kept in the run folder."),
    ),
    "not-measured": Text(
        N_("Not measured"),
        N_("{what}: {reason}"),
        N_("a reading with a value"),
        N_("Absence is not health: without these readings nothing is said about them."),
    ),
    "gpu-in-use": Text(
        N_("The GPU is in use"),
        N_("{reason}"),
        N_("an idle GPU during the audit"),
        N_("A busy GPU is left alone. Audit again when it is free, or allow it with --allow-busy."),
    ),
    "name-differs": Text(
        N_("The record names another server"),
        N_("the record calls itself {claimed}"),
        N_("{asked}, as the inventory has it"),
        N_("A record that answers for another machine proves nothing about this one."),
        N_("The audit of {asked} returned a record of {claimed}. Please explain which machine was measured."),
    ),
    "clock-differs": Text(
        N_("The server's clock is wrong"),
        N_("the record says that it was started at {started}: {measured:s} outside of the audit"),
        N_("within {expected:s} of the controller's clock"),
        N_(
            "Durations and rates are not touched: they come from a clock that only counts. But times in the server's "
            "logs cannot be trusted, certificates and licences may fail, and a stored record looks the same."
        ),
        N_("The clock of {server} is {measured:s} off. Please let it follow a time server (NTP)."),
    ),
    "record-stale": Text(
        N_("The record was not made for this audit"),
        N_("its nonce is not the one that was sent (started {started})"),
        N_("the nonce of this audit"),
        N_("The figures may be stored ones, replayed."),
        N_("The record returned for {server} was not made for this audit. Please let the audit run unaltered."),
    ),
}
