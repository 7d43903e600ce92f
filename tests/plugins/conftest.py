"""Lets tests import what Ansible ships to servers under the name it has there."""

from pathlib import Path

import ansible.module_utils

_ours = str(Path(__file__).parents[2] / "plugins" / "module_utils")
if _ours not in ansible.module_utils.__path__:
    ansible.module_utils.__path__.append(_ours)
