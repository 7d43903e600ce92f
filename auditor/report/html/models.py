"""What the templates print: plain values in the reader's language, made from the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from auditor.finding import SEVERITIES, VERDICTS, Finding, Gpu, ServerResult
from auditor.judge.texts import N_
from auditor.report.figures import exact
from auditor.report.html import svg
from auditor.report.html.charts import charts
from auditor.report.ordered import order_text
from auditor.report.paths import matrix, tint
from auditor.report.show import show
from auditor.report.units import UNITS, amount, reading_text, with_unit
from auditor.report.unmeasured import ending_text, left_out, unmeasured
from auditor.report.view import Report, Seen, conditions_text, with_consequences
from auditor.report.words import missing_text, reason_text, span, word

_NO_BAR = Markup("")


@dataclass(frozen=True)
class Cell:
    """One cell of a table: what is shown, and the figure it is sorted by."""

    text: str
    value: float | str = ""
    numeric: bool = False
    mark: str = ""
    bar: Markup = _NO_BAR


@dataclass(frozen=True)
class Head:
    """One column's header."""

    title: str
    numeric: bool = False


# title, unit, and the figure of `ServerResult.figures`
SERVER_FIGURES = (
    (N_("bf16 a GPU, median"), "TFLOPS", "matmul_bf16_sustained"),
    (N_("Memory read a GPU, median"), "GB/s", "memory_read"),
    (N_("All-reduce bus bandwidth"), "GB/s", "allreduce_busbw"),
    (N_("Hottest GPU"), "°C", "celsius_max"),
)
GPU_FIGURES = (
    (N_("bf16 sustained"), "TFLOPS", "matmul_bf16_sustained"),
    (N_("fp32 sustained"), "TFLOPS", "matmul_fp32_sustained"),
    (N_("Memory read"), "GB/s", "memory_read"),
    (N_("Host to GPU"), "GB/s", "h2d"),
    (N_("GPU to host"), "GB/s", "d2h"),
    (N_("NVLinks up"), "int", "nvlinks_active"),
    (N_("Hottest"), "°C", "celsius_max"),
    (N_("Mean power"), "W", "watts_mean"),
)
_MOST_EVIDENCE = 3


def figure(value: float | None, unit: str, mark: str = "", bar: Markup = _NO_BAR) -> Cell:
    """A figure in its unit; nothing where it was not measured."""
    if value is None:
        return Cell("", "", True)
    return Cell(amount(value, unit), round(value / UNITS[unit].factor, 4), True, mark, bar)


def heads(report: Report, columns: tuple[tuple[str, str, str], ...]) -> list[Head]:
    """The figures' headers with their units."""
    out = []
    for title, unit, _ in columns:
        label = UNITS[unit].label
        text = report.texts._(title)
        out.append(Head(f"{text} ({label})" if label else text, True))
    return out


def server_row(report: Report, server: ServerResult, anchor: str) -> dict[str, Any]:
    """A server's line in the table of all servers."""
    cost = server.cost
    ranks = [score.rank for score in server.scores if score.rank is not None]
    cells = [
        Cell(why(report, server)),
        Cell(order_text(report.texts, server.order)),
        Cell(show(server.model or "")),
        figure(float(len(server.gpus)) if server.gpus else None, "int"),
        *(figure(server.figures.get(name), unit) for _, unit, name in SERVER_FIGURES),
        figure(float(ranks[0]) if ranks else None, "int"),
        Cell(report.texts.money(cost.per_pflop_hour, cost.currency), cost.per_pflop_hour, True)
        if cost and cost.per_pflop_hour is not None
        else Cell("", "", True),
    ]
    rank = VERDICTS.index(server.verdict)
    return {"name": report.name(server), "verdict": server.verdict, "rank": rank, "anchor": anchor, "cells": cells}


def server_heads(report: Report) -> list[Head]:
    """The headers of that table."""
    _ = report.texts._
    first = [Head(_(N_("Server"))), Head(_(N_("Verdict"))), Head(_(N_("Why"))), Head(_(N_("Ordered")))]
    more = [Head(_(N_("GPU model found"))), Head(_(N_("GPUs found")), True)]
    last = [Head(_(N_("Rank")), True), Head(_(N_("Cost per delivered PFLOP-hour")), True)]
    return [*first, *more, *heads(report, SERVER_FIGURES), *last]


def why(report: Report, server: ServerResult) -> str:
    """The verdict in a few words."""
    texts = report.texts
    parts = [reason_text(texts, server.reason)] if server.reason else []
    parts += [report.rendered(f).title for f in server.roots if f.severity in ("reject", "review")][:3]
    if not parts and server.missing:
        parts.append(texts._(N_("not measured: {names}"), names=missing_text(texts, server.missing)))
    return texts.strung(parts)


