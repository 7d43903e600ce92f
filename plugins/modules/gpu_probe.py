#!/usr/bin/python
# Copyright: the auditor's authors
"""Ansible module: start the probe on a server, collect its record, leave nothing behind."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_probe
short_description: Measures a GPU server with the auditor's probe file
description:
  - C(started) makes one private folder, puts the probe file there, finds the Python that has torch, and starts the
    probe detached, so that a cut connection costs nothing.
  - C(collected) tells how far the probe is and, once it has ended, brings its record.
  - C(absent) ends what runs and removes every trace.
  - The action plugin of the same name fills in payload, nonce and folder; a playbook names only the wishes.
options:
  state:
    description: What is wanted.
    type: str
    choices: [started, collected, absent]
    default: started
  run:
    description: The run's folder on the controller; on the server only its id arrives.
    type: str
  server:
    description: The server's name in the inventory.
    type: str
  nonce:
    description: Random hexadecimal text that the record repeats.
    type: str
  payload:
    description: The probe file, base64.
    type: str
  sha256:
    description: The probe file's hash, verified here before it runs.
    type: str
  options:
    description: Further words of the probe's command line.
    type: list
    elements: str
    default: []
  interpreter:
    description: The Python to measure with; found by itself when not given.
    type: str
  prepare:
    description: Whether a server that lacks a driver, DCGM or torch is told so instead of being measured.
    type: bool
    default: false
  driver:
    description: Which driver the roles may install (C(missing), C(never), C(manage)).
    type: str
    default: missing
  dcgm:
    description: Which DCGM the roles may install (C(missing), C(never), C(manage)).
    type: str
    default: missing
  keep:
    description: Whether a folder that an earlier audit was told to keep is used again.
    type: bool
    default: false
  lifetime:
    description: Seconds after which the server itself removes what an audit left that nobody collected.
    type: float
    default: 86400
  folder:
    description: The audit's folder on this server.
    type: str
  stop:
    description: With C(collected), end a probe that still runs and bring what it has.
    type: bool
    default: false
  packages_before:
    description: With C(absent), packages of the driver stack that came since this list are removed.
    type: list
    elements: str
  limit:
    description: The most bytes a record may have.
    type: int
    default: 8388608
author:
  - The auditor's authors (@auditor)
"""

EXAMPLES = r"""
- name: Start the probe
  gpu_probe:
    state: started
    run: "{{ audit_opened.folder }}"
"""

RETURN = r"""
reason:
  description: A fixed word where the wish could not be met (disk_full, read_only, busy, ...).
  returned: sometimes
  type: str
finished:
  description: With C(collected), whether the probe has ended.
  returned: with collected
  type: bool
"""

from ansible.module_utils import guest_audit
from ansible.module_utils.basic import AnsibleModule

_STATES = {"started": guest_audit.start, "collected": guest_audit.collect, "absent": guest_audit.absent}


def main() -> None:
    """One state, one answer; what a server cannot do is an answer too, never a failure of the play."""
    text = {"type": "str"}
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["started", "collected", "absent"], "default": "started"},
            "run": text, "server": text, "nonce": text, "payload": text, "sha256": text, "interpreter": text,
            "prepare": {"type": "bool", "default": False},
            "driver": {"type": "str", "default": "missing"}, "dcgm": {"type": "str", "default": "missing"},
            "folder": text, "options": {"type": "list", "elements": "str", "default": []},
            "keep": {"type": "bool", "default": False}, "lifetime": {"type": "float", "default": 86400.0},
            "packages_before": {"type": "list", "elements": "str"},
            "stop": {"type": "bool", "default": False}, "limit": {"type": "int", "default": 8 << 20},
        },
        supports_check_mode=True,
    )  # fmt: skip
    params = dict(module.params)
    module.params.clear()  # or the answer would carry the probe file back
    state = params["state"]
    try:
        if module.check_mode:
            answer = guest_audit.preflight(params) if state == "started" else {}
        else:
            answer = _STATES[state](params)
    except guest_audit.Obstacle as obstacle:
        answer = obstacle.answer
    module.exit_json(changed=state == "started" and "pid" in answer or bool(answer.get("removed")), probe=answer)


if __name__ == "__main__":
    main()
