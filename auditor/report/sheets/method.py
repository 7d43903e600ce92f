"""Method: how the figures came about: versions, lines and weights with their sources, rules, every metric."""

from __future__ import annotations

from collections.abc import Iterator

from auditor import catalog
from auditor.judge import policy as policies
from auditor.judge import rule
from auditor.judge.policy import Policy
from auditor.judge.texts import N_
from auditor.report import sheets
from auditor.report.metrics import documented
from auditor.report.sheets import Row
from auditor.report.show import show
from auditor.report.units import digits
from auditor.report.view import Judged, Report, Seen
from auditor.report.words import NEEDS, word
from auditor.report.workbook import Book, Column

ORDER = 130
TITLE = N_("Method")
EMPTY = N_("always there")
NOTE = N_("How the figures of this workbook were made and what they were held against.")
COLUMNS = (
    Column(N_("Topic"), "text", (24, 30)),
    Column(N_("What"), "wrap", (42, 42)),
    Column(N_("How"), "wrap", (76, 76)),
    Column(N_("Value"), "text", (12, 16)),
    Column(N_("Unit shown"), "text", (11, 14)),
    Column(N_("Source"), "wrap", (60, 60)),
)


class _Method:
    def __init__(self, book: Book, report: Report) -> None:
        self.book, self.report = book, report

    def take(self, seen: Seen) -> None:
        """Method speaks of the whole."""

    def end(self) -> None:
        """Written last, when it is known which sheets were left out."""
        texts = self.report.texts
        table = sheets.Table(self.book, __name__, COLUMNS, note=NOTE)
        for part in self.report.parts:
            table.fill(_run(self.report, part))
        for module in sheets.modules():
            if module.ORDER != ORDER and not self.book.has(module.ORDER):
                table.add((texts._(N_("Sheet left out")), texts._(module.TITLE), texts._(module.EMPTY), *_BLANK))
        for topic in (_how, _rules, _metrics, _published):
            table.fill(topic(self.report))


_BLANK = (None, None, None)
WAYS = (
    (
        N_("Verdict"),
        N_("reject if any finding rejects; else incomplete if a needed reading is missing; else review; else accept"),
    ),
    (N_("Two families of sources"), N_("a reject for a wrong delivery needs two of: driver, kernel, measurement")),
    (
        N_("Delivered PFLOP-hour"),
        N_("price per hour ÷ the sum over the server's GPUs of the sustained bf16 rate, all GPUs at work, in PFLOPS"),
    ),
    (N_("Month"), N_("730 hours")),
    (N_("Bus bandwidth"), N_("algorithm bandwidth × 2(n−1)/n for all-reduce over n ranks")),
    (N_("Spread"), N_("standard deviation of the repeats over their mean")),
    (N_("Units"), N_("GB, GB/s and TFLOPS count in thousands (10⁹, 10¹²); GiB counts 2³⁰ bytes")),
)


def start(book: Book, report: Report) -> _Method:
    """The topics one below the other."""
    return _Method(book, report)


def _run(report: Report, part: Judged) -> Iterator[Row]:
    """Which run by which version, its lines, weights and needs."""
    texts, judgement = report.texts, part.judgement
    topic = texts._(N_("Run"))
    yield (topic, report.title(judgement), f"auditor {judgement.version}", *_BLANK)
    yield (topic, texts._(N_("Policy in force, SHA-256")), judgement.policy_sha256, *_BLANK)
    yield (topic, texts._(N_("GPU catalogue, SHA-256")), judgement.catalog_sha256, *_BLANK)
    policy = _policy(part)
    for use, weights in judgement.weights.items():
        shares = texts.listed(f"{texts._(PARTS.get(part, part))} {share:.0%}" for part, share in weights.items())
        yield (texts._(N_("Score weights")), word(texts, use), shares, None, None, "policy.yaml")
    for profile, needs in policy.needed.items():
        listed = texts.listed(texts._(NEEDS.get(need, need)) for need in needs)
        yield (texts._(N_("Needed for a verdict")), profile, listed, None, None, "policy.yaml")
    for line_name in policy.lines.__struct_fields__:
        line = getattr(policy.lines, line_name)
        cost = texts._(N_("False alarms: {cost}"), cost=texts._(line.cost)) if line.cost else None
        yield (texts._(N_("Threshold")), line_name, cost, digits(line.value), None, texts._(line.source))


def _policy(part: Judged) -> Policy:
    own = part.run.folder / "policy.yaml" if part.run else None
    return policies.read(own if own and own.exists() else None)


PARTS = {
    "compute": N_("compute"),
    "collectives": N_("collectives"),
    "memory": N_("memory"),
    "host_copy": N_("host copies"),
    "steadiness": N_("steadiness"),
}


def _how(report: Report) -> Iterator[Row]:
    texts = report.texts
    for what, how in WAYS:
        yield (texts._(N_("How it is counted")), texts._(what), texts._(how), *_BLANK)


def _rules(report: Report) -> Iterator[Row]:
    """Every finding there is and what its rule decides."""
    texts = report.texts
    for finding_id, text in sorted(rule.texts().items()):
        decides = " ".join(rule.docstring(finding_id).split())
        yield (texts._(N_("Rule")), f"{finding_id}: {texts._(text.title)}", texts._(decides), *_BLANK)


def _metrics(report: Report) -> Iterator[Row]:
    texts = report.texts
    for metric in documented():
        how = texts._(metric.meaning)
        if metric.conditions:
            how += f" [{texts._(metric.conditions)}]"
        yield (texts._(N_("Metric")), metric.name, how, metric.subject, metric.unit, metric.sources)


def _published(report: Report) -> Iterator[Row]:
    """Where the published figures come from that a server is held against."""
    for key, citation in catalog.load().achievable.sources.items():
        yield (report.texts._(N_("Published figures")), key, show(citation, 2000), *_BLANK)
