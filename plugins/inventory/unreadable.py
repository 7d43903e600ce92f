# Copyright: the auditor's authors
"""What is said of an inventory that no other plugin could read: which file, what is wrong with it, what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin

DOCUMENTATION = r"""
name: unreadable
short_description: The last of the inventory plugins, which reads nothing
description:
  - Where the cause is plain (no such file, no right to read it, broken YAML) one sentence is said and the play ends.
  - Else it fails like the plugins before it, whose own words Ansible prints.
"""

_HOW = "docs/inventories.md shows how to write one."


class InventoryModule(BaseInventoryPlugin):
    """Comes last in ansible.cfg."""

    NAME = "unreadable"

    def verify_file(self, path: str) -> bool:
        """Every source that is a path."""
        return "," not in path and path != "/etc/ansible/hosts"

    def parse(self, inventory: object, loader: object, path: str, cache: bool = True) -> None:
        """Never reads anything.

        Raises:
            SystemExit: the cause is plain; an AnsibleError would be printed below the guesses of all other plugins.
            AnsibleParserError: it is not.
        """
        trouble = _trouble(path)
        if trouble:
            sys.stderr.write(f"audit: {path}: {trouble}\n")
            raise SystemExit(2)
        raise AnsibleParserError(f"{path}: is no inventory that can be read; the lines above say why. {_HOW}")


def _trouble(path: str) -> str | None:
    if not Path(path).exists():
        return f"the inventory does not exist. Name one with -i, for example -i inventory/local; {_HOW}"
    try:
        with Path(path).open("rb") as file:
            list(yaml.parse(file, Loader=yaml.SafeLoader))
    except OSError as error:
        return f"the inventory cannot be read ({error.strerror}). Make it readable for you, or name another with -i."
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        if not path.endswith((".yml", ".yaml", ".json")):
            return None
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        what = getattr(error, "problem", None) or " ".join(str(error).split())
        return f"the inventory is not YAML ({where}{what}). Correct it there; {_HOW}"
    return None
