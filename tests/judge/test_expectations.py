"""Published figures become expectations only in their context, the lowest one first."""

from __future__ import annotations

import pytest

from auditor import catalog
from auditor.catalog.model import Model
from auditor.judge import expectations
from auditor.judge.expectations import Context

CATALOG = catalog.load()


def model(name: str) -> Model:
    """A model that must exist."""
    found = CATALOG.get(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "dtype", "basis", "tflops"),
    [
        ("H200 SXM5 141GB", "bf16", "achievable", 655),
        ("H200 SXM5 141GB", "fp64", "achievable", 53),
        ("H200 SXM5 141GB", "fp8", "achievable", 1158),
        ("A100 SXM4 40GB", "bf16", "achievable", 259.2),
        ("A100 SXM4 80GB", "fp16", "achievable", 256.5),
        ("A100 SXM4 80GB", "bf16", "achievable", 250),
        ("H100 SXM5 80GB", "bf16", "achievable", 676),
        ("L4", "bf16", "spec", 121 * 0.586),
    ],
)
def test_matmul_levels(name: str, dtype: str, basis: str, tflops: float) -> None:
    """Own rows first, corrected for other data; else the lowest published share of the dense peak."""
    found = expectations.matmul(CATALOG, model(name), dtype)
    assert found is not None
    assert found.basis == basis
    assert found.value == pytest.approx(tflops * 1e12, rel=0.01)
    assert found.source


def test_corrected_rows_say_so() -> None:
    """A row taken with data that draw less power is lowered by what that data was seen to add."""
    found = expectations.matmul(CATALOG, model("H100 SXM5 80GB"), "bf16")
    assert found is not None
    assert "less 7% for its data" in found.source


@pytest.mark.parametrize(("name", "dtype"), [("T4", "bf16"), ("V100 SXM2 32GB", "tf32"), ("H200 SXM5 141GB", "int3")])
def test_no_peak_no_level(name: str, dtype: str) -> None:
    """What a card does not have is not expected of it."""
    assert expectations.matmul(CATALOG, model(name), dtype) is None


def test_memory_levels() -> None:
    """The lowest comparable row; else the lowest share of the published bandwidth; unknown bandwidth: none."""
    own = expectations.memory(CATALOG, model("H200 SXM5 141GB"), "read")
    assert own is not None
    assert own.value == 4263e9
    assert own.basis == "achievable"
    other = expectations.memory(CATALOG, model("L40S"), "read")
    assert other is not None
    assert other.basis == "spec"
    assert other.value < 864e9
    blind = model("B100 SXM")
    if blind.bandwidth is None:
        assert expectations.memory(CATALOG, blind, "read") is None
    assert expectations.memory(CATALOG, model("L40S"), "shuffle") is None


A100 = Context("A100 SXM4 80GB", 8, "nvswitch", False, "float32", 400e6)


@pytest.mark.parametrize(
    ("changes", "low", "high"),
    [
        ({}, 205e9, 222e9),
        ({"element": "float16"}, 215e9, 222e9),
        ({"element": "bf16"}, 205e9, 222e9),
        ({"model": "H200 SXM5 141GB", "nvls": True}, 430e9, 450e9),
        ({"model": "H200 SXM5 141GB", "nvls": False, "bytes": 8e9}, 360e9, 370e9),
        ({"model": "H200 SXM5 141GB", "nvls": None, "bytes": 8e9}, 360e9, 370e9),
        ({"model": "RTX 4090", "interconnect": "pcie", "bytes": 33554432}, 15e9, 21e9),
    ],
)
def test_all_reduce_levels(changes: dict[str, object], low: float, high: float) -> None:
    """Model, NVLS, type and size choose the rows; between sizes the level lies between the rows."""
    import msgspec

    found = expectations.all_reduce(CATALOG, msgspec.structs.replace(A100, **changes))
    assert found is not None
    assert low <= found.value <= high


@pytest.mark.parametrize(
    "changes",
    [
        {"gpus": 3},
        {"interconnect": "pcie"},
        {"bytes": 1e6},
        {"bytes": 1e12},
        {"model": "L4"},
        {"model": "H200 SXM5 141GB", "nvls": False, "bytes": 400e6},
        {"model": "L40S", "interconnect": "pcie"},
    ],
)
def test_no_row_no_level(changes: dict[str, object]) -> None:
    """Another count, fabric, size or model, and the sick host of a vendor's own data set, give nothing."""
    import msgspec

    assert expectations.all_reduce(CATALOG, msgspec.structs.replace(A100, **changes)) is None


def test_the_level_at_a_published_size_is_that_row() -> None:
    """No interpolation where a row stands."""
    import msgspec

    found = expectations.all_reduce(CATALOG, msgspec.structs.replace(A100, bytes=268435456.0))
    assert found is not None
    assert found.value == 194.07e9


def test_host_copy_levels() -> None:
    """By generation, fewer lanes carry their share; a generation nobody published stands as the one before."""
    full = expectations.host_copy(CATALOG, 5, 16, "h2d")
    half = expectations.host_copy(CATALOG, 5, 8, "h2d")
    assert full is not None
    assert half is not None
    assert half.value == full.value / 2
    assert full.value == 51e9
    old = expectations.host_copy(CATALOG, 3, 16, "h2d")
    assert old is not None
    assert old.value == 9.6e9
    assert "cuda-demo" in old.source
    assert expectations.host_copy(CATALOG, 6, 16, "h2d") == full
    assert expectations.host_copy(CATALOG, 2, 16, "h2d") is None


def test_levels_are_kept_per_catalogue() -> None:
    """The memory of levels is keyed by the files' hash: another catalogue never gets this one's numbers."""
    import msgspec

    other = msgspec.structs.replace(CATALOG, sha256="other", achievable=msgspec.structs.replace(
        CATALOG.achievable, nccl_all_reduce=[]))  # fmt: skip
    assert expectations.all_reduce(CATALOG, A100) is not None
    assert expectations.all_reduce(other, A100) is None
    assert expectations._Key(CATALOG) != "x"
