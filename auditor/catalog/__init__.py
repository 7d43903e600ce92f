"""The catalogue: what every GPU model should be (gpus.yaml) and what others measured on it (achievable.yaml)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from auditor.catalog import names, strict
from auditor.catalog.achievable import Achievable
from auditor.catalog.model import Model
from auditor.errors import UserError

FOLDER = Path(__file__).parent
GPUS = FOLDER / "gpus.yaml"
ACHIEVABLE = FOLDER / "achievable.yaml"


class Catalog(msgspec.Struct, frozen=True):
    """All models and rows of one reading of the files; `sha256` names their bytes."""

    models: tuple[Model, ...]
    achievable: Achievable
    sha256: str

    def named(self, text: str) -> tuple[Model, ...]:
        """The models a written name may mean."""
        return _named(self, text)

    def by_pci(self, device: str) -> tuple[Model, ...]:
        """The models sold under one PCI id such as `10de:2335`."""
        return tuple(m for m in self.models if device.lower() in m.pci_device_ids)

    def get(self, name: str) -> Model | None:
        """The model of exactly this catalogue name."""
        return next((m for m in self.models if m.name == name), None)


_names: dict[tuple[str, str], tuple[Model, ...]] = {}


def _named(catalog: Catalog, text: str) -> tuple[Model, ...]:
    key = (catalog.sha256, text)
    if key not in _names:
        if len(_names) > 4096:
            _names.clear()
        _names[key] = names.means(text, catalog.models)
    return _names[key]


def read(gpus: Path = GPUS, achievable: Path = ACHIEVABLE) -> Catalog:
    """Read both files strictly.

    Raises:
        UserError: file and line of an unknown key, a duplicate, a wrong type or a missing source.
    """
    models = strict.load(gpus, list[Model])
    _, lines = strict.document(gpus.read_text(encoding="utf-8"), str(gpus))
    _unique(models, lines, gpus)
    for index, model in enumerate(models):
        if not [source for source in model.sources if source.strip()]:
            raise UserError(f"{gpus}:{lines[(index, 'sources')]}: {model.name} cites no source; every entry needs one.")
    rows = strict.load(achievable, Achievable)
    _cited(rows, achievable)
    digest = hashlib.sha256(gpus.read_bytes() + achievable.read_bytes()).hexdigest()
    return Catalog(tuple(models), rows, digest)


@cache
def load() -> Catalog:
    """The catalogue that ships with the auditor."""
    return read()


def _unique(models: Iterable[Model], lines: dict[tuple[str | int, ...], int], path: Path) -> None:
    seen: set[str] = set()
    for index, model in enumerate(models):
        if model.name in seen:
            raise UserError(f"{path}:{lines[(index, 'name')]}: the model {model.name} stands twice; keep one.")
        seen.add(model.name)


def _cited(rows: Achievable, path: Path) -> None:
    _, lines = strict.document(path.read_text(encoding="utf-8"), str(path))
    for section in ("matmul", "memory_bandwidth", "h2d_d2h", "p2p", "nccl_all_reduce", "virtualization"):
        for index, row in enumerate(getattr(rows, section)):
            if row.source not in rows.sources:
                line = lines[(section, index, "source")]
                raise UserError(
                    f"{path}:{line}: the source `{row.source}` stands not under `sources`; add it there or correct it."
                )
