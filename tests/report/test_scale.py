"""Figures of the report at size: 1,000 and 10,000 servers of eight GPUs; run by `make test-scale`, printed."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from auditor.report import write
from tests.report import samples
from tests.report.browser import browser, why_not

# In a process of its own, so that its peak memory is the report's. Records are made anew when asked for, which
# costs about what reading them from disk does.
_CHILD = """
import json, resource, sys, time
from pathlib import Path
from auditor.report import write
from tests.report import samples
servers, folder, formats = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].split(",")
begun = time.monotonic()
fleet = samples.Fleet(servers)
judged = time.monotonic()
files = write(fleet, folder, formats)
done = time.monotonic()
print(json.dumps({
    "judge": judged - begun, "report": done - judged,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "mb": {path.name: path.stat().st_size / 1e6 for path in files},
}))
"""


def measured(servers: int, folder: Path, formats: str) -> dict[str, object]:
    """What a report of so many servers takes."""
    argv = [sys.executable, "-c", _CHILD, str(servers), str(folder), formats]
    root = Path(__file__).parents[2]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=1500, check=True)
    told: dict[str, object] = json.loads(done.stdout)
    print(f"\n{servers} servers x 8 GPUs, {formats}: {told}")
    return told


@pytest.mark.scale
def test_a_thousand_servers(tmp_path: Path) -> None:
    """Workbook under 60 s, 1.5 GB and 20 MB."""
    told = measured(1000, tmp_path, "xlsx")
    assert told["report"] < 60 and told["peak_mb"] < 1500 and told["mb"]["report.xlsx"] < 20  # type: ignore[operator,index]


@pytest.mark.scale
def test_ten_thousand_servers(tmp_path: Path) -> None:
    """Workbook under 10 minutes and 4 GB: linear."""
    told = measured(10_000, tmp_path, "xlsx")
    assert told["report"] < 600 and told["peak_mb"] < 4000  # type: ignore[operator]


@pytest.mark.scale
def test_the_page_of_a_thousand_servers(tmp_path: Path) -> None:
    """Under 10 MB, first paint under 2 s, a click on a header sorts in under 200 ms."""
    told = measured(1000, tmp_path, "html")
    assert told["mb"]["report.html"] < 10  # type: ignore[index]
    if why_not():
        pytest.skip(str(why_not()))
    with browser(tmp_path / "profile") as window:
        window.open(tmp_path / "report.html")
        paint = window.js("return performance.getEntriesByName('first-contentful-paint')[0].startTime")
        script = """const b = document.querySelector(arguments[0]), t = performance.now();
          b.click(); document.body.offsetHeight; return performance.now() - t"""
        heads = ("#servers thead th:nth-child(7) button", "#servers thead th:nth-child(1) button")
        sorts = [window.js(script, head) for head in (*heads, "#findings thead th:nth-child(3) button")]
        print(f"first paint {paint:.0f} ms, sorts {[round(one) for one in sorts]} ms")
        assert paint < 2000 and max(sorts) < 200


def test_one_server_is_quick(tmp_path: Path) -> None:
    """The report of one server takes under 2 s of this process."""
    given = samples.given({"gpu-01": samples.a100()})
    begun = time.process_time()
    write(given, tmp_path, ["xlsx", "html"])
    assert time.process_time() - begun < 2


def test_the_command_is_quick_for_one_server(tmp_path: Path) -> None:
    """`auditor report` of one server, both formats, interpreter and imports included: under 2 s of processor time."""
    golden = Path(__file__).parents[1] / "golden" / "h200-quick.json"
    argv = [sys.executable, "-c", "from auditor.cli import main; main()", "report", str(golden), "--out", str(tmp_path)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert done.returncode == 0 and (tmp_path / "report.xlsx").exists() and (tmp_path / "report.html").exists()
    assert took < 2
