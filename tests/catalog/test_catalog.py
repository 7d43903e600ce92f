"""The catalogue that ships: complete, sound, and refusing what is slipped in."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from auditor import catalog
from auditor.catalog import check
from auditor.catalog.model import Model, Peak
from auditor.errors import UserError

GPUS = catalog.GPUS.read_text(encoding="utf-8")
ROWS = catalog.ACHIEVABLE.read_text(encoding="utf-8")


def with_files(tmp_path: Path, gpus: str = GPUS, rows: str = ROWS) -> catalog.Catalog:
    """The catalogue of these two texts."""
    (tmp_path / "gpus.yaml").write_text(gpus, encoding="utf-8")
    (tmp_path / "achievable.yaml").write_text(rows, encoding="utf-8")
    return catalog.read(tmp_path / "gpus.yaml", tmp_path / "achievable.yaml")


def refused(tmp_path: Path, **texts: str) -> str:
    """What the loader says of these texts."""
    with pytest.raises(UserError) as caught:
        with_files(tmp_path, **texts)
    return str(caught.value)


def test_the_shipped_catalogue_is_sound() -> None:
    """68 models, no contradiction, no row without its source."""
    shipped = catalog.load()
    assert len(shipped.models) >= 68
    assert check.problems(shipped) == []


def test_a_model_twice_is_refused(tmp_path: Path) -> None:
    """The line of the second entry is named."""
    first, _, rest = GPUS.partition("\n- name: V100 PCIe 32GB\n")
    said = refused(tmp_path, gpus=f"{first}\n- name: V100 PCIe 16GB\n{rest}")
    assert "gpus.yaml:" in said
    assert "V100 PCIe 16GB stands twice" in said


def test_an_entry_without_a_source_is_refused(tmp_path: Path) -> None:
    """An empty list of sources is no source."""
    head, _, tail = GPUS.partition("  sources: [")
    line = head.count("\n") + 1
    said = refused(tmp_path, gpus=f"{head}  sources: []\n{tail.partition(chr(10))[2]}")
    assert f"gpus.yaml:{line}: TITAN V cites no source" in said


def test_a_missing_sources_key_is_refused(tmp_path: Path) -> None:
    """A forgotten key is named with the entry."""
    head, _, tail = GPUS.partition("  sources: [")
    assert "missing required field `sources`" in refused(tmp_path, gpus=head + tail.partition("\n")[2])


def test_an_unknown_key_is_refused_at_its_line(tmp_path: Path) -> None:
    """A typo in a key is an error, not a value nobody reads."""
    said = refused(tmp_path, gpus=GPUS.replace("  sm_count: 80\n", "  sm_coumt: 80\n", 1))
    assert "unknown field `sm_coumt`" in said
    assert said.split("gpus.yaml:")[1].split(":")[0].isdigit()


def test_a_row_that_cites_nothing_is_refused(tmp_path: Path) -> None:
    """A source that stands not under `sources` is no source."""
    assert "the source `hearsay` stands not under `sources`" in refused(
        tmp_path, rows=ROWS.replace("source: fryer", "source: hearsay", 1)
    )


def test_a_sparse_number_slipped_in_is_found(tmp_path: Path) -> None:
    """H100 "1979" is with sparsity: above the architecture's formula, and check says so."""
    slipped = GPUS.replace("fp16: 989.4, bf16: 989.4", "fp16: 1979, bf16: 1979", 1)
    found = check.problems(with_files(tmp_path, gpus=slipped))
    assert any("fp16 1979 TFLOPS is above what the architecture has (989 dense)" in one for one in found)


def edited(**fields: object) -> list[str]:
    """What check says when one good model is changed."""
    shipped = catalog.load()
    model = msgspec.structs.replace(shipped.get("H200 SXM5 141GB"), **fields)  # type: ignore[type-var]
    assert isinstance(model, Model)
    rest = tuple(m for m in shipped.models if m.name != "H200 SXM5 141GB")
    return check.problems(msgspec.structs.replace(shipped, models=(*rest, model)))


def peaks(**rates: float) -> Peak:
    """H200's peaks with some changed."""
    model = catalog.load().get("H200 SXM5 141GB")
    assert model is not None
    return msgspec.structs.replace(model.peak_dense, **rates)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"fp16_flops_per_clk_per_sm": 8192}, "8192 FLOP per clock per SM (fp16); GH100 has 4096 or 1024"),
        ({"chip": "GX999"}, "its chip GX999 stands not in architectures.yaml"),
        ({"peak_dense": peaks(fp16=500.0, bf16=500.0)}, "fp16 500 TFLOPS is below SMs x clock x 4096"),
        ({"peak_dense": peaks(bf16=900.0)}, "tensor cores run both alike"),
        ({"peak_dense": peaks(fp8=2100.0)}, "fp8 2100 TFLOPS is more than twice fp16"),
        ({"peak_dense": peaks(tf32=600.0)}, "tf32 600 TFLOPS is more than half of fp16"),
        ({"nvlink_links": 0}, "0 NVLinks but 900 GB/s over them"),
        ({"tdp_w": 7000.0}, "a power limit of 7000 W"),
        ({"memory_mib_reported": 81559.0}, "81559 MiB reported for 141 GB"),
        ({"pci_device_ids": ["10DE:2335"]}, "`10DE:2335` is no PCI id"),
        ({"pci_device_ids": []}, "no PCI id"),
        ({"name": "H300"}, "`H200 SXM5 141GB` is no model"),
        ({"nvml_names": ["NVIDIA B200"], "memory_mib_reported": 183359.0, "memory_gb": 180.0,
          "pci_device_ids": ["10de:2901"]}, "10de:2901 belongs to B200 SXM6 180GB, H200 SXM5 141GB"),
    ],
)  # fmt: skip
def test_check_finds(fields: dict[str, object], said: str) -> None:
    """Each kind of contradiction is one sentence that names the model."""
    assert any(said in one for one in edited(**fields)), edited(**fields)


def test_unknown_sm_count_or_clock_is_not_guessed() -> None:
    """Without SM count the formula cannot be tried and nothing is claimed."""
    assert edited(sm_count=None) == []
    assert edited(nvlink_links=18, fp16_flops_per_clk_per_sm=None) == []


def test_properties_answer_in_base_units() -> None:
    """FLOP/s, bytes/s and bytes; fp64 means the faster path; what is unknown is None."""
    h200 = catalog.load().get("H200 SXM5 141GB")
    t4 = catalog.load().get("T4")
    assert h200 is not None
    assert t4 is not None
    assert h200.peak("bf16") == 989.4e12
    assert h200.peak("fp64") == pytest.approx(66.9e12)
    assert t4.peak("bf16") is None
    assert h200.bandwidth == 4.8e12
    assert h200.nvlink_direction == 450e9
    assert h200.memory_bytes == (143771 * 1024 * 1024,)
    assert catalog.load().get("H1000") is None
    unknown = msgspec.structs.replace(h200, memory_bandwidth_gb_s=None, peak_dense=peaks())
    assert unknown.bandwidth is None
    assert msgspec.structs.replace(h200, peak_dense=Peak(*[None] * 9)).peak("fp64") is None