def finding_rows(report: Report, seen: Seen, anchor: str, with_server: bool) -> Iterator[dict[str, Any]]:
    """A server's findings, consequences under their root."""
    for finding, follows in with_consequences(seen.server):
        said = report.rendered(finding)
        yield {
            "server": report.name(seen.server) if with_server else "",
            "anchor": anchor,
            "verdict": seen.server.verdict,
            "severity": finding.severity,
            "rank": SEVERITIES.index(finding.severity),
            "follows": follows,
            "title": said.title,
            "where": "" if finding.subject == "server" else show(finding.subject),
            "observed": said.observed,
            "expected": said.expected,
            "meaning": said.meaning,
            "ask": said.ask,
            "basis": basis(report, seen, finding),
        }


def basis(report: Report, seen: Seen, finding: Finding) -> str:
    """What the finding was held against, and the numbers of the readings it rests on."""
    numbers = [seen.reading_number(one) for one in finding.evidence[:_MOST_EVIDENCE]]
    known = ", ".join(f"#{number}" for number in numbers if number)
    held = word(report.texts, finding.basis)
    return f"{held} ({known})" if known else held


def details(report: Report, seen: Seen, anchor: str, drawn: bool) -> dict[str, Any]:
    """Everything about one server below its line."""
    server = seen.server
    figures = tuple(one for one in GPU_FIGURES if any(gpu.figures.get(one[2]) is not None for gpu in server.gpus))
    return {
        "anchor": anchor,
        "name": report.name(server),
        "verdict": server.verdict,
        "why": why(report, server),
        "facts": list(facts(report, seen)),
        "gpu_heads": [Head(report.texts._(N_("GPU"))), Head(report.texts._(N_("Model"))), *heads(report, figures)],
        "gpu_rows": [_gpu(gpu, figures) for gpu in server.gpus],
        "matrix": _matrix(seen),
        "charts": charts(report, seen) if drawn else [],
        "not_measured": list(_not_measured(report, seen)),
        "sha256": server.sha256,
    }


def _gpu(gpu: Gpu, figures: tuple[tuple[str, str, str], ...]) -> list[Cell]:
    row = [Cell(show(gpu.subject)), Cell(show(gpu.model or gpu.name or ""))]
    for _, unit, name in figures:
        value, spec = gpu.figures.get(name), gpu.spec.get(name)
        share = value / spec if value is not None and spec and unit in ("TFLOPS", "GB/s") else None
        row.append(figure(value, unit, "", svg.bar(share)))
    return row


def facts(report: Report, seen: Seen) -> Iterator[tuple[str, str]]:
    """What the server is and when it was measured."""
    server, texts = seen.server, report.texts
    yield texts._(N_("Ordered")), order_text(texts, server.order)
    if server.model:
        yield texts._(N_("Found")), f"{len(server.gpus)} × {show(server.model)}"
    if server.level:
        yield texts._(N_("Machine")), texts._(server.level)
    if server.started:
        yield texts._(N_("Started (UTC)")), report.when(server.started)
    if server.seconds is not None:
        yield texts._(N_("Duration")), with_unit(server.seconds, "s")
    uuids = [show(gpu.uuid) for gpu in server.gpus if gpu.uuid]
    if uuids:
        yield texts._(N_("GPU UUIDs")), ", ".join(uuids)


def _matrix(seen: Seen) -> dict[str, Any] | None:
    found = matrix(seen.record) if seen.record else None
    if not found:
        return None
    names, paths = found
    rows = []
    for a in names:
        cells = []
        for b in names:
            path = paths.get((a, b))
            if a == b or path is None:
                cells.append({"word": "·" if a == b else "?", "tint": "", "rate": ""})
            else:
                rate = f"{path.bytes_per_second / 1e9:,.0f}" if path.bytes_per_second is not None else ""
                cells.append({"word": show(path.word, 12), "tint": tint(path.word) or "", "rate": rate})
        rows.append({"gpu": a, "cells": cells})
    return {"gpus": names, "rows": rows}


def _not_measured(report: Report, seen: Seen) -> Iterator[str]:
    if seen.record is None:
        yield reason_text(report.texts, seen.server.reason) or report.texts._(N_("no record came"))
        return
    for (probe, status, reason, cut), subjects in unmeasured(seen.record).items():
        parts = [f"{show(probe)} ({show(span(subjects))}): {ending_text(report.texts, status, cut)}"]
        if reason:
            parts.append(show(reason_text(report.texts, reason), 400))
        if cut:
            parts.append(left_out(report.texts, cut))
        yield " – ".join(parts)


def reading_rows(seen: Seen) -> Iterator[dict[str, Any]]:
    """Every reading of a server, for the page of one server."""
    for index, one in enumerate(seen.record.readings if seen.record else ()):
        number = isinstance(one.value, int | float) and not isinstance(one.value, bool)
        yield {
            "number": seen.first_reading + index,
            "subject": show(one.subject),
            "metric": one.metric,
            "conditions": show(conditions_text(one)),
            "shown": reading_text(one.metric, one.value) if number else show(exact(one.value)),
            "value": one.value if number else None,
            "raw": show(exact(one.value), 2000) if number else "",
            "source": show(one.source),
        }
