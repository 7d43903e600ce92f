# Copyright: the auditor's authors
"""Action of the module gpu_probe: what an audit does with one server, and what the run folder is told of it.

A server that cannot be reached, started or read is a state in the run folder and never fails the play. The wishes
are the server's `audit_*` variables. `given_up` notes a task that Ansible itself ended, and contacts nobody.
"""

from __future__ import annotations

import base64
import hashlib
import time
from pathlib import Path

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError

from auditor import reading
from auditor.errors import UserError
from auditor.showing import show
from auditor.transport import answers, collect, ssh_trouble, sudo_trouble, warmth, wishes
from auditor.transport.answers import Answer, Spoiled
from auditor.transport.asking import Asking

ROOT = Path(__file__).parents[2]
PROBE = ROOT / "build" / "auditor-probe.pyz"
UNREADY = "audit_unready"
warmth.warm()
_PHASES = {"started": "start", "collected": "collect", "absent": "clean", "given_up": "start"}


class ActionModule(Asking):
    """One state on one server."""

    _VALID_ARGS = frozenset({"state", "run", "prepared"})

    def run(self, tmp: None = None, task_vars: dict | None = None) -> dict:
        """Dispatch; every ending is noted in the run folder."""
        result = super().run(tmp, task_vars)
        self.variables = dict(task_vars or {})
        self._server = str(self.variables["inventory_hostname"])
        self._folder = Path(str(self._task.args.get("run") or ""))
        self._known = collect.state(self._folder, self._server) if self._folder.name else None
        state = str(self._task.args.get("state", "started"))
        if self._folder.name and state != "given_up" and not collect.driven(self._folder):
            raise AnsibleActionFail(
                "the audit was ended, this worker outlived it"
            )  # or it would clean up after a rerun
        try:
            ours = {name: value for name, value in self.variables.items() if name.startswith("audit_")}
            self._wishes = wishes.read(
                {name: self._templar.template(value) for name, value in ours.items()}, self._server
            )
            return result | getattr(self, f"_{state}")()
        except AnsibleConnectionFailure as error:
            return result | self._lost(state, str(error))
        except MemoryError:
            return result | self._ended(_PHASES[state], "too_large", "it sent more than any record can hold")
        except Spoiled as error:
            return result | self._ended(_PHASES[state], "spoiled_answer", str(error))
        except UserError as error:
            raise AnsibleActionFail(str(error)) from None
        except AnsibleActionFail:
            raise
        except AnsibleError as error:
            return result | self._refused(state, str(error))

    # started ---------------------------------------------------------------------------------------------------

    def _started(self) -> dict:
        if self._known and (self._known.reason or self._known.phase == "measure"):
            return {"skipped": True}
        first_use = self._meet()
        if self._task.check_mode:
            answer = self.ask(state="started", **self._preparing())
            plan = {"changed": answer.reason is None, "plan": _plan(answer), "reason": answer.reason or ""}
            return plan | ({"msg": show(answer.detail, 400)} if answer.reason and answer.detail else {})
        arguments = self._arguments()
        answer = self.ask(**arguments)
        if answer.listing is not None:
            collect.keep_listing(self._folder, self._server, "before", answer.listing)
        if answer.lacks:
            collect.note(self._folder, self._server, "start", **_facts(answer), **first_use)
            unready: dict[str, str] = {}
            if hasattr(self, "add_group"):  # ansible-core 2.21; before it, the answer itself says so
                self.add_group(UNREADY, parent_group_names=["all"])
            else:
                unready["add_group"] = UNREADY
            return {**unready, "changed": False, "lacks": answer.lacks, "plan": _plan(answer)}
        taken = self._taken_over(answer)
        if taken is None and answer.reason == "busy" and self._ours(answer):
            self.ask(state="absent", folder=answer.folder)  # an abandoned audit of ours that measures something else
            answer = self.ask(**arguments)
        if answer.reason and taken is None:
            return self._ended("start", answer.reason, answer.detail, **first_use)
        details = _facts(answer) | first_use | (taken or {}) | self._not_brought(answer)
        details["folder"] = answer.folder
        details["deadline"] = time.monotonic() + self._wishes.limit_seconds
        details["module_python"] = _text_or_none(self.variables.get("ansible_python_interpreter"))
        collect.note(self._folder, self._server, "measure", **details)
        facts = _facts(answer) | self._not_brought(answer)
        return {"changed": True, "phase": "measure", "attached": taken is not None, "facts": facts}

    def _not_brought(self, answer: Answer) -> dict:
        """Why there is no torch or no driver: in a role's words where it was asked to, else in the preflight's."""
        prepared = bool(self._task.args.get("prepared"))
        torch = self.variables.get("probe_runtime_brought") if prepared else None
        driver = self.variables.get("nvidia_driver_result") if prepared else None
        out = {}
        if isinstance(torch, dict) and torch.get("reason"):
            out["torch_missing"] = torch.get("detail") or torch["reason"]
        refused = [step.partition(", ")[2] for step in answer.plan if step.startswith("driver: refuse, ")]
        if isinstance(driver, dict) and driver.get("reason"):
            out["driver_missing"] = driver["reason"]
        elif refused and not (answer.facts or {}).get("driver_version"):
            out["driver_missing"] = refused[0]
        return {name: show(said, 250).replace("; ", ", ") for name, said in out.items()}  # "; " parts reasons there

    def _arguments(self) -> dict:
        probe = Path(self._wishes.probe or PROBE).read_bytes()
        return {
            "state": "started",
            "server": self._server,
            "run": self._folder.name,
            "nonce": collect.nonce(self._folder, self._server),
            "payload": base64.b64encode(probe).decode("ascii"),
            "sha256": hashlib.sha256(probe).hexdigest(),
            "options": self._wishes.options(),
            "lifetime": self._wishes.limit_seconds + self._wishes.lifetime,
            **self._preparing(),
        }

    def _preparing(self) -> dict:
        """Whether a server that lacks something is to be left for the roles first; --tags may leave them out."""
        wanted, unwanted = self.variables.get("ansible_run_tags", ()), self.variables.get("ansible_skip_tags", ())
        may = ("all" in wanted or "prepare" in wanted) and "prepare" not in unwanted
        return {
            "interpreter": self._wishes.interpreter,
            "prepare": may and not self._task.args.get("prepared", False),
            "driver": self._wishes.driver,
            "dcgm": self._wishes.dcgm,
            "keep": self._wishes.keep,
        }

    def _taken_over(self, answer: Answer) -> dict | None:
        """What to note when the probe that runs there already is this run's own, or an abandoned one of ours."""
        running = answer.running
        if answer.reason != "busy" or not isinstance(running, answers.Running):
            return None
        if running.nonce == collect.nonce(self._folder, self._server):
            return {}  # the connection broke after the start, and ssh tried the start again
        if running.same and self._ours(answer):
            return {"nonce": running.nonce, "taken_over_from": running.run}
        return None

    def _ours(self, answer: Answer) -> bool:
        """Whether that audit is one of ours whose controller has gone: known by the nonce that only we hold."""
        running = answer.running
        if not isinstance(running, answers.Running) or not collect.RUN_ID.fullmatch(running.run):
            return False
        earlier = self._folder.parent / running.run
        return collect.nonce(earlier, self._server) == running.nonce and not collect.driven(earlier)

    def _meet(self) -> dict:
        """With the wish to: accept the key of a server never met before, and note it as first use."""
        connection = self._connection
        if not self._wishes.accept_new_host_keys or connection.transport != "ssh":
            return {}
        connection.set_option("ssh_args", f"-o StrictHostKeyChecking=accept-new {connection.get_option('ssh_args')}")
        key = self.shown_key()
        return {"host_key": key.fingerprint, "host_key_first_use": True} if key and key.first_use else {}

    # collected -------------------------------------------------------------------------------------------------

    def _collected(self) -> dict:
        known = self._known
        if self._task.check_mode or known is None or known.phase != "measure" or known.reason:
            return {"skipped": True, "finished": True}
        if known.details.get("module_python"):
            self.variables["ansible_python_interpreter"] = known.details["module_python"]
        folder = str(known.details["folder"])
        late = time.monotonic() > float(known.details["deadline"])
        answer = self.ask(state="collected", folder=folder, stop=late)
        if answer.finished or answer.reason:
            return self._finished(answer, late) | self._cleaned(folder)
        if late:  # told to stop, it must have
            return self._ended("measure", "timed_out", "it did not stop when its time was over") | self._cleaned(folder)
        if known.details.get("silent_since"):
            collect.note(self._folder, self._server, "measure", silent_since=None)
        return _progress(answer)

    def _finished(self, answer: Answer, late: bool) -> dict:
        data = answers.record_bytes(answer)
        if data is None:
            return self._ended("measure", *_no_record(answer), exit=answer.exit)
        digest = collect.keep_record(self._folder, self._server, data)
        read = reading.read_bytes(data)
        if isinstance(read, reading.Refused):
            return self._ended("collect", "record_refused", str(read))
        if late:
            stopped = f"stopped after {self._wishes.limit_seconds:.0f} s; what it had measured was kept"
            return self._ended("measure", "timed_out", stopped)
        collect.note(self._folder, self._server, "done", exit=answer.exit)
        done = {"changed": True, "finished": True, "phase": "done", "sha256": digest, "percent": 100}
        return _progress(answer) | done

    def _cleaned(self, folder: str) -> dict:
        """Remove everything from the server; what stays is noted, the record is safe already."""
        if self._wishes.keep:
            return {}
        before = collect.listings(self._folder, self._server).get("before", {})
        try:
            gone = self.ask(
                state="absent",
                folder=folder,
                packages_before=before.get("packages") if self._wishes.remove_packages else None,
            )
            left = gone.left
            if gone.listing is not None:
                collect.keep_listing(self._folder, self._server, "after", gone.listing)
                left = left or collect.left_behind(self._folder, self._server, self._wishes.remove_packages)
        except (AnsibleError, Spoiled, MemoryError) as error:
            left = [show(error, 120)]
        known = collect.state(self._folder, self._server)
        if left and known:
            words = show("; ".join(left))
            collect.note(self._folder, self._server, known.phase, known.reason, known.detail, left_behind=words)
        return {"left": [show(one) for one in left]}

    # absent, given_up ------------------------------------------------------------------------------------------

    def _absent(self) -> dict:
        answer = self.ask(state="absent")
        removed = [show(one) for one in answer.removed]
        return {"changed": bool(removed), "removed": removed, "left": [show(one) for one in answer.left]}

    def _given_up(self) -> dict:
        failed = self.variables.get("ansible_failed_result") or {}
        said = show(failed.get("msg", "the task was ended"), 300)
        phase = self._known.phase if self._known else "start"
        return self._ended(phase, "timed_out" if "imed out" in said else "failed", said)

    # shared ----------------------------------------------------------------------------------------------------

    def _lost(self, state: str, said: str) -> dict:
        """The connection failed: an ending before the probe runs, patience while it does."""
        trouble = ssh_trouble.explain(said)
        destination, port = self.where()
        sentence = f"{destination}{f' port {port}' if port else ''}: {trouble.sentence}"
        if trouble.reason == "host_key_unknown" and (key := self.shown_key()):
            sentence = ssh_trouble.how_to_accept(destination, port, key)
        if state != "collected" or not self._known:
            return self._ended("reach", trouble.reason, sentence, unreachable=True)
        now = time.monotonic()
        since = float(self._known.details.get("silent_since") or now)
        if now - since < self._wishes.silence:
            collect.note(self._folder, self._server, "measure", silent_since=since)
            return {"finished": False, "msg": sentence, "silent": round(now - since)}
        return self._ended("measure", trouble.reason, f"lost in mid-probe: {sentence}", unreachable=True)

    def _refused(self, state: str, said: str) -> dict:
        """Ansible itself gave up before or while it talked: sudo, a missing program of the controller, or its words."""
        if sentence := sudo_trouble.explain(said):
            return self._ended(_PHASES[state], sudo_trouble.REASON, sentence)
        if "sshpass" in said:
            trouble = ssh_trouble.explain(said)
            return self._ended("reach", trouble.reason, trouble.sentence)
        return self._ended(_PHASES[state], "failed", said)

    def _ended(self, phase: str, reason: str, detail: str | None, *, unreachable: bool = False, **more: object) -> dict:
        if self._folder.name and not self._task.check_mode:
            collect.note(self._folder, self._server, phase, reason, detail, **more)
        out = {"finished": True, "phase": phase, "reason": reason, "msg": show(detail or reason, 400)}
        return {**out, "unreachable": True} if unreachable else out


