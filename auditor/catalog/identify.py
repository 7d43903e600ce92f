"""Which model is this? From everything that speaks about one GPU: what it is called, what it is, what it does.

Names and PCI ids say what the card claims to be; SM count, L2, memory, bus and compute capability say what
the driver sees; figures say what the silicon does. The model is the one the PCI id names, unless the physical
facts fit what the name says better. Whatever cannot be true of that model is returned as a contradiction.

Tolerances come from the catalogue's own captures: reported memory differs by up to 3 % between drivers and ECC
states of one board; torch and NVML differ on the L2 of H200 (50 and 60 MB) and on its bus (6016 and 6144 bit).
Measured lines are wide on purpose: knees read 0.6-1.05 of the L2 (evidence: A100 24-34 of 40 MB, H200 34-48
of 60, L40 100 of 96), and one chip's per-clock rate was 92 % of its formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from auditor.catalog.model import Model

if TYPE_CHECKING:
    from auditor.catalog import Catalog

MEMORY = 0.03
L2 = 0.20
BUS = 0.05
L2_MEASURED = (0.40, 1.25)
BANDWIDTH_MEASURED = (0.50, 1.03)
PER_CLOCK = (0.60, 1.005)
FP64_FACTOR = 3.0
CAPACITY_OVER = 1.02

NAMELESS = ("NVIDIA GRAPHICS DEVICE", "GRAPHICS DEVICE")


class Sign(msgspec.Struct, frozen=True):
    """One fact about a GPU: `what` it speaks of, whose word it is (`told`), and the `key` of its reading."""

    what: str
    value: float | str
    told: str
    key: object = None


class Contradiction(msgspec.Struct, frozen=True):
    """A sign that cannot be true of the model the GPU is taken for."""

    sign: Sign
    expected: float | str


class Identity(msgspec.Struct, frozen=True):
    """What the GPU is taken for, what fits, and what does not.

    `named` are the models its name may mean, `by_id` those of its PCI id; `nameless` = the driver has no name for it.
    """

    model: Model | None
    named: tuple[Model, ...]
    by_id: tuple[Model, ...]
    agreeing: tuple[Sign, ...]
    contradictions: tuple[Contradiction, ...]
    nameless: bool = False


def identify(catalog: Catalog, signs: Sequence[Sign]) -> Identity:
    """Names the model of one GPU from its signs, and what contradicts it."""
    names = [str(s.value) for s in signs if s.what == "name"]
    nameless = bool(names) and all(name.upper() in NAMELESS for name in names)
    named = _first(catalog.named(bare_name(name)) for name in names if name.upper() not in NAMELESS)
    by_id = _first(catalog.by_pci(str(s.value)) for s in _kernel_first(signs, "pci_device"))
    model = _choose(named, by_id, signs)
    agreeing, contradictions = _weigh(model, signs)
    return Identity(model, named, by_id, agreeing, contradictions, nameless)


def bare_name(name: str) -> str:
    """A driver's name without what a MIG or vGPU profile adds to it."""
    head = name.split(" MIG ")[0]
    if head.upper().startswith("GRID "):
        head = head[5:]
    stem, dash, profile = head.rpartition("-")
    if dash and profile[:-1].isdigit() and profile[-1:] in "ABCQ" and int(profile[:-1]) <= 192:
        head = stem
    return head


def fits(model: Model, what: str, value: float | str) -> bool | None:
    """Whether a sign can be true of a model; None when the catalogue cannot say."""
    expected = expectation(model, what)
    if expected is None:
        return None
    if isinstance(expected, str) or isinstance(value, str):
        return _text_fits(model, what, str(value))
    return _number_fits(model, what, value, expected)


def _text_fits(model: Model, what: str, value: str) -> bool:
    if what == "pci_device":
        return value.lower() in model.pci_device_ids
    if what == "name":
        known = {name.upper() for name in model.nvml_names}
        return not known or value.upper() in NAMELESS or bare_name(value).upper() in known
    return value == model.compute_capability


