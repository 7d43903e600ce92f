"""The order of the Ranking sheet: who passes stands above who fails, with a score or without."""

from __future__ import annotations

from pathlib import Path

from auditor.order import parse
from auditor.report import write
from tests import builders
from tests.report import reading_back, samples


def test_who_passes_without_a_score_stands_above_who_fails(tmp_path: Path) -> None:
    """An accepted server that cannot be compared (no GPU) follows the ranked ones; incomplete and reject stand last."""
    order = samples.replace_order(gpus=2)
    records = {
        "a-bad": samples.a100("a-bad", True, False, gpus=2),
        "b-silent": None,
        "c-cpu": builders.cpu_only("c-cpu"),
        "d-good": samples.a100("d-good", gpus=2),
    }
    orders = {name: parse({"gpus": 0}, "test") if name == "c-cpu" else order for name in records}
    rows = reading_back.table(write(samples.given(records, orders), tmp_path, ["xlsx"])[0], "Ranking")
    told = [(row["Server"], row["Verdict"]) for row in rows]
    assert told == [
        ("d-good", "✔ accept"),
        ("c-cpu", "✔ accept"),
        ("a-bad", "✖ reject"),
        ("b-silent", "? incomplete"),
    ]
    assert "measured without a GPU" in str(rows[1]["Remark"])
