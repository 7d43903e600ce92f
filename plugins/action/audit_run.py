# Copyright: the auditor's authors
"""Action: opens a run before any server is contacted, and at the end makes its report. Runs on the controller only.

state: opened    checks every name, order and wish of the play's servers, makes the run folder, returns it
state: reported  notes the end and runs `auditor report` on the folder
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

try:
    from auditor import collect
    from auditor.errors import UserError
except ImportError as error:
    raise AnsibleActionFail(
        f"this Python ({sys.executable}) lacks the auditor ({error}). Run `make setup` once and start "
        "`.venv/bin/ansible-playbook`, or activate .venv."
    ) from None

ROOT = Path(__file__).parents[2]
FAILING = {"never": (), "reject": (1,), "review": (1,), "incomplete": (1, 3)}


class ActionModule(ActionBase):
    """One of the two states; never contacts a server."""

    _requires_connection = False
    _VALID_ARGS = frozenset({"state", "results", "profile", "lang", "fail_on", "folder", "formats"})

    def run(self, tmp: None = None, task_vars: dict | None = None) -> dict:
        """Dispatch; a sentence where a person has to act."""
        result = super().run(tmp, task_vars)
        wishes = {name: str(value) for name, value in self._task.args.items() if value is not None}
        try:
            if wishes.get("state") == "opened":
                return result | self._open(wishes, task_vars or {})
            return result | self._report(wishes)
        except UserError as error:
            raise AnsibleActionFail(str(error)) from None

    def _open(self, wishes: dict[str, str], task_vars: dict) -> dict:
        if wishes["fail_on"] not in FAILING:
            raise UserError(f"audit_fail_on: {wishes['fail_on']!r} is none of {', '.join(FAILING)}.")
        if wishes["profile"] not in ("quick", "standard", "soak"):
            raise UserError(f"audit_profile: {wishes['profile']!r} is none of quick, standard, soak.")
        hostvars = task_vars["hostvars"]
        names = list(task_vars["ansible_play_hosts_all"])
        wanted = [self._wanted(name, hostvars[name]) for name in names]
        inventory = collect.inventory_name(task_vars.get("ansible_inventory_sources") or ["hosts"])
        if self._task.check_mode:
            collect.check(wanted)
            return {"changed": False, "folder": "", "servers": names}
        folder = collect.open_run(
            Path(wishes["results"]) if "results" in wishes else ROOT / "results",
            inventory,
            wanted,
            profile=wishes["profile"],
            of_inventory=len(task_vars["groups"]["all"]),
            lang=wishes.get("lang"),
        )
        collect.claim(folder, os.getppid())
        return {"changed": True, "folder": str(folder), "servers": names}

    def _wanted(self, name: str, known: dict) -> collect.Wanted:
        label = known.get("audit_label")
        return collect.Wanted(name, _plain(known.get("audit_order")), None if label is None else str(label))

    def _report(self, wishes: dict[str, str]) -> dict:
        if not wishes.get("folder"):
            return {"changed": False, "skipped": True}
        folder = Path(wishes["folder"])
        collect.close_run(folder)
        fail_on = wishes["fail_on"]
        argv = [sys.executable, "-m", "auditor", "report", str(folder)]
        argv += ["--fail-on", "review" if fail_on == "review" else "reject"]
        if wishes.get("lang"):
            argv += ["--lang", wishes["lang"]]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        failed = done.returncode in FAILING[fail_on] or done.returncode not in (0, 1, 3)
        message = f"audit_fail_on={fail_on}: a server is {'incomplete' if done.returncode == 3 else 'not accepted'}"
        if done.returncode not in (0, 1, 3):
            message = f"the report could not be made: {done.stderr.strip() or done.stdout.strip()}"
        return {
            "changed": True,
            "failed": failed,
            "msg": message if failed else "",
            "report": done.stdout,
            "folder": str(folder),
        }


def _plain(value: object) -> object:
    """Data of the inventory without Ansible's wrappers, as a strict reader expects it."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value
