"""Which models a written name means."""

from __future__ import annotations

import pytest

from auditor import catalog


@pytest.mark.parametrize(
    ("text", "models"),
    [
        ("A100-SXM4-80GB", ["A100 SXM4 80GB"]),
        ("nvidia a100-sxm4-80gb", ["A100 SXM4 80GB"]),
        ("NVIDIA A100 80GB PCIe", ["A100 PCIe 80GB"]),
        ("A100 80GB", ["A100 SXM4 80GB", "A100 PCIe 80GB"]),
        ("NVIDIA H100 80GB HBM3", ["H100 SXM5 80GB"]),
        ("H100 PCIe", ["H100 PCIe 80GB"]),
        ("H200", ["H200 SXM5 141GB", "H200 NVL 141GB"]),
        ("H200 SXM5 141GB", ["H200 SXM5 141GB"]),
        ("RTX 4090", ["RTX 4090"]),
        ("GeForce RTX 4090", ["RTX 4090"]),
        ("RTX 4090 D", ["RTX 4090 D"]),
        ("RTX 4090 48GB (modded)", ["RTX 4090 48GB (modded)"]),
        ("L40", ["L40"]),
        ("L40S", ["L40S"]),
        ("A10", ["A10"]),
        ("Tesla T4", ["T4"]),
        ("V100 32GB", ["V100 PCIe 32GB", "V100 SXM2 32GB", "V100 SXM3 32GB"]),
        ("H300", []),
        ("NVIDIA", []),
    ],
)
def test_named(text: str, models: list[str]) -> None:
    """The most literal reading wins; a family word means all its boards; lesser variants are never meant."""
    assert [m.name for m in catalog.load().named(text)] == models


def test_family_words_leave_out_modded_and_other_families() -> None:
    """H100 means all H100 boards, and neither H800 nor GH200."""
    names = {m.name for m in catalog.load().named("H100")}
    assert {"H100 PCIe 80GB", "H100 SXM5 80GB", "H100 NVL 94GB"} <= names
    assert all(name.startswith("H100") for name in names)


def test_answers_are_kept_without_bound_on_what_is_asked() -> None:
    """Names come from strangers: the memory of answers is emptied before it grows."""
    shipped = catalog.load()
    for index in range(5000):
        shipped.named(f"model {index}")
    assert len(catalog._names) <= 4097
