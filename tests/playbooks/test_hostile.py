"""A server whose very Python is an attacker's (threats C05, R12, R14): a row with a reason, and nothing else of it."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from tests.fleet import Fleet
from tests.playbooks.conftest import Auditor, Done

pytestmark = pytest.mark.fleet

_FLOOD = "#!/bin/sh\ncat >/dev/null\nexec tr '\\0' x </dev/zero\n"
_ANSWER = "#!/bin/sh\ncat >/dev/null\nprintf '%s\\n' {words}\n"
_SMUGGLE = {
    "probe": {
        "folder": "../../../../tmp/climb",
        "pid": 1,
        "interpreter": "\u001b]0;owned\u0007\u001b[2J/usr/bin/python3",
        "torch": "2.13.0\n✔ h001  forged line",
        "record": "x",
    },
    "changed": True,
    "ansible_facts": {"ansible_connection": "local", "planted": True},
    "add_host": {"host_name": "evil", "groups": ["all"]},
    "add_group": "evil",
    "warnings": ["\u001b[31mwarned\u001b[0m"],
    "deprecations": [{"msg": "\u001b[31mold\u001b[0m"}],
}


def disguise(fleet: Fleet, server: str, script: str) -> None:
    """The server's /usr/bin/python3 becomes this script, until the machine starts anew."""
    path = fleet.root(server) / "usr/bin/python3"
    path.unlink()
    path.write_text(script)
    path.chmod(0o755)


@pytest.fixture(scope="module")
def done(storm: Auditor, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """One audit of a good server, one that floods and one that smuggles."""
    words = f"'noise before \x1b[31m' '{json.dumps(_SMUGGLE)}' 'junk after \x1b]0;x\x07'"
    disguise(storm.fleet, "h002", _FLOOD)
    disguise(storm.fleet, "h003", _ANSWER.format(words=words))
    limits = tmp_path_factory.mktemp("inventory") / "limits.ini"
    limits.write_text("[all]\nh003 audit_limit=1\n")
    return storm("--limit", "h001,h002,h003", inventory=[storm.fleet.inventory, limits])


def test_C05_a_flood_ends_in_a_row(done: Done) -> None:
    """Endless output costs bounded memory, and no other server anything."""
    assert done.code == 0 and done.states["h001"].phase == "done", done.out
    assert done.states["h002"].reason == "too_large", done.states["h002"]
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    assert peak < 512, f"a process of the controller grew to {peak} MiB"


def test_R12_nothing_of_it_steers_the_terminal(done: Done) -> None:
    """Escape codes and forged lines in the module's answer are shown tame, in one line."""
    assert "\x1b" not in done.out and "\x07" not in done.out
    assert "\n✔ h001  forged line" not in done.out


def test_R14_no_path_of_its_making(done: Done, storm: Auditor) -> None:
    """Nothing new lies outside the run folder, and no host or group came into being."""
    assert set(done.states) == {"h001", "h002", "h003"} and done.states["h003"].reason
    assert len({path.relative_to(storm.results).parts[0] for path in storm.results.rglob("*")}) == 1
    assert not Path("/tmp/climb").exists()
