"""What is sent to start the agent: one shell command that any login shell understands, and the agent as text.

The command uses no quote of its own but the outer one, no newline and no `!`, so that bash, dash, zsh, fish, tcsh and
busybox read it alike. It looks for a Python >= 3.8 and has it read the agent from stdin: nothing is written for it, and
with -B no cache of a module either.
"""

from __future__ import annotations

import secrets
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_SHARED = _ROOT / "plugins" / "module_utils"
_ONSERVER = Path(__file__).parent / "onserver"
_SHARED_NAMES = ("detached", "guest_folder", "torch_search")
_OWN_NAMES = ("notes", "place", "keeper", "agent")

# The system's first, then where images put theirs; an unmatched pattern stays a word that is no program.
_PYTHONS = (
    "python3 python /usr/bin/python3 /usr/bin/python3.? /usr/bin/python3.?? /usr/local/bin/python3 "
    "/usr/local/bin/python3.? /usr/local/bin/python3.?? /usr/libexec/platform-python /opt/*/bin/python3 "
    "/opt/*/*/bin/python3 /venv/bin/python3 /venv/*/bin/python3 /workspace/*/bin/python3 $HOME/*/bin/python3 "
    "$HOME/.*/bin/python3 /home/*/*/bin/python3"
)
_BOOT = "import sys;i=sys.stdin.buffer;exec(i.read(int(i.readline())))"
_OLD_ENOUGH = "import sys;sys.exit(sys.version_info<(3,8))"


def marker() -> str:
    """A word no banner holds by chance."""
    return "auditor-" + secrets.token_hex(16)


def command(mark: str, python: str | None = None) -> str:
    """The command for the login shell; `python` is tried before the usual places."""
    loop = (
        f"for p in {python or ''} {_PYTHONS}; do "
        f'if "$p" -B -c "{_OLD_ENOUGH}" </dev/null >/dev/null 2>&1; then exec "$p" -B -c "{_BOOT}"; fi; done; '
        f'echo; echo {mark} no_python 0; echo'
    )  # fmt: skip
    return f"exec /bin/sh -c '{loop}'"


@cache
def _sources() -> list[tuple[str, str]]:
    shared = [(f"ansible.module_utils.{name}", _SHARED / f"{name}.py") for name in _SHARED_NAMES]
    own = [(f"auditor.quick.onserver.{name}", _ONSERVER / f"{name}.py") for name in _OWN_NAMES]
    return [(name, path.read_text(encoding="utf-8")) for name, path in shared + own]


def agent(mark: str) -> bytes:
    """The agent as the command's Python reads it: its length on a line, then its text."""
    lines = ["import sys, types"]
    parents = ("ansible", "ansible.module_utils", "auditor", "auditor.quick", "auditor.quick.onserver")
    lines += [f"sys.modules[{name!r}] = types.ModuleType({name!r})" for name in parents]
    for name, text in _sources():
        parent, _, short = name.rpartition(".")
        lines.append(f"m = sys.modules[{name!r}] = types.ModuleType({name!r})")
        lines.append(f"sys.modules[{parent!r}].{short} = m")
        lines.append(f"exec(compile({ascii(text)}, {short + '.py'!r}, 'exec', 0, True), m.__dict__)")
    lines.append(f"m.main({mark!r}, sys.stdin.buffer, sys.stdout.buffer)")
    data = "\n".join(lines).encode("ascii")
    return b"%d\n%s" % (len(data), data)