def _number_fits(model: Model, what: str, value: float, expected: float) -> bool:
    if what == "memory_bytes":
        return any(abs(value - size) <= MEMORY * size for size in model.memory_bytes)
    if what == "capacity_measured":
        return value <= CAPACITY_OVER * max(model.memory_bytes)
    low, high = _range(what, expected)
    return low <= value <= high


def _range(what: str, expected: float) -> tuple[float, float]:
    if what == "fp64_share_measured":
        return expected / FP64_FACTOR, expected * FP64_FACTOR
    relative = {
        "l2_bytes": (1 - L2, 1 + L2),
        "bus_bits": (1 - BUS, 1 + BUS),
        "l2_measured": L2_MEASURED,
        "bandwidth_measured": BANDWIDTH_MEASURED,
        "per_clock_measured": PER_CLOCK,
    }.get(what, (1.0, 1.0))
    return expected * relative[0], expected * relative[1]


def expectation(model: Model, what: str) -> float | str | None:
    """What the catalogue says of a model for one kind of sign, in base units."""
    known: dict[str, float | str | None] | None = model.__dict__.get("_known_signs")
    if known is None:
        known = model.__dict__["_known_signs"] = _expectations(model)
    return known.get(what)


def _expectations(model: Model) -> dict[str, float | str | None]:
    mega = 1024.0 * 1024.0
    fp64, fp32 = model.peak("fp64"), model.peak("fp32")
    return {
        "name": model.nvml_names[0] if model.nvml_names else None,
        "pci_device": model.pci_device_ids[0] if model.pci_device_ids else None,
        "compute_capability": model.compute_capability,
        "sms": model.sm_count,
        "memory_bytes": model.memory_bytes[0] if model.memory_bytes else None,
        "capacity_measured": model.memory_bytes[0] if model.memory_bytes else None,
        "l2_bytes": model.l2_mb * mega if model.l2_mb else None,
        "l2_measured": model.l2_mb * mega if model.l2_mb else None,
        "bus_bits": model.memory_bus_bits,
        "bandwidth_measured": model.bandwidth,
        "per_clock_measured": model.fp16_flops_per_clk_per_sm if model.peak("bf16") else None,
        "fp64_share_measured": fp64 / fp32 if fp64 and fp32 else None,
    }


PHYSICAL = ("sms", "memory_bytes", "l2_bytes", "bus_bits", "compute_capability", "pci_device")
MEASURED = ("per_clock_measured", "bandwidth_measured", "l2_measured", "fp64_share_measured", "capacity_measured")


def _choose(named: tuple[Model, ...], by_id: tuple[Model, ...], signs: Sequence[Sign]) -> Model | None:
    agreed = any(m in named for m in by_id)
    pool = by_id if agreed else (*by_id, *(m for m in named if m not in by_id))
    if not pool:
        return None
    telling = [s for s in signs if s.what in PHYSICAL or s.what in MEASURED]
    best = max(pool, key=lambda m: (sum(_points(m, s) for s in telling), m in named, not m.modded, m in by_id))
    if best.modded and any(s.what == "memory_bytes" and fits(best, s.what, s.value) is False for s in signs):
        return None  # the catalogue knows only the modded card of this name, and this is not one
    return best


def _points(model: Model, sign: Sign) -> int:
    fit = fits(model, sign.what, sign.value)
    return 0 if fit is None else 1 if fit else -1


def _weigh(model: Model | None, signs: Sequence[Sign]) -> tuple[tuple[Sign, ...], tuple[Contradiction, ...]]:
    if model is None:
        return (), ()
    agreeing, against = [], []
    for sign in signs:
        fit = fits(model, sign.what, sign.value)
        if fit:
            agreeing.append(sign)
        elif fit is False:
            against.append(Contradiction(sign, expectation(model, sign.what) or ""))
    return tuple(agreeing), tuple(against)


def _first(found: Iterable[tuple[Model, ...]]) -> tuple[Model, ...]:
    return next((models for models in found if models), ())


def _kernel_first(signs: Sequence[Sign], what: str) -> list[Sign]:
    return sorted((s for s in signs if s.what == what), key=lambda s: s.told != "kernel")
