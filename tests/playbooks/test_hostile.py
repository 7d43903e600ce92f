"""A server that lies, floods and smuggles (threats C05, C06, R12, R14): one row with a reason, and a quiet terminal."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fleet import Fleet
from tests.playbooks.conftest import Audit

pytestmark = pytest.mark.fleet

_FLOOD = "#!/bin/sh\ncat >/dev/null\nexec tr '\\0' x </dev/zero\n"
_ANSWER = """#!/bin/sh
cat >/dev/null
printf '%s\\n' {words}
"""


def disguise(fleet: Fleet, server: str, script: str) -> None:
    """The server's /usr/bin/python3 becomes this script; `reboot` gives the real one back."""
    path = fleet.root(server) / "usr/bin/python3"
    path.unlink()
    path.write_text(script)
    path.chmod(0o755)


@pytest.fixture
def rebooted(fleet: Fleet) -> Any:
    """Machines named here start anew after the test."""
    names: list[str] = []
    yield names
    for name in names:
        fleet.reboot(name)
        fleet.root(name).joinpath("root").chmod(0o711)


def test_C05_a_flood_ends_in_a_row(fleet: Fleet, audit: Audit, rebooted: list[str]) -> None:
    """Endless output costs bounded memory and a few seconds, and no other server anything."""
    rebooted.append("h002")
    disguise(fleet, "h002", _FLOOD)
    begin = time.monotonic()
    done = audit("--limit", "h001,h002")
    assert done.code == 0, done.out
    assert done.states["h001"].reason is None
    assert done.states["h002"].reason == "too_large", done.states["h002"]
    assert time.monotonic() - begin < 60
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert peak < 512 << 20, f"a process of the controller grew to {peak >> 20} MiB"


def test_R12_R14_an_answer_that_smuggles(fleet: Fleet, audit: Audit, rebooted: list[str], results: Path) -> None:
    """Escape codes, foreign keys and climbing paths in the module's answer reach neither terminal nor disk."""
    rebooted.append("h002")
    answer = {
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
        "warnings": ["\u001b[31mwarned\u001b[0m"],
        "deprecations": [{"msg": "\u001b[31mold\u001b[0m"}],
    }
    words = f"'noise before \x1b[31m' '{json.dumps(answer)}' 'junk after \x1b]0;x\x07'"
    disguise(fleet, "h002", _ANSWER.format(words=words))
    done = audit("--limit", "h001,h002", audit_limit=3)
    assert done.code == 0, done.out
    assert "\x1b" not in done.out and "\x07" not in done.out
    assert "\n✔ h001  forged line" not in done.out
    assert "evil" not in done.states
    assert done.states["h001"].reason is None and done.states["h002"].reason
    inside = {path.relative_to(results).parts[0] for path in results.rglob("*")}
    assert inside == {"fleet"} or inside == {"f"}, inside
    assert not Path("/tmp/climb").exists()


def test_the_status_of_a_hostile_probe_is_shown_tame(fleet: Fleet, audit: Audit, manner: Any) -> None:
    """A status of wrong types is refused, not drawn."""
    manner("h002", "hostile", seconds=0.5)
    done = audit("--limit", "h002")
    assert done.code == 0, done.out
    assert "\x1b" not in done.out and "\x07" not in done.out
    assert done.states["h002"].reason
