"""The wheelhouse for servers without internet."""

from __future__ import annotations

import pytest

from tools.wheelhouse import platforms


@pytest.mark.parametrize(
    "wheel",
    [
        "torch-2.13.0-cp310-cp310-manylinux_2_28_x86_64.whl",
        "nvidia_nccl_cu13-2.29.7-py3-none-manylinux_2_18_x86_64.whl",
        "nvidia_cuda_cupti-13.0.85-py3-none-manylinux_2_25_x86_64.whl",
        "nvidia_cublas-13.1.0.3-py3-none-manylinux_2_27_x86_64.whl",
        "markupsafe-3.0.2-cp310-cp310-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
    ],
)
def test_every_wheel_that_torch_needs_is_taken(wheel: str) -> None:
    """pip is told each platform by name: one that is left out makes the whole download fail."""
    tags = wheel.removesuffix(".whl").split("-")[-1].split(".")
    assert set(tags) & set(platforms("x86_64"))
    assert not set(tags) & set(platforms("aarch64"))
