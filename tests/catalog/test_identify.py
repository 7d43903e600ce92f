"""Which model is this? From names, ids, what the driver sees and what the silicon does."""

from __future__ import annotations

import pytest

from auditor import catalog
from auditor.catalog import identify
from auditor.catalog.identify import Sign

CATALOG = catalog.load()
H200 = [
    Sign("name", "NVIDIA H200", "driver"),
    Sign("pci_device", "10de:2335", "kernel"),
    Sign("sms", 132, "driver"),
    Sign("memory_bytes", 150754820096, "driver"),
    Sign("l2_bytes", 62914560, "driver"),
    Sign("bus_bits", 6016, "driver"),
    Sign("compute_capability", "9.0", "driver"),
    Sign("per_clock_measured", 3767.0, "measured"),
    Sign("bandwidth_measured", 4.5e12, "measured"),
    Sign("l2_measured", 36e6, "measured"),
    Sign("fp64_share_measured", 1.04, "measured"),
    Sign("capacity_measured", 149e9, "measured"),
]


def but(what: str, value: float | str, told: str = "driver") -> list[Sign]:
    """H200's signs with one replaced."""
    return [Sign(what, value, told) if s.what == what else s for s in H200]


def against(signs: list[Sign]) -> list[str]:
    """What contradicts the model the signs give."""
    return [c.sign.what for c in identify.identify(CATALOG, signs).contradictions]


def test_a_real_h200_fits_in_everything() -> None:
    """The facts of a real card, its odd bus width and L2 knee included, contradict nothing."""
    identity = identify.identify(CATALOG, H200)
    assert identity.model is not None
    assert identity.model.name == "H200 SXM5 141GB"
    assert identity.contradictions == ()
    assert len(identity.agreeing) == len(H200)


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("sms", 114),
        ("l2_bytes", 6e6),
        ("bus_bits", 384),
        ("compute_capability", "8.9"),
        ("per_clock_measured", 480.0),
        ("per_clock_measured", 4200.0),
        ("bandwidth_measured", 0.9e12),
        ("bandwidth_measured", 5.2e12),
        ("l2_measured", 5e6),
        ("fp64_share_measured", 0.016),
        ("capacity_measured", 170e9),
        ("memory_bytes", 80e9),
    ],
)
def test_what_cannot_be_true_contradicts(what: str, value: float | str) -> None:
    """Each fact or figure outside what the model can have is a contradiction."""
    assert what in against(but(what, value))


def test_the_pci_id_decides_against_a_patched_name() -> None:
    """A name the driver was taught does not make the card; the name contradicts."""
    identity = identify.identify(CATALOG, but("name", "NVIDIA B200"))
    assert identity.model is not None
    assert identity.model.name == "H200 SXM5 141GB"
    assert [c.sign.what for c in identity.contradictions] == ["name"]


def test_a_false_pci_id_loses_against_what_the_chip_is() -> None:
    """When chip facts fit the name, the id is what contradicts."""
    identity = identify.identify(CATALOG, but("pci_device", "10de:2684", "kernel"))
    assert identity.model is not None
    assert identity.model.name == "H200 SXM5 141GB"
    assert [c.sign.what for c in identity.contradictions] == ["pci_device"]


def test_one_id_two_models_are_told_apart_by_memory() -> None:
    """The 48 GB 4090 keeps name and id; only its memory differs."""
    signs = [Sign("name", "NVIDIA GeForce RTX 4090", "driver"), Sign("pci_device", "10de:2684", "kernel")]
    plain = identify.identify(CATALOG, [*signs, Sign("memory_bytes", 24564 * 1048576.0, "driver")])
    modded = identify.identify(CATALOG, [*signs, Sign("memory_bytes", 49140 * 1048576.0, "driver")])
    assert plain.model is not None
    assert plain.model.name == "RTX 4090"
    assert modded.model is not None
    assert modded.model.name == "RTX 4090 48GB (modded)"


def test_a_card_the_catalogue_knows_only_as_modded_is_unknown_when_it_is_not() -> None:
    """The ordinary 3080 has the id of the modded one and another memory: it is nobody's fake."""
    signs = [
        Sign("name", "NVIDIA GeForce RTX 3080", "driver"),
        Sign("pci_device", "10de:2206", "kernel"),
        Sign("memory_bytes", 10240 * 1048576.0, "driver"),
    ]
    assert identify.identify(CATALOG, signs).model is None


def test_unknown_and_nameless() -> None:
    """Nothing known gives no model; an old driver's placeholder is told from a name."""
    stranger = identify.identify(CATALOG, [Sign("name", "CF-NG-HZZ1-O", "driver")])
    assert stranger.model is None
    assert not stranger.nameless
    old = identify.identify(
        CATALOG, [Sign("name", "NVIDIA Graphics Device", "driver"), Sign("pci_device", "10de:2335", "kernel")]
    )
    assert old.nameless
    assert old.model is not None
    assert old.contradictions == ()


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "NVIDIA A100-SXM4-80GB"),
        ("GRID A100-40C", "A100"),
        ("NVIDIA A40-48Q", "NVIDIA A40"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
    ],
)
def test_profiles_are_taken_off_a_name(name: str, bare: str) -> None:
    """MIG and vGPU profiles are no part of the model's name."""
    assert identify.bare_name(name) == bare


def test_signs_the_catalogue_cannot_weigh_are_left_out() -> None:
    """A board whose L2 nobody published neither agrees nor contradicts there."""
    identity = identify.identify(
        CATALOG,
        [Sign("pci_device", "10de:20b3", "kernel"), Sign("l2_bytes", 1e6, "driver"), Sign("sms", 124, "driver")],
    )
    assert identity.model is not None
    assert [s.what for s in identity.agreeing] == ["pci_device", "sms"]
    assert identity.contradictions == ()


def test_what_the_catalogue_cannot_say_is_none() -> None:
    """No expectation, no verdict: L2 of a custom board, bf16 of a T4."""
    leonardo, t4 = CATALOG.get("A100 SXM 64GB (Leonardo custom)"), CATALOG.get("T4")
    assert leonardo is not None
    assert t4 is not None
    assert identify.fits(leonardo, "l2_bytes", 1e6) is None
    assert identify.fits(t4, "per_clock_measured", 900.0) is None
    assert identify.fits(t4, "shoe size", 43.0) is None
