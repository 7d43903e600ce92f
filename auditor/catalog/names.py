"""Which models a written name means: "A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "8x h100 sxm", "RTX 4090".

Names are compared by their words. An exact match with a catalogue or driver name wins; else every model
whose words include all the written ones. "RTX 4090" never means the 4090 D or a modded card.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from auditor.catalog.model import Model

_NEAR, _AS_NEAR = 0.6, 0.1  # a share of the letters; names this close to the best are as near
_FILLER = {"NVIDIA", "TESLA", "GEFORCE", "GPU", "GENERATION", "EDITION", "BLACKWELL", "TENSOR", "CORE"}


def words(text: str) -> frozenset[str]:
    """The telling words of a model name, upper case, brackets and maker left out."""
    bare = re.sub(r"\(.*?\)", " ", text)
    found = (word.upper() for word in re.split(r"[^A-Za-z0-9]+", bare) if word)
    joined = frozenset(word for word in found if word not in _FILLER)
    return joined or frozenset({text.strip().upper()})


def _spoken(model: Model) -> frozenset[str]:
    """Every word that may be said of a model: name, driver names, form factor, memory."""
    said = set(words(model.name))
    for name in model.nvml_names:
        said |= words(name)
    said |= words(model.form_factor)
    said.add(model.memory_type.upper())
    said.add(f"{model.memory_gb:g}GB")
    said |= {"SXM"} if model.form_factor.startswith("SXM") else set()
    return frozenset(said)


def means(text: str, models: Sequence[Model]) -> tuple[Model, ...]:
    """The models an order's or driver's name may mean, most literal reading only; empty = none known."""
    wanted = words(text)
    for model in models:
        if text.strip().upper() == model.name.upper():
            return (model,)
    family = _family(wanted, models)
    if family:
        return family
    literal = tuple(m for m in models if any(words(name) == wanted for name in (m.name, *m.nvml_names)))
    literal = tuple(m for m in literal if not m.modded) or literal
    if literal:
        return literal
    return tuple(m for m in models if not m.modded and wanted <= _spoken(m) and not _narrower(m, wanted))


def nearest(text: str, models: Sequence[Model]) -> tuple[Model, ...]:
    """The models whose names come nearest to one nobody knows; empty when none comes near."""
    wanted = words(text)
    scores = {model.name: _likeness(wanted, words(model.name)) for model in models if not model.modded}
    best = max(scores.values(), default=0.0)
    near = [m for m in models if best >= _NEAR and scores.get(m.name, 0.0) >= best - _AS_NEAR]
    return tuple(sorted(near, key=lambda m: -scores[m.name]))


def _likeness(wanted: frozenset[str], name: frozenset[str]) -> float:
    """0..1: how well each wanted word is met by some word of the name, on average."""
    return sum(max(_alike(one, other) for other in name) for one in sorted(wanted)) / len(wanted)


def _alike(one: str, other: str) -> float:
    """0..1: H300 is nearer to H100 than to 3090, as a series begins with its letter."""
    return SequenceMatcher(None, one, other).ratio() * (1.0 if one[:1] == other[:1] else 0.8)


def _family(wanted: frozenset[str], models: Sequence[Model]) -> tuple[Model, ...]:
    """ "H100" alone means every H100 board, not only those whose driver name is just that."""
    if len(wanted) != 1:
        return ()
    word = next(iter(wanted))
    members = tuple(m for m in models if not m.modded and _first(m.name) == word)
    return members if len(members) > 1 and word[-1].isdigit() and word[0].isalpha() else ()


def _first(name: str) -> str:
    return re.split(r"[^A-Za-z0-9]+", name)[0].upper()


def _narrower(model: Model, wanted: frozenset[str]) -> bool:
    """A lesser variant of a named part (4090 D, 5090 D v2, 3090 Ti) is not what the plain name means."""
    return any(tail in words(model.name) - wanted for tail in ("D", "V2", "TI"))
