"""Fixtures shared by all tests: the fleet of rented machines that are not there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:  # `pytest` without `python -m` does not put it there
    sys.path.insert(0, str(ROOT))

from tests.fleet import Fleet, why_not  # noqa: E402  # needs the path above

_MACHINES = 6


def _unfit(reason: str) -> None:
    """Without a fleet: a failure where CI says that it must be there, elsewhere a skip that says why."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"the test fleet cannot start: {reason}")
    pytest.skip(f"no test fleet: {reason}")


def torch_binds() -> list[tuple[Path, str]]:
    """What a machine must see of the controller to run torch: this virtual environment as /opt/venv, its Python."""
    binds = [(Path(sys.prefix), "/opt/venv")]
    base = Path(sys.base_prefix)
    if not base.is_relative_to("/usr"):
        binds.append((base, str(base)))
    return binds


@pytest.fixture(scope="session")
def fleet_net() -> str:
    """The first two octets of this process's own machines, so that two test runs at a time do not collide."""
    return f"127.{100 + os.getpid() % 100}"


@pytest.fixture(scope="session")
def fleet_here() -> None:
    """Asked for by every fixture that starts a fleet of its own."""
    if reason := why_not():
        _unfit(reason)


@pytest.fixture(scope="session")
def whole_fleet(tmp_path_factory: pytest.TempPathFactory, fleet_net: str, fleet_here: None) -> Iterator[Fleet]:
    fleet = Fleet(_MACHINES, tmp_path_factory.mktemp("fleet") / "f", net=fleet_net, bind=torch_binds())
    try:
        fleet.start()
    except RuntimeError as error:
        _unfit(str(error))
    for name in fleet.names:
        fleet.root(name).joinpath("root").chmod(0o711)  # the controller's Python may lie below /root
    yield fleet
    fleet.stop()


@pytest.fixture
def fleet(whole_fleet: Fleet) -> Iterator[Fleet]:
    """Six machines with torch in /opt/venv, one fleet for the whole session, healed after each test."""
    yield whole_fleet
    whole_fleet.heal("*")
