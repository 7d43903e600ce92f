"""The documents say what the code does; `python -m tests.judge.test_docs` writes the table of lines anew."""

from __future__ import annotations

import re
from pathlib import Path

from auditor.judge import policy, signs
from auditor.judge.policy import Lines
from auditor.order import Order

DOCS = Path(__file__).parents[2] / "docs"
THRESHOLDS = DOCS / "thresholds.md"
_TABLE = re.compile(r"(<!-- lines: [^\n]*-->\n).*?(<!-- end of lines -->)", re.DOTALL)


def table() -> str:
    """Every line of the policy: name, value, source, price."""
    rows = ["| line | value | source | costs |", "|---|---|---|---|"]
    for name in Lines.__struct_fields__:
        line = getattr(policy.load().lines, name)
        value = f"{line.value:.0f}" if line.value >= 1000 and line.value < 1e7 else f"{line.value:g}"
        rows.append(f"| `{name}` | {value} | {line.source} | {line.cost or '–'} |")
    return "\n".join(rows) + "\n"


def test_every_line_is_documented() -> None:
    """The table in docs/thresholds.md is the policy's."""
    found = _TABLE.search(THRESHOLDS.read_text(encoding="utf-8"))
    assert found is not None
    assert table() in found[0], "run: python -m tests.judge.test_docs"


def test_every_level_is_documented() -> None:
    """Levels and strong signs stand in the document."""
    text = THRESHOLDS.read_text(encoding="utf-8")
    for level in (signs.BARE, signs.METAL, signs.GUEST, signs.VGPU, signs.SLICE, signs.CONTAINER, signs.SANDBOX):
        assert level in text


def test_every_sign_is_documented_with_its_weight() -> None:
    """Each sign the code gives a guest stands in the table of signs, with the weight it has there."""
    text = THRESHOLDS.read_text(encoding="utf-8").partition("## Signs of virtualization")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:4] for line in text.splitlines() if line.startswith("| ")]
    given = re.findall(r'_sign\(N_\("([^"]+)"\), (\w+),', Path(signs.__file__).read_text(encoding="utf-8"))
    assert len(given) > 15
    for word, weight in given:
        fitting = [row for row in rows if word in row[0]]
        assert fitting, f"{word} is in no row"
        assert weight == "weight" or any(weight in row[2] for row in fitting), word


def test_every_key_of_an_order_is_documented() -> None:
    """Each key an order may have says how it is judged."""
    text = (DOCS / "orders.md").read_text(encoding="utf-8")
    for key in Order.__struct_fields__:
        assert f"`{key}`" in text, key


def test_weights_are_documented() -> None:
    """The weights of each use stand in docs/orders.md as the policy has them."""
    text = (DOCS / "orders.md").read_text(encoding="utf-8")
    for use, weights in policy.load().weights.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{use}`"))
        for part, weight in weights.items():
            assert f"{part} {weight:.2f}" in row


if __name__ == "__main__":
    text = THRESHOLDS.read_text(encoding="utf-8")
    THRESHOLDS.write_text(_TABLE.sub(lambda m: m[1] + table() + m[2], text), encoding="utf-8")
