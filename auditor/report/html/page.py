"""The page of a whole report, and the page of one server that can be sent to its provider alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from auditor.finding import VERDICTS, ServerResult
from auditor.judge.texts import N_
from auditor.report import html
from auditor.report.formats import Whole
from auditor.report.html import models
from auditor.report.letter import letters
from auditor.report.show import show
from auditor.report.summary import sections, what_was_audited
from auditor.report.unmeasured import Gaps
from auditor.report.view import Report, Seen, worst_first
from auditor.report.words import MARKS, word
from auditor.runs import LOOSE

MOST_DETAILS = 1000
MOST_DRAWN = 40
MOST_FINDINGS = 5000
_TOLD_PROVIDER = {
    "reject": N_("not accepted before it is put right or replaced"),
    "incomplete": N_("a reading that the verdict needs is missing: the audit has to be repeated"),
    "review": N_("usable, but something must be explained or put right"),
    "accept": N_("as ordered, as far as it was measured"),
}


class Page:
    """The page of a whole report: servers are gathered as they pass, written worst first."""

    def __init__(self, report: Report, path: Path) -> None:
        self.report, self.path = report, path
        ordered = worst_first(report.servers)
        self.place = {id(server): number for number, server in enumerate(ordered)}
        shown = report.shown_in_charts(lambda server: bool(server.figures), MOST_DRAWN)
        self.drawn = {id(server) for server in shown}
        self.rows: list[tuple[int, list[dict[str, Any]]]] = []
        self.details: list[tuple[int, str]] = []
        self.gaps = Gaps()
        self._details = template(report, "details.html")

    def take(self, seen: Seen) -> None:
        """Keep a server's findings and its details as text."""
        self.gaps.take(seen)
        place = self.place[id(seen.server)]
        if seen.server.findings:
            self.rows.append((place, list(models.finding_rows(self.report, seen, _anchor(place), True))))
        if place < MOST_DETAILS:
            one = models.details(self.report, seen, _anchor(place), id(seen.server) in self.drawn)
            self.details.append((place, self._details(one=one)))

    def end(self) -> list[Path]:
        """Write the page."""
        report = self.report
        whole = Whole(self.path)
        write = whole.file.write
        write(template(report, "head.html")(**_head(report, self.place, self.gaps)))
        rows = [row for _, group in sorted(self.rows, key=lambda one: one[0]) for row in group]
        left = max(0, len(rows) - MOST_FINDINGS)
        write(template(report, "findings.html")(rows=rows[:MOST_FINDINGS], left=left))
        whole.file.writelines(text for _, text in sorted(self.details))
        write(template(report, "tail.html")(left=max(0, len(self.place) - MOST_DETAILS)))
        return whole.done()


class ServerPage:
    """The page of one server: nothing in it speaks of another."""

    def __init__(self, report: Report, path: Path, server: str) -> None:
        self.report, self.path, self.server = report, path, server
        self.seen: Seen | None = None

    def take(self, seen: Seen) -> None:
        """Keep the one server."""
        if seen.server.name == self.server and self.seen is None:
            self.seen = seen

    def end(self) -> list[Path]:
        """Write its page."""
        report, seen = self.report, self.seen
        if seen is None:
            return []
        one = models.details(report, seen, "server", True)
        one["meaning"] = report.texts._(_TOLD_PROVIDER[seen.server.verdict])
        written = letters(report, seen.server.name)
        text = "\n\n".join([written[0][0], *written[0][1]]) if written else ""
        whole = Whole(self.path)
        whole.file.write(
            template(report, "server.html")(
                one=one,
                rows=list(models.finding_rows(report, seen, "server", False)),
                letter=text,
                readings=list(models.reading_rows(seen)),
            )
        )
        return whole.done()


def template(report: Report, name: str) -> Any:
    """A template with what every page needs already in its context."""
    found = html.environment().get_template(name)
    given: dict[str, Any] = {
        "_": report.texts._,
        "word": lambda key: word(report.texts, key),
        "mark": MARKS.__getitem__,
        "html_lang": {"zh": "zh-Hans"}.get(report.texts.code, report.texts.code),
        "policy": html.policy(),
        "style": html.safe_asset("style.css"),
        "script": html.safe_asset("page.js"),
        "subtitle": report.subtitle,
        "warning": report.warning,
    }
    return lambda **more: found.render({**given, **more})


def _head(report: Report, place: dict[int, int], gaps: Gaps) -> dict[str, Any]:
    counts = report.verdicts()
    ordered: list[ServerResult] = sorted(report.servers, key=lambda server: place[id(server)])
    return {
        "inventories": ", ".join(
            dict.fromkeys(show(p.judgement.inventory, 60) for p in report.parts if p.judgement.run != LOOSE)
        ),
        "verdicts": [{"key": verdict, "count": f"{counts[verdict]:,}"} for verdict in VERDICTS],
        "facts": list(what_was_audited(report)),
        "sections": sections(report, gaps) if report.servers else [],
        "server_heads": models.server_heads(report),
        "servers": [models.server_row(report, server, _anchor(place[id(server)])) for server in ordered],
    }


def _anchor(place: int) -> str:
    """No part of a page's structure is made of a server's text (threat R10)."""
    return f"server-{place + 1}"
