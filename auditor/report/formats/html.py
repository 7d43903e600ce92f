"""The HTML page: one self-contained file for a whole report, or for one server alone."""

from __future__ import annotations

from pathlib import Path

from auditor.report.formats import Sink
from auditor.report.html.page import Page, ServerPage
from auditor.report.view import Report

NAME = "html"
FILE = "report.html"


def start(report: Report, path: Path, server: str | None = None) -> Sink:
    """Begin the page; with `server` the page of that one server."""
    return ServerPage(report, path, server) if server is not None else Page(report, path)
