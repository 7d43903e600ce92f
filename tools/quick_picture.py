"""Draws the screen of `auditor quick` from a record: the picture in the README, and any run's in retrospect.

python -m tools.quick_picture RECORD.json --order "1x H200 vm" --out docs/images/quick.svg
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from auditor import catalog, order, reading
from auditor.assembly import judge_heap
from auditor.judge import policy
from auditor.quick.events import Closed, Event, Figure, Probed, Sample, Step
from auditor.quick.expected import Expected
from auditor.quick.live import LiveScreen
from auditor.records import Record
from auditor.report.terminal import print_judgement
from auditor.runs import State

_WIDTH, _HEIGHT = 112, 60
_SERIES = {"thermal_gpu_celsius": "celsius", "thermal_watts": "watts", "thermal_sm_clock_hertz": "hertz"}


def events(record: Record) -> list[Event]:
    """What the screen was told, as far as the record knows it; the samples are the thermal probe's series."""
    facts = {row.metric: row.value for row in record.readings if row.subject == "server"}
    torch = f"torch {facts.get('server_facts_torch_version')}, CUDA {facts.get('server_facts_torch_cuda_version')}"
    interpreter = str(facts.get("server_facts_interpreter", "")).split(" ")[0]
    out: list[Event] = [Step(record.server, f"measuring with {interpreter} ({torch})")]
    out += [Figure(record.server, row) for row in record.readings]
    out += [Probed(record.server, p.probe, p.subject, p.status, reason=p.reason) for p in record.probes]
    moments: dict[tuple[int, str], dict[str, float]] = {}
    for series in record.series:
        for moment, value in zip(series.t, series.v, strict=True):
            if series.metric in _SERIES and value is not None:
                moments.setdefault((int(moment * 4), series.subject), {})[_SERIES[series.metric]] = value
    out += [Sample(record.server, subject, **seen) for (_, subject), seen in sorted(moments.items())]
    return [*out, Closed(record.server, State("done"))]


def main() -> int:
    """Draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("record", type=Path)
    parser.add_argument("--order", required=True)
    parser.add_argument("--title", default="root@192.0.2.10 -p 22022")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    read = reading.read_file(given.record)
    if isinstance(read, reading.Refused):
        sys.exit(f"{given.record}: {read}")
    orders = order.load(given.order)
    expected = Expected(orders.default, catalog.load(), policy.load())
    console = Console(
        record=True, file=io.StringIO(), width=_WIDTH, height=_HEIGHT, force_terminal=True, highlight=False
    )
    screen = LiveScreen(console, f"auditor quick  {given.title}", expected, seconds=read.record.seconds.total)
    for event in events(read.record):
        screen.take(event)
    console.print(screen.view())
    console.print()
    verdict = Console(file=io.StringIO(), width=1000, force_terminal=True, color_system="truecolor", highlight=False)
    print_judgement(judge_heap([given.record], orders), verdict)
    console.print(Text.from_ansi(verdict.file.getvalue()))  # type: ignore[attr-defined]  # wraps, as a terminal does
    picture = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="auditor quick"), flags=re.DOTALL)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
