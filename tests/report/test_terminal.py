"""The terminal: worst first, one line per server, one per finding, plain without a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from auditor.report.terminal import print_judgement
from tests.report import samples


def printed(lang: str = "en", **how: object) -> list[str]:
    """The lines of a mixed run."""
    stream = io.StringIO()
    console = Console(file=stream, highlight=False, width=100, **how)  # type: ignore[arg-type]
    print_judgement(samples.mixed(), console, lang)
    return stream.getvalue().splitlines()


def test_the_worst_comes_first_and_findings_follow_their_server() -> None:
    """Rejected, incomplete, review, accept; a consequence stands below its root, marked."""
    lines = printed()
    servers = [line.split()[1] for line in lines if line[:1] in "✖?!✔" and "gpu-" in line]
    assert servers == [*["reject"], *["incomplete"] * 2, *["review"], *["accept"] * 4]
    root = next(i for i, line in enumerate(lines) if "Not bare metal" in line)
    assert "↳" in lines[root + 1] and "expected 12 NVLinks" in next(line for line in lines if "NVLink is off" in line)
    assert lines[0].startswith("! SYNTHETIC DATA")
    assert lines[-1] == "1 reject · 2 incomplete · 1 review · 4 accept"


def test_without_a_terminal_the_lines_are_plain_and_not_wrapped() -> None:
    """No colour code, and a finding is one line whatever the width."""
    lines = printed()
    assert not any("\x1b" in line for line in lines)
    assert any(len(line) > 100 and "expected" in line for line in lines)


def test_no_color_is_honoured_on_a_terminal(monkeypatch: object) -> None:
    """NO_COLOR keeps bold, if anything, but no colour."""
    coloured = printed(force_terminal=True, no_color=False, color_system="standard")
    plain = printed(force_terminal=True, no_color=True, color_system="standard")
    assert any("\x1b[1;31m" in line for line in coloured)
    assert not any("\x1b[1;31m" in line or "\x1b[31m" in line for line in plain)


def test_chinese_columns_line_up() -> None:
    """A wide character takes two columns: server names start at the same place."""
    lines = [line for line in printed("zh") if "gpu-" in line and line[:1] in "✖?!✔"]
    from auditor.report.show import width

    assert {width(line[: line.index("gpu-")]) for line in lines} == {14}


def test_very_many_servers_are_cut_with_a_count() -> None:
    """A thousand lines help nobody: the worst are shown, the rest counted."""
    stream = io.StringIO()
    print_judgement(samples.mixed(), Console(file=stream, highlight=False, width=100), most_servers=3)
    assert "… and 5 more servers" in stream.getvalue() and "✔ accept" not in stream.getvalue()
