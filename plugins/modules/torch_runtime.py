#!/usr/bin/python
# Copyright: the auditor's authors
"""Ansible module: a torch of our own on a server that has none, in one folder, without root."""

from __future__ import annotations

DOCUMENTATION = r"""
module: torch_runtime
short_description: Brings a torch that the server's driver and GPUs can run
description:
  - Finds an interpreter with torch; where there is none, makes a virtual environment in a folder of its own and
    installs the build that fits the driver and the GPUs. Needs no root and installs into no interpreter that was there.
options:
  state:
    description: C(present) brings one, C(absent) removes every one that an audit brought.
    type: str
    choices: [present, absent]
    default: present
  version:
    description: The torch version; empty chooses by driver, GPUs and Python.
    type: str
    default: ""
  index:
    description: Package index for pip (a mirror), empty for the server's own setting.
    type: str
    default: ""
  wheel_index:
    description: Base address of torch's wheel indexes (below it lie cu126, cpu and so on).
    type: str
    default: https://download.pytorch.org/whl
  wheelhouse:
    description: A folder on the server with all wheels; pip then needs no network.
    type: str
    default: ""
  trusted_host:
    description: Host whose certificate pip does not check.
    type: str
    default: ""
  proxy:
    description: HTTP proxy for pip.
    type: str
    default: ""
  need_bytes:
    description: Room that must be free; 0 takes what the build needs.
    type: int
    default: 0
author:
  - The auditor's authors (@auditor)
"""

EXAMPLES = r"""
- name: Bring a torch
  torch_runtime:
    wheelhouse: /var/tmp/auditor-wheels
"""

RETURN = r"""
interpreter:
  description: The interpreter with torch.
  returned: when there is one
  type: str
reason:
  description: Why there is none, a fixed word; C(detail) is the sentence.
  returned: when there is none
  type: str
"""

import sys

from ansible.module_utils import torch_folder, torch_search
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.driver_plan import generation
from ansible.module_utils.host_facts import gather
from ansible.module_utils.torch_plan import choose


def wish(params: dict, facts: dict) -> torch_folder.Wish:
    """The build for this server, from the wishes and its facts.

    Raises:
        NotMade: no build runs here.
    """
    driver = str(facts.get("driver_version") or "").split(".")[0]
    names = [name for name in map(generation, facts.get("nvidia_devices") or ()) if name]
    chosen = choose(sys.version_info[:2], int(driver) if driver.isdigit() else None, names)
    if chosen.version is None and not params["version"]:
        raise torch_folder.NotMade("no_build", chosen.reason)
    offline = bool(params["wheelhouse"])
    cpu = chosen.index == "cpu"
    return torch_folder.Wish(
        params["version"] or chosen.version,
        "" if offline else params["index"],
        f"{params['wheel_index']}/{chosen.index}" if chosen.index and params["wheel_index"] and not offline else "",
        params["wheelhouse"],
        params["trusted_host"],
        params["proxy"],
        offline,
        params["need_bytes"] or (torch_folder.CPU_BYTES if cpu else torch_folder.CUDA_BYTES),
    )


def present(params: dict, check: bool) -> dict:
    """The interpreter that is there, was brought before, or is brought now."""
    there = torch_search.search()
    if there:
        return {"changed": False, "interpreter": there[0].interpreter, "torch": there[0].torch}
    wanted = wish(params, gather())
    kept = torch_folder.find(wanted)
    if kept:
        return {"changed": False, "interpreter": str(kept), "torch": wanted.version}
    if check:
        return {"changed": True, "plan": f"torch {wanted.version} in a folder of the audit's"}
    return {"changed": True, "interpreter": str(torch_folder.make(wanted)), "torch": wanted.version}


def main() -> None:
    """One state, one answer; no torch is an answer too, never a failure of the play."""
    text = {"type": "str", "default": ""}
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "version": text,
            "index": text,
            "wheel_index": {"type": "str", "default": "https://download.pytorch.org/whl"},
            "wheelhouse": text,
            "trusted_host": text,
            "proxy": text,
            "need_bytes": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    if module.params["state"] == "absent":
        folders = torch_folder.ours()
        left = [] if module.check_mode else [why for why in map(torch_folder.remove, folders) if why]
        module.exit_json(changed=bool(folders), removed=[str(folder) for folder in folders], left=left)
    try:
        answer = present(module.params, module.check_mode)
    except torch_folder.NotMade as error:
        answer = {"changed": False, "reason": error.reason, "detail": str(error)}
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
