# Copyright: the auditor's authors
"""Action of the module gpu_probe: talks to one server and keeps, on the controller, what comes of it.

A server that cannot be reached, started or read is a state in the run folder and never fails the play. What the
server sends is reduced to known fields before anything else sees it. State `given_up` notes a task that Ansible
itself ended (a time limit); it contacts nobody.
"""

from __future__ import annotations

import base64
import hashlib
import resource
import time
from pathlib import Path

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

from auditor import answers, collect, no_module, reading, ssh_trouble
from auditor.answers import Answer, Spoiled
from auditor.showing import show

FILES = Path(__file__).parents[1] / "files"
_SPARE_BYTES = 160 << 20  # what a worker may grow by: room for the largest record four times over, not for a flood
_FATAL_POLLS = 3


class ActionModule(ActionBase):
    """One state on one server."""

    _VALID_ARGS = frozenset(
        {"state", "run", "probe", "options", "interpreter", "keep", "limit_seconds", "silence_seconds", "accept_new"}
    )

    def run(self, tmp: None = None, task_vars: dict | None = None) -> dict:
        """Dispatch; every ending is noted in the run folder."""
        result = super().run(tmp, task_vars)
        self._vars = dict(task_vars or {})
        self._server = str(self._vars["inventory_hostname"])
        self._wish = self._task.args
        self._folder = Path(str(self._wish.get("run") or ""))
        state = str(self._wish.get("state", "started"))
        self._bound_memory()
        try:
            return result | getattr(self, f"_{state}")()
        except AnsibleConnectionFailure as error:
            return result | self._lost(state, str(error))
        except (Spoiled, MemoryError) as error:
            flood = isinstance(error, MemoryError)
            detail = "it sent more than a record can hold" if flood else str(error)
            return result | self._ended(_PHASES[state], "too_large" if flood else "spoiled_answer", detail)
        except AnsibleActionFail:
            raise
        except AnsibleError as error:
            return result | self._ended(_PHASES[state], *_become_trouble(str(error)))

    # started ---------------------------------------------------------------------------------------------------

    def _started(self) -> dict:
        if self._task.check_mode:
            answer = self._ask(state="started", interpreter=self._wish.get("interpreter"))
            return {"changed": answer.reason is None, "plan": _facts(answer), "reason": answer.reason or ""}
        first_use = self._meet() if self._wish.get("accept_new") else {}
        payload = Path(str(self._wish["probe"])).read_bytes()
        arguments = {
            "state": "started",
            "server": self._server,
            "run": self._folder.name,
            "nonce": collect.nonce(self._folder, self._server),
            "payload": base64.b64encode(payload).decode("ascii"),
            "sha256": hashlib.sha256(payload).hexdigest(),
            "options": [str(word) for word in self._wish.get("options") or []],
            "interpreter": self._wish.get("interpreter"),
        }
        answer = self._ask(**arguments)
        taken: dict = {}
        if answer.reason == "busy" and isinstance(answer.running, answers.Running) and self._abandoned(answer.running):
            if answer.running.nonce == arguments["nonce"]:  # ssh tried the start twice: it is this very probe
                taken = {"nonce": answer.running.nonce}
            elif answer.running.same:
                taken = {"nonce": answer.running.nonce, "taken_over_from": answer.running.run}
            else:
                self._ask(state="absent", folder=answer.folder)
                answer = self._ask(**arguments)
        if answer.reason and not taken:
            return self._ended("start", answer.reason, answer.detail, **first_use)
        deadline = time.monotonic() + float(self._wish["limit_seconds"])
        details = _facts(answer) | first_use | taken | {"folder": answer.folder, "deadline": deadline}
        details["module_python"] = self._vars.get("ansible_python_interpreter")
        collect.note(self._folder, self._server, "measure", **details)
        return {"changed": True, "phase": "measure", "attached": bool(taken), "facts": _facts(answer)}

    def _abandoned(self, running: answers.Running) -> bool:
        """Whether that audit is one of ours whose controller has gone: known by the nonce that only we hold."""
        if not collect.RUN_ID.fullmatch(running.run):
            return False
        earlier = self._folder.parent / running.run
        if collect.nonce(earlier, self._server) != running.nonce:
            return False
        return earlier == self._folder or not collect.driven(earlier)

    def _meet(self) -> dict:
        """Accept the key of a server never met before, and note it as first use."""
        connection = self._connection
        if connection.transport != "ssh":
            return {}
        connection.set_option("ssh_args", f"-o StrictHostKeyChecking=accept-new {connection.get_option('ssh_args')}")
        key = self._shown_key()
        return {"host_key": key.fingerprint, "host_key_first_use": True} if key and key.first_use else {}

    # collected -------------------------------------------------------------------------------------------------

    def _collected(self) -> dict:
        known = collect.state(self._folder, self._server) if self._wish.get("run") else None
        if self._task.check_mode or known is None or known.phase != "measure" or known.reason:
            return {"skipped": True, "finished": True}
        self._known = known.details
        if known.details.get("module_python"):
            self._vars["ansible_python_interpreter"] = known.details["module_python"]
        late = time.monotonic() > float(known.details["deadline"])
        answer = self._ask(state="collected", folder=known.details["folder"], stop=late)
        folder = str(known.details["folder"])
        if late and not answer.finished and not answer.reason:  # told to stop, it must have
            return self._ended("measure", "timed_out", "it did not stop when its time was over") | self._cleaned(folder)
        if not answer.finished and not answer.reason:
            if "silent_since" in known.details:
                collect.note(self._folder, self._server, "measure", silent_since=None)
            return _progress(answer)
        data = answers.record_bytes(answer)
        if data is None:
            outcome = self._ended("measure", *_no_record(answer), exit=answer.exit)
        else:
            outcome = self._kept(data, answer, late)
        return outcome | self._cleaned(folder)

    def _kept(self, data: bytes, answer: Answer, late: bool) -> dict:
        digest = collect.keep_record(self._folder, self._server, data)
        read = reading.read_bytes(data)
        if isinstance(read, reading.Refused):
            return self._ended("collect", "record_refused", str(read))
        if late:
            seconds = int(float(self._wish["limit_seconds"]))
            return self._ended("measure", "timed_out", f"stopped after {seconds} s; what it had measured was kept")
        collect.note(self._folder, self._server, "done", exit=answer.exit)
        return _progress(answer) | {
            "changed": True,
            "finished": True,
            "phase": "done",
            "sha256": digest,
            "percent": 100,
        }

    def _cleaned(self, folder: str) -> dict:
        """Remove everything from the server; what stays is noted, the record is safe already."""
        if self._wish.get("keep"):
            return {}
        try:
            left = self._ask(state="absent", folder=folder).left
        except (AnsibleError, Spoiled, MemoryError) as error:
            left = [show(error, 120)]
        known = collect.state(self._folder, self._server)
        if left and known:
            collect.note(
                self._folder, self._server, known.phase, known.reason, known.detail, left_behind=show("; ".join(left))
            )
        return {"left": [show(one) for one in left]}

    # absent, given_up ------------------------------------------------------------------------------------------

    def _absent(self) -> dict:
        answer = self._ask(state="absent")
        removed = [show(one) for one in answer.removed]
        return {"changed": bool(removed), "removed": removed, "left": [show(one) for one in answer.left]}

    def _given_up(self) -> dict:
        failed = self._vars.get("ansible_failed_result") or {}
        said = show(failed.get("msg", "the task was ended"), 300)
        phase = "measure" if collect.state(self._folder, self._server) else "start"
        reason = "timed_out" if "imed out" in said or "imeout" in said else "failed"
        return self._ended(phase, reason, said)

    # shared ----------------------------------------------------------------------------------------------------

    def _ask(self, **arguments: object) -> Answer:
        """Run the module; where it cannot even start, find out why with nothing but a shell."""
        arguments = {name: value for name, value in arguments.items() if value is not None}
        result = self._execute_module(module_name="gpu_probe", module_args=arguments, task_vars=self._vars)
        if isinstance(result.get("probe"), dict):
            return answers.understand(result["probe"])
        if result.get("skipped"):
            return Answer()
        said = f"{result.get('module_stdout', '')}\n{result.get('module_stderr', '')}"
        if not said.strip():
            return Answer(reason="module_failed", detail=show(result.get("msg"), 200), finished=True)
        script = (FILES / "preflight.sh").read_bytes()
        printed = self._low_level_execute_command("/bin/sh", in_data=script).get("stdout", "")
        used = str(self._vars.get("ansible_python_interpreter") or "/usr/bin/python3")
        cause = no_module.diagnose(printed, used, said)
        if cause.python:
            self._vars["ansible_python_interpreter"] = cause.python
            return self._ask(**arguments)
        return Answer(reason=cause.reason, detail=cause.detail)

    def _parse_returned_data(self, res: dict, profile: str) -> dict:
        """Only the module's own line reaches Ansible's parser: a shell's noise would be shown as a warning, raw."""
        out = res.get("stdout", "")
        if len(out) > answers.MAX_ANSWER_BYTES:
            raise Spoiled(f"it sent {len(out)} bytes instead of an answer")
        lines = [line for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
        return super()._parse_returned_data({**res, "stdout": lines[-1] if lines else ""}, profile) | (
            {} if lines else {"module_stdout": out}
        )

    def _bound_memory(self) -> None:
        """A server that never stops sending must hit a wall here, in this worker, and nowhere else."""
        if self._connection.transport == "local":  # the probe would inherit the limit
            return
        used = next(
            int(line.split()[1]) * 1024
            for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines()
            if line.startswith("VmData:")
        )
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (used + _SPARE_BYTES, hard))

    def _lost(self, state: str, said: str) -> dict:
        """The connection failed: an ending before the probe runs, patience while it does."""
        trouble = ssh_trouble.explain(said)
        sentence = trouble.sentence
        if trouble.reason == "host_key_unknown":
            key = self._shown_key()
            if key:
                sentence = ssh_trouble.how_to_accept(*self._where(), key)
        if state != "collected":
            return self._ended("reach", trouble.reason, sentence, unreachable=True)
        now = time.monotonic()
        since = float(self._known.get("silent_since") or now)
        if now - since < float(self._wish["silence_seconds"]):
            collect.note(self._folder, self._server, "measure", silent_since=since)
            return {"finished": False, "msg": sentence, "silent": round(now - since)}
        return self._ended("measure", trouble.reason, f"lost in mid-probe: {sentence}", unreachable=True)

    def _ended(self, phase: str, reason: str, detail: str | None, *, unreachable: bool = False, **more: object) -> dict:
        if self._wish.get("run"):
            collect.note(self._folder, self._server, phase, reason, detail, **more)
        out = {"finished": True, "phase": phase, "reason": reason, "msg": show(detail or reason, 400)}
        return {**out, "unreachable": True} if unreachable else out

    def _shown_key(self) -> ssh_trouble.HostKey | None:
        """The key the server shows, learned by one more connection that goes no further than needed."""
        connection = self._connection
        try:
            argv = connection._build_command("ssh", "ssh", "-v", "-o", "BatchMode=yes", "-o", "ControlPath=none",
                                             connection.host, "true")  # fmt: skip
            _, _, said = connection._bare_run(argv, None, sudoable=False, checkrc=False)
        except (AnsibleError, AttributeError):
            return None
        return ssh_trouble.host_key(said.decode("utf-8", "replace"))

    def _where(self) -> tuple[str, int | None]:
        user = self._connection.get_option("remote_user")
        host = str(self._connection.get_option("host"))
        return (f"{user}@{host}" if user else host), self._connection.get_option("port")


_PHASES = {"started": "start", "collected": "collect", "absent": "clean", "given_up": "start"}


def _facts(answer: Answer) -> dict:
    return {name: getattr(answer, name) for name in ("interpreter", "torch", "cuda", "python") if getattr(answer, name)}


def _progress(answer: Answer) -> dict:
    return {
        "finished": False,
        "percent": answer.percent,
        "step": answer.step,
        "figures": answer.figures or {},
    }


def _no_record(answer: Answer) -> tuple[str, str]:
    """Why a probe that ended left no record."""
    words = f" ({answer.last_words})" if answer.last_words else ""
    if answer.rebooted:
        return "rebooted", "the server was restarted in the middle of the audit"
    if answer.reason:
        return ("record_refused" if answer.reason == "too_large" else answer.reason), answer.detail or answer.reason
    if answer.exit is None:
        return "probe_died", f"the probe was killed from outside or ran out of memory{words}"
    return "no_record", f"the probe ended with code {answer.exit} and wrote no record{words}"


def _become_trouble(said: str) -> tuple[str, str]:
    if "password" in said:
        return "sudo_refused", "sudo asks for a password: pass --ask-become-pass, or audit without become"
    return "failed", said
