"""The probes there are: found by walking the folder, never listed."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from types import ModuleType
from typing import Dict, List, Optional, Tuple

import auditor.probes

SCOPES = ("server", "gpu", "pair", "all", "any")


@dataclass(frozen=True)
class Probe:
    """What a probe's file says about itself."""

    key: str
    scope: str
    devices: Tuple[str, ...]
    needs: Tuple[str, ...]
    seconds: Dict[str, float]
    method: int
    order: int
    workers: bool
    finishes: bool
    title: str
    grace: Optional[float] = None

    @property
    def on_gpus(self) -> bool:
        """Whether it works on GPUs; the others measure the host, whatever has become of a GPU."""
        return self.scope not in ("server", "any")

    @property
    def heavy(self) -> bool:
        """Whether it loads the machine; facts do not."""
        return self.scope != "server" or self.order >= 20


def load(key: str) -> ModuleType:
    """The module of one probe."""
    return importlib.import_module("auditor.probes." + key)


def probes() -> List[Probe]:
    """All probes in order of running."""
    found = []
    for entry in pkgutil.iter_modules(auditor.probes.__path__):
        if not entry.ispkg and entry.name != "__main__":
            module = load(entry.name)
            if hasattr(module, "KEY"):
                found.append(_describe(module))
    return sorted(found, key=lambda probe: (probe.order, probe.key))


def _describe(module: ModuleType) -> Probe:
    if module.SCOPE not in SCOPES:
        raise ValueError("%s: unknown SCOPE %r" % (module.__name__, module.SCOPE))
    return Probe(
        key=module.KEY,
        scope=module.SCOPE,
        devices=tuple(module.DEVICES),
        needs=tuple(module.NEEDS),
        seconds=dict(module.SECONDS),
        method=module.METHOD,
        order=getattr(module, "ORDER", 50),
        workers=getattr(module, "WORKERS", True),
        finishes=hasattr(module, "finish"),
        grace=getattr(module, "GRACE", None),
        title=(module.__doc__ or "").strip().splitlines()[0] if module.__doc__ else "",
    )
