"""Which torch this interpreter would import, read from its files: importing it takes seconds."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from typing import Optional, Tuple

from . import tree


@functools.lru_cache(maxsize=None)
def build() -> Tuple[Optional[str], Optional[str]]:
    """Its version, and the CUDA it is built for; (None, None) where there is no torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None, None
    told = tree.text(os.path.dirname(spec.origin), "version.py") or ""
    version = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)", told, re.M)
    cuda = re.search(r"^cuda(?::[^=]*)?\s*=\s*['\"]([^'\"]+)", told, re.M)
    return (version[1] if version else "unknown"), (cuda[1] if cuda else None)
