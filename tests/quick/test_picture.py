"""The picture in the README is drawn from a real record."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools import quick_picture

GOLDEN = Path(__file__).parents[1] / "golden" / "h200-quick.json"


def test_the_screen_of_a_real_h200_can_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole SVG with figures and verdict, small, without a link to anywhere."""
    out = tmp_path / "quick.svg"
    monkeypatch.setattr(sys, "argv", ["x", str(GOLDEN), "--order", "1x H200 vm", "--out", str(out)])
    assert quick_picture.main() == 0
    text = out.read_text()
    said = " ".join(node.text or "" for node in ElementTree.fromstring(text).iter() if node.tag.endswith("text"))
    assert "NVIDIA" in said and "accept" in said and "TFLOPS" in said
    assert len(text) < 64_000
    assert "url(" not in text.replace("url(#", "") and "@font-face" not in text