def _facts(answer: Answer) -> dict:
    """What the preflight found, for the state and the display."""
    known = {
        name: getattr(answer, name) for name in ("interpreter", "torch", "cuda", "chosen") if getattr(answer, name)
    }
    return known | (answer.facts or {})


def _plan(answer: Answer) -> dict:
    return {**_facts(answer), "steps": answer.plan}


def _progress(answer: Answer) -> dict:
    return {"finished": False, "percent": answer.percent, "step": answer.step, "figures": answer.figures or {}}


def _no_record(answer: Answer) -> tuple[str, str]:
    """Why a probe that ended left no record."""
    words = answer.last_words or ""
    if answer.rebooted:
        return "rebooted", "the server was restarted in the middle of the audit"
    if answer.reason:
        return ("record_refused" if answer.reason == "too_large" else answer.reason), answer.detail or answer.reason
    if "another audit is under way" in words:
        return "busy", words
    if answer.exit is None:
        return "probe_died", f"the probe was killed from outside or ran out of memory ({words or 'no last words'})"
    return "no_record", f"the probe ended with code {answer.exit} and wrote no record ({words or 'no last words'})"


def _text_or_none(value: object) -> str | None:
    """A variable's text without Ansible's wrappers, which no encoder knows."""
    return None if value is None else str.__str__(str(value))
