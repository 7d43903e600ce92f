#!/usr/bin/python
# Copyright: the auditor's authors
"""Ansible module: what this server is, and what a preparation would install here. Changes nothing."""

DOCUMENTATION = r"""
module: host_plan
short_description: Tells what a server is and what preparing it would change
description:
  - Reads distribution, privilege, container, driver and its owner, Secure Boot, DCGM and more, and plans the install of
    driver and DCGM from them. Changes nothing, in check mode or out of it.
options:
  driver:
    description: Which drivers may be installed.
    type: str
    choices: [missing, never, manage]
    default: missing
  driver_branch:
    description: The wished driver branch; 0 takes the one that fits the GPUs.
    type: int
    default: 0
  driver_flavour:
    description: Which kernel module.
    type: str
    choices: [auto, open, proprietary]
    default: auto
  dcgm:
    description: Which DCGM may be installed.
    type: str
    choices: [missing, never, manage]
    default: missing
  simulate:
    description: Whether the package manager is asked (simulated) for the plan that would install something.
    type: bool
    default: false
author:
  - The auditor's authors (@auditor)
"""

EXAMPLES = r"""
- name: See what the server is and what would be installed
  host_plan:
    driver: missing
"""

RETURN = r"""
facts:
  description: What the server is.
  returned: always
  type: dict
driver:
  description: The plan for the driver (action, reason, packages).
  returned: always
  type: dict
dcgm:
  description: The plan for DCGM (action, reason, packages).
  returned: always
  type: dict
"""

from ansible.module_utils import dcgm_plan, driver_plan, simulation
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_facts import gather, run_program


def _spoken(argv):
    """A package manager's answer with its errors; the first look at a cold cache may take a minute."""
    return run_program(argv, errors=True, seconds=120.0)


def simulated(plan):
    """The plan, turned into a refusal when the package manager would do more than what was asked."""
    if plan.action != "install":
        return plan
    ask = simulation.apt if plan.family == "apt" else simulation.dnf
    done = ask(plan.first + plan.packages, _spoken)
    why = simulation.refusal(done, plan.packages)
    return (
        plan._replace(action="refuse", reason=why) if why else plan._replace(brings=tuple(name for name, _ in done.new))
    )


def main():
    """Read, plan, answer."""
    wish = {"type": "str", "choices": ["missing", "never", "manage"], "default": "missing"}
    module = AnsibleModule(
        argument_spec={
            "driver": wish,
            "driver_branch": {"type": "int", "default": 0},
            "driver_flavour": {"type": "str", "choices": ["auto", "open", "proprietary"], "default": "auto"},
            "dcgm": wish,
            "simulate": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    facts = gather()
    wishes = module.params
    driver = driver_plan.plan(facts, wishes["driver"], wishes["driver_branch"], wishes["driver_flavour"])
    dcgm = dcgm_plan.plan(facts, wishes["dcgm"])
    if wishes["simulate"]:
        driver, dcgm = simulated(driver), simulated(dcgm)
    module.exit_json(changed=False, facts=facts, driver=driver.as_dict(), dcgm=dcgm.as_dict())


if __name__ == "__main__":
    main()
