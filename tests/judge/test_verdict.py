"""From findings to a verdict, and what holds whatever a rule says."""

from __future__ import annotations

import itertools

import pytest

from auditor.finding import Category, Evidence, Finding, Severity
from auditor.judge import causes, verdict


def finding(
    id: str = "x", severity: Severity = "review", category: Category = "degraded", subject: str = "server",
    sources: tuple[str, ...] = (),
) -> Finding:  # fmt: skip
    """A finding with evidence of these sources."""
    evidence = tuple(Evidence(f"m{n}", subject, 1, source) for n, source in enumerate(sources))
    return Finding(id, category, severity, "s", subject, "evidence", "test", {}, evidence)


@pytest.mark.parametrize(
    ("severities", "missing", "text_only", "word"),
    [
        ((), False, False, "accept"),
        (("info", "advice"), False, False, "accept"),
        (("review",), False, False, "review"),
        (("review",), True, False, "incomplete"),
        (("reject", "review"), True, False, "reject"),
        ((), True, False, "incomplete"),
        (("reject",), True, True, "review"),
        (("review",), False, True, "review"),
        (("advice",), False, True, "incomplete"),
        ((), False, True, "incomplete"),
    ],
)
def test_verdicts(severities: tuple[Severity, ...], missing: bool, text_only: bool, word: str) -> None:
    """Reject over incomplete over review over accept; from text alone neither accept nor reject."""
    assert verdict.verdict([finding(severity=s) for s in severities], missing, text_only) == word


@pytest.mark.parametrize(
    ("category", "sources", "severity"),
    [
        ("misallocated", ("driver/nvml", "driver/cuda"), "review"),
        ("misallocated", ("driver/nvml", "kernel/sysfs"), "reject"),
        ("unproven", ("driver/nvml", "measured"), "reject"),
        ("unproven", ("kernel/sysfs",), "review"),
        ("unproven", (), "review"),
        ("misallocated", ("text/nvidia-smi", "driver/nvml"), "review"),
        ("misallocated", ("text/nvidia-smi", "text/dmesg"), "reject"),
        ("misallocated", ("text/hearsay", "driver/nvml"), "review"),
        ("virtualized", ("kernel/cpuid",), "reject"),
        ("degraded", (), "reject"),
    ],
)
def test_two_families_for_the_hard_accusations(category: Category, sources: tuple[str, ...], severity: str) -> None:
    """Misallocated and unproven need two families of sources; a text counts as the tool that printed it."""
    assert verdict.held(finding(severity="reject", category=category, sources=sources)).severity == severity


def test_one_finding_per_id_and_subject() -> None:
    """Two of one kind on one subject are one: the worst stands, the evidence of both is kept."""
    kept = verdict.unique(
        [
            finding(severity="advice", sources=("driver/nvml",)),
            finding(severity="reject", sources=("measured",)),
            finding(severity="info"),
            finding(subject="gpu0"),
        ]
    )
    assert [(f.severity, f.subject, len(f.evidence)) for f in kept] == [("reject", "server", 2), ("review", "gpu0", 0)]


def test_worst_first_roots_before_consequences() -> None:
    """The order a report shows: severity, root, server before its parts, id, then number."""
    import msgspec

    given = [
        finding("b", "info"),
        finding("a", "reject", subject="gpu10"),
        finding("a", "reject", subject="gpu2"),
        msgspec.structs.replace(finding("a", "reject"), root="s:b:server"),
        finding("z", "reject"),
    ]
    for shuffled in itertools.permutations(given):
        shown = [(f.id, f.subject, f.root) for f in verdict.ordered(shuffled)]
        assert shown == [
            ("z", "server", None),
            ("a", "gpu2", None),
            ("a", "gpu10", None),
            ("a", "server", "s:b:server"),
            ("b", "server", None),
        ]


def roots(*findings: Finding) -> dict[str, str | None]:
    """Each finding's root by its id and subject."""
    return {f"{f.id}:{f.subject}": f.root for f in causes.joined(findings)}


def test_chains_end_at_their_first_cause() -> None:
    """Virtualized → NVLink missing → slow all-reduce is one root with two consequences."""
    joined = roots(
        finding("allreduce-below-floor"), finding("nvlink-missing", "reject"), finding("virtualized", "reject")
    )
    assert joined == {
        "allreduce-below-floor:server": "s:virtualized:server",
        "nvlink-missing:server": "s:virtualized:server",
        "virtualized:server": None,
    }


def test_a_milder_cause_explains_nothing() -> None:
    """An advice never hides a reject."""
    assert roots(finding("nvlink-missing", "reject"), finding("virtualized", "advice"))["nvlink-missing:server"] is None


def test_a_cause_must_feed_its_effect() -> None:
    """A hot gpu0 does not explain a slow gpu1; it explains gpu0, its pairs and the server."""
    hot = finding("power-brake", "reject", subject="gpu0")
    assert roots(hot, finding("slower-than-siblings", subject="gpu1"))["slower-than-siblings:gpu1"] is None
    assert roots(hot, finding("slower-than-siblings", subject="gpu0"))["slower-than-siblings:gpu0"]
    assert roots(hot, finding("matmul-low", subject="server"))["matmul-low:server"] == "s:power-brake:gpu0"
    link = finding("power-brake", "reject", subject="gpu0/link3")
    assert roots(link, finding("peer-copy-low", subject="gpu0-gpu1"))["peer-copy-low:gpu0-gpu1"]
    assert roots(link, finding("peer-copy-low", subject="gpu2-gpu1"))["peer-copy-low:gpu2-gpu1"] is None


def test_the_cause_on_the_same_subject_comes_first() -> None:
    """Where several GPUs have the cause, each effect hangs under its own."""
    both = [finding("power-brake", "reject", subject=f"gpu{n}") for n in (0, 1)]
    joined = roots(*both, finding("clock-locked", subject="gpu1"))
    assert joined["clock-locked:gpu1"] == "s:power-brake:gpu1"


def test_circles_end() -> None:
    """Two findings that name each other as cause do not turn for ever: both keep a place."""
    joined = roots(finding("hw-slowdown-only"), finding("power-brake"), finding("acs-on"), finding("p2p-disabled"))
    assert joined["p2p-disabled:server"] == "s:acs-on:server"
    assert joined["acs-on:server"] is None
