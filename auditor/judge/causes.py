"""Findings that explain each other are joined, so that a reader sees one problem and not five.

A rule module says in `CAUSES` which findings may explain its own. A cause must be at least as severe as
its effect (an advice never hides a reject) and speak of the same subject or of one that contains or feeds it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from auditor.finding import Finding
from auditor.judge import rule
from auditor.judge.verdict import rank


def joined(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with `root` set to the key of the finding that explains them in the end."""
    explained = rule.causes()
    parent: dict[str, Finding] = {}
    for effect in findings:
        cause = _cause(effect, findings, explained.get(effect.id, ()))
        if cause is not None:
            parent[effect.key] = cause
    out = []
    for finding in findings:
        root = _top(finding, parent)
        out.append(finding if root is finding else msgspec.structs.replace(finding, root=root.key))
    return out


def _cause(effect: Finding, findings: Sequence[Finding], ids: Sequence[str]) -> Finding | None:
    for id in ids:
        fitting = [f for f in findings if f.id == id and rank(f) <= rank(effect) and _feeds(f.subject, effect.subject)]
        if fitting:
            return min(fitting, key=lambda f: (f.subject != effect.subject, rank(f), f.subject))
    return None


def _feeds(cause: str, effect: str) -> bool:
    """A cause on the same subject, on the whole server, on a part of it, or on a member of a pair."""
    if cause == effect or "server" in (cause, effect):
        return True
    return bool(set(_parts(cause)) & set(_parts(effect)))


def _parts(subject: str) -> list[str]:
    return [part.split("/", 1)[0] for part in subject.split("-")]


def _top(finding: Finding, parent: dict[str, Finding]) -> Finding:
    seen = {finding.key}
    top = finding
    while top.key in parent and parent[top.key].key not in seen:
        top = parent[top.key]
        seen.add(top.key)
    return top
