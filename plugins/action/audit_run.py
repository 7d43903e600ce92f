# Copyright: the auditor's authors
"""Action: opens a run before any server is contacted, and at the end makes its report. Runs on the controller only.

state: counted   fails with a sentence where the inventory has no server
state: opened    checks every name, order and wish of the play's servers, makes the run folder, returns it;
                 where tags leave the measuring out, returns the latest run's folder instead
state: reported  notes the end and runs `auditor report` on the folder
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

try:
    from auditor.errors import UserError
    from auditor.transport import collect, wishes
except ImportError as error:
    raise AnsibleActionFail(
        f"this Python ({sys.executable}) lacks the auditor ({error}). Run `make setup` once and start "
        "`.venv/bin/ansible-playbook`, or activate .venv."
    ) from None

ROOT = Path(__file__).parents[2]
PROBE = ROOT / "build" / "auditor-probe.pyz"
FAILING = {"never": (), "reject": (1,), "review": (1,), "incomplete": (1, 3)}


class ActionModule(ActionBase):
    """One of its states; never contacts a server."""

    _requires_connection = False
    _VALID_ARGS = frozenset({"state", "folder"})

    def run(self, tmp: None = None, task_vars: dict | None = None) -> dict:
        """Dispatch; a sentence where a person has to act."""
        result, variables = super().run(tmp, task_vars), task_vars or {}
        try:
            if self._task.args.get("state") == "counted":
                return result | self._count(variables)
            if self._task.args.get("state") == "opened":
                return result | self._open(variables)
            own = _audit_variables(variables["hostvars"][variables["inventory_hostname"]])
            return result | self._report(str(self._task.args.get("folder") or ""), wishes.read(own, "audit"))
        except UserError as error:
            raise AnsibleActionFail(str(error)) from None

    def _count(self, variables: dict) -> dict:
        if not variables["groups"]["all"]:
            named = ", ".join(map(str, variables.get("ansible_inventory_sources") or ["(none given: -i INVENTORY)"]))
            raise UserError(f"{named}: the inventory has no server. docs/inventories.md shows how to write one.")
        return {"changed": False}

    def _open(self, variables: dict) -> dict:
        names = list(variables["ansible_play_hosts_all"])
        own = {name: _audit_variables(variables["hostvars"][name]) for name in names}
        wished = {name: wishes.read(own[name], name) for name in names}
        first = wished[names[0]]
        wanted = [collect.Wanted(name, wish.order, wish.label) for name, wish in wished.items()]
        bad = collect.check(wanted).bad
        missing = next(
            (wish.probe or PROBE for wish in wished.values() if not Path(wish.probe or PROBE).exists()), None
        )
        if missing:
            raise UserError(f"{missing}: the probe file is missing. `make pyz` builds it.")
        if self._task.check_mode:
            return {"changed": False, "folder": "", "servers": names, "bad_orders": bad}
        sources = variables.get("ansible_inventory_sources") or ["hosts"]
        results = Path(first.results) if first.results else ROOT / "results"
        inventory = collect.inventory_name([str(source) for source in sources])
        if not _measuring(variables):
            return {"changed": False, "folder": str(collect.latest_run(results / inventory))}
        folder = collect.open_run(
            results,
            inventory,
            wanted,
            profile=first.profile,
            of_inventory=len(variables["groups"]["all"]),
            lang=first.lang,
        )
        collect.claim(folder, os.getppid())
        return {"changed": True, "folder": str(folder), "servers": names, "bad_orders": bad}

    def _report(self, named: str, wish: wishes.Wishes) -> dict:
        if not named:
            return {"changed": False, "skipped": True}
        folder = Path(named)
        if (folder / "controller.json").exists():  # else it was closed before, and is only reported again
            collect.close_run(folder)
        argv = [sys.executable, "-m", "auditor", "report", str(folder), "--lang", wish.lang]
        argv += ["--fail-on", "review" if wish.fail_on == "review" else "reject"]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        # a program that broke ends with 1, as a rejected server does: only the workbook itself tells them apart
        written = done.returncode in (0, 1, 3) and (folder / "report" / "report.xlsx").exists()
        failed = not written or done.returncode in FAILING[wish.fail_on]
        message = (
            f"audit_fail_on: {wish.fail_on}: a server is {'incomplete' if done.returncode == 3 else 'not accepted'}"
        )
        if not written:
            said = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
            message = f"the report could not be made: {said}. Try `auditor report {folder}`."
        return {
            "changed": True,
            "failed": failed,
            "msg": message if failed else "",
            "report": done.stdout,
            "folder": named,
        }


def _measuring(variables: Mapping[str, object]) -> bool:
    """Whether the tags of the command line let a server be measured at all."""
    wanted, unwanted = variables.get("ansible_run_tags", ["all"]), variables.get("ansible_skip_tags", [])
    return bool({"all", "tagged", "measure"} & set(wanted)) and "measure" not in unwanted


def _audit_variables(known: Mapping[str, object]) -> dict[str, object]:
    return {str(name): known[name] for name in known if str(name).startswith("audit_")}
