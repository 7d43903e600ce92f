# Copyright: the auditor's authors
# Which torch build a driver, its GPUs and a Python can run. Pure.
"""The table of the role probe_runtime: torch by Python, driver and GPU generation.

Read from the metadata of the wheels (Python, CUDA) and the release notes (architectures); docs/rented-machines.md
names them. Results of different stacks are not comparable, so the newest that runs is not chosen where an older one
runs everywhere: one build per class of server.
"""

from typing import NamedTuple, Optional, Sequence, Tuple


class Torch(NamedTuple):
    """A build: `version` for pip, `index` the suffix of the wheel index (None: the package index); or the reason."""

    version: Optional[str]
    index: Optional[str]
    reason: Optional[str] = None


# (lowest Python, highest Python with wheels) by torch version
_PYTHONS = {
    "2.13.0": ((3, 10), (3, 14)),
    "2.10.0": ((3, 10), (3, 14)),
    "2.8.0": ((3, 9), (3, 13)),
    "2.4.1": ((3, 8), (3, 12)),
}


def choose(python: Tuple[int, int], driver: Optional[int], generations: Sequence[str]) -> Torch:
    """The torch build for a Python (major, minor), a driver's branch (None: no driver) and the GPUs' generations."""
    if driver is None or not generations:
        return _fit(python, ("2.13.0", "2.8.0", "2.4.1"), "cpu")
    old = [name for name in generations if name in ("maxwell", "pascal", "volta")]
    new = [name for name in generations if name == "blackwell"]
    if driver < 525:
        return Torch(None, None, "driver %d is older than any torch of today needs (525)" % driver)
    if old:
        return _fit(python, ("2.10.0", "2.8.0", "2.4.1"), "cu126")
    if driver >= 580:
        return _fit(python, ("2.13.0", "2.8.0"), None)
    if new and driver < 570:
        return Torch(None, None, "driver %d is older than Blackwell needs (570)" % driver)
    return _fit(python, ("2.10.0", "2.8.0", "2.4.1"), None)


def _fit(python: Tuple[int, int], versions: Sequence[str], index: Optional[str]) -> Torch:
    for version in versions:
        low, high = _PYTHONS[version]
        if low <= python <= high:
            return Torch(version, index)
    return Torch(None, None, "no torch has wheels for Python %d.%d" % python)
