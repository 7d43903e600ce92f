"""JUnit XML for a CI system: one test case per server. A rejected server fails, an incomplete one is an error."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from auditor.finding import ServerResult
from auditor.report.formats import Sink, Whole
from auditor.report.show import clean, show
from auditor.report.view import Report, Seen, with_consequences
from auditor.report.words import reason_text, word

NAME = "junit"
FILE = "report.junit.xml"


class _Cases:
    def __init__(self, report: Report, path: Path) -> None:
        self.report = report
        self.whole = Whole(path)
        counts = report.verdicts()
        totals = f'tests="{len(report.servers)}" failures="{counts["reject"]}" errors="{counts["incomplete"]}"'
        write = self.whole.file.write
        write('<?xml version="1.0" encoding="UTF-8"?>\n')
        write(f'<testsuites name="auditor" {totals}>\n<testsuite name="gpu-servers" {totals}>\n')
        if report.warning:
            write(f"<properties><property name={_quoted('note')} value={_quoted(report.warning)}/></properties>\n")

    def take(self, seen: Seen) -> None:
        """One server, one case."""
        server, write = seen.server, self.whole.file.write
        where = f"classname={_quoted(seen.provider)} name={_quoted(server.name)}"
        write(f'<testcase {where} time="{server.seconds or 0:.3f}">')
        told = escape(clean("\n".join(self._lines(server))))
        message = _quoted(f"{word(self.report.texts, server.verdict)}: {self._short(server)}")
        if server.verdict == "reject":
            write(f'<failure type="reject" message={message}>{told}</failure>')
        elif server.verdict == "incomplete":
            write(f'<error type="incomplete" message={message}>{told}</error>')
        elif told:
            write(f"<system-out>{told}</system-out>")
        write("</testcase>\n")

    def end(self) -> list[Path]:
        """Close the suites."""
        self.whole.file.write("</testsuite>\n</testsuites>\n")
        return self.whole.done()

    def _short(self, server: ServerResult) -> str:
        titles = [self.report.rendered(finding).title for finding in server.roots[:3]]
        return "; ".join(titles) or reason_text(self.report.texts, server.reason)

    def _lines(self, server: ServerResult) -> list[str]:
        lines = []
        for finding, follows in with_consequences(server):
            said = self.report.rendered(finding)
            mark = "  " if follows else ""
            lines.append(
                f"{mark}{finding.severity} {finding.id} {show(finding.subject)}: "
                f"{said.title}; expected {said.expected}; got {said.observed}"
            )
        return lines


def start(report: Report, path: Path) -> Sink:
    """Begin the file."""
    return _Cases(report, path)


def _quoted(text: str) -> str:
    return quoteattr(show(text, 500))
