"""`auditor catalog`: list, show, check."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from auditor import catalog
from auditor.commands.catalog import command
from auditor.errors import UserError


def said(*words: str) -> str:
    """What the command prints."""
    result = CliRunner().invoke(command, list(words), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_list_has_a_line_for_every_model() -> None:
    """All models, none cut off."""
    out = said("list")
    assert all(model.name in out for model in catalog.load().models)


def test_show_prints_sources_and_measurements() -> None:
    """What stands about a model comes with its sources and what others measured."""
    out = said("show", "A100-SXM4-80GB")
    assert "source: NVIDIA A100 datasheet" in out
    assert "measured all-reduce, 8x A100 SXM4 (NVSwitch), 256 MiB: 194.07 GB/s busbw" in out
    assert "dense peaks, TFLOPS: fp64 9.7" in out


def test_show_of_a_family_prints_each_member() -> None:
    """A family word shows all its boards."""
    out = said("show", "H200")
    assert "H200 SXM5 141GB" in out
    assert "H200 NVL 141GB" in out


def test_show_of_nothing_is_refused() -> None:
    """An unknown name says where the names are."""
    with pytest.raises(UserError, match="no model is called 'H300'"):
        said("show", "H300")


def test_check_accepts_the_shipped_and_refuses_a_sparse_one(tmp_path: Path) -> None:
    """A sparse rate in another file is refused with its sentence."""
    assert "every peak within the architecture" in said("check")
    file = tmp_path / "gpus.yaml"
    text = catalog.GPUS.read_text(encoding="utf-8")
    file.write_text(text.replace("fp16: 312, bf16: 312", "fp16: 624, bf16: 624", 1), encoding="utf-8")
    with pytest.raises(UserError, match=r"catalog: \d+ problem"):
        said("check", "--gpus", str(file))
