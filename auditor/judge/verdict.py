"""From findings to one word, and the rules that hold whatever a rule says.

A reject for misallocated or unproven needs two families of sources; one alone is review. From text alone
nothing is accepted and nothing rejected.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from auditor.finding import SEVERITIES, Finding, Verdict
from auditor.judge.view import told_by

_TWO_FAMILIES = ("misallocated", "unproven")
_RANK = {severity: index for index, severity in enumerate(SEVERITIES)}


def families(finding: Finding) -> set[str]:
    """The families of sources a finding's evidence comes from."""
    return {told_by(evidence.source) for evidence in finding.evidence} - {"text"}


def held(finding: Finding) -> Finding:
    """The finding as it may stand: a reject without two families becomes a review."""
    if finding.severity == "reject" and finding.category in _TWO_FAMILIES and len(families(finding)) < 2:
        return msgspec.structs.replace(finding, severity="review")
    return finding


def unique(findings: Iterable[Finding]) -> list[Finding]:
    """One finding per id and subject: the worst stands, with the evidence of all."""
    out: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = (finding.id, finding.subject)
        before = out.get(key)
        if before is None:
            out[key] = finding
            continue
        worst, other = (finding, before) if rank(finding) < rank(before) else (before, finding)
        more = tuple(e for e in other.evidence if e not in worst.evidence)
        out[key] = msgspec.structs.replace(worst, evidence=worst.evidence + more)
    return list(out.values())


def rank(finding: Finding) -> int:
    """0 is the worst severity."""
    return _RANK[finding.severity]


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first; a root before its consequences, the server before its parts."""
    return tuple(sorted(findings, key=_place))


def _place(finding: Finding) -> tuple[int, bool, bool, str, int, str]:
    subject = finding.subject
    return rank(finding), finding.root is not None, subject != "server", finding.id, len(subject), subject


def verdict(findings: Iterable[Finding], missing: bool, text_only: bool = False) -> Verdict:
    """The server's verdict."""
    severities = {finding.severity for finding in findings}
    if text_only:
        return "review" if severities & {"reject", "review"} else "incomplete"
    if "reject" in severities:
        return "reject"
    if missing:
        return "incomplete"
    return "review" if "review" in severities else "accept"
