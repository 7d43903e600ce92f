"""Charts as inline SVG: coordinates only, colours and dashes come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from auditor.report.units import digits

WIDTH, HEIGHT = 520, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 38
_KINDS = 8


@dataclass(frozen=True)
class Curve:
    """One line: its name and its points; a point without a value leaves a gap."""

    name: str
    points: Sequence[tuple[float, float | None]]
    reference: bool = False


def curves(title: str, x_title: str, y_title: str, drawn: Sequence[Curve], doubling: bool = False) -> Markup:
    """Lines over a common pair of axes, with a legend; empty when nothing can be drawn."""
    drawn = [curve for curve in drawn if sum(y is not None for _, y in curve.points) > 1]
    if not drawn:
        return Markup("")
    xs = [x for curve in drawn for x, y in curve.points if y is not None]
    ys = [y for curve in drawn for _, y in curve.points if y is not None]
    across = _Scale(min(xs), max(xs), _LEFT, WIDTH - _RIGHT, doubling)
    bottom = 0.0 if min(ys) < 0.6 * max(ys) else min(ys)
    up = _Scale(*_rounded(bottom, max(ys)), HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
    ]
    for tick in up.ticks():
        y = up.at(tick)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.0f}H{WIDTH - _RIGHT}"/>')
        parts.append(f'<text class="tick end" x="{_LEFT - 6}" y="{y + 4:.0f}">{digits(tick)}</text>')
    for tick in across.ticks():
        parts.append(f'<text class="tick mid" x="{across.at(tick):.0f}" y="{HEIGHT - 20}">{digits(tick)}</text>')
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}"/>')
    middle = (_LEFT + WIDTH - _RIGHT) // 2
    parts.append(f'<text class="label mid" x="{middle}" y="{HEIGHT - 5}">{escape(x_title)}</text>')
    parts.append(f'<text class="label" x="{_LEFT + 4}" y="{_TOP + 4}">{escape(y_title)}</text>')
    number = 0
    legend = []
    for curve in drawn:
        kind = "ref" if curve.reference else f"s{number % _KINDS}"
        number += 0 if curve.reference else 1
        parts.append(f'<path class="line {kind}" d="{_path(curve, across, up)}"/>')
        key = f'<svg class="key" viewBox="0 0 28 8"><path class="line {kind}" d="M0 4H28"/></svg>'
        legend.append(f"<li>{key}<bdi>{escape(curve.name)}</bdi></li>")
    parts.append("</svg>")
    listed = f'<ul class="legend">{"".join(legend)}</ul>'
    # Every piece that is not ours was escaped above.
    return Markup(f"<figure><figcaption>{escape(title)}</figcaption>{''.join(parts)}{listed}</figure>")  # noqa: S704


def bar(share: float | None) -> Markup:
    """A small bar for a share of 0 to 1; its width is a class, style attributes are forbidden by the page's policy."""
    if share is None:
        return Markup("")
    return Markup(f'<i class="b w{round(min(max(share, 0.0), 1.0) * 20) * 5}"></i>')  # noqa: S704  # a number of ours


class _Scale:
    """Maps values to pixels, evenly or by doublings."""

    def __init__(self, least: float, most: float, start: float, end: float, doubling: bool = False) -> None:
        self.doubling = doubling and least > 0
        self.least, self.most = least, most if most > least else least + 1
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        least, most = self._of(self.least), self._of(self.most)
        return self.start + (self._of(value) - least) / (most - least) * (self.end - self.start)

    def _of(self, value: float) -> float:
        return math.log2(max(value, 1e-12)) if self.doubling else value

    def ticks(self) -> list[float]:
        """Four to eight round values inside the scale."""
        if self.doubling:
            first, last = math.ceil(math.log2(self.least)), math.floor(math.log2(self.most))
            every = max(1, -(-(last - first + 1) // 8))
            return [2.0**power for power in range(first, last + 1, every)]
        step = _step(self.most - self.least)
        first = math.ceil(self.least / step - 1e-9)
        return [first * step + k * step for k in range(int((self.most - first * step) / step + 1e-9) + 1)]


def _step(span: float) -> float:
    raw = span / 5
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)


def _rounded(least: float, most: float) -> tuple[float, float]:
    if most <= least:
        most = least + max(1.0, abs(least) * 0.1)
    step = _step(most - least)
    return math.floor(least / step) * step, math.ceil(most / step) * step


def _path(curve: Curve, across: _Scale, up: _Scale) -> str:
    out, joined = [], False
    for x, y in curve.points:
        if y is None:
            joined = False
            continue
        out.append(f"{'L' if joined else 'M'}{across.at(x):.0f} {up.at(y):.0f}")
        joined = True
    return "".join(out)
