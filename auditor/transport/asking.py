"""Runs the module gpu_probe on one server and lets through only what it may say.

A server is a stranger: its answer is cut at a size, only the module's own line reaches Ansible's parser, only known
fields come out (`auditor.transport.answers`). Where no module can start, a shell is asked why.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

from auditor.showing import show
from auditor.transport import answers, no_module, ssh_trouble, sudo_trouble
from auditor.transport.answers import Answer, Spoiled

_PREFLIGHT = Path(__file__).parents[2] / "plugins" / "files" / "preflight.sh"
_SPARE_BYTES = 160 << 20  # what a worker may grow by: room for the largest record four times over, not for a flood


class Asking(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """The part of the action that talks; `variables` are the server's, with the Python that works there."""

    variables: dict[str, Any]
    _pipelined: bool | None = None

    def ask(self, **arguments: object) -> Answer:
        """One answer of the module, or the reason why it could not start."""
        self._bound_memory()
        given = {name: value for name, value in arguments.items() if value is not None}
        result = self._answered(given)
        if isinstance(result.get("probe"), dict):
            return answers.understand(result["probe"])
        if "module_stdout" not in result:  # it ran, and says itself why it failed
            return Answer(reason="module_failed", detail=show(_last_word(result)))
        said = f"{result['module_stdout']}\n{result.get('module_stderr', '')}"
        if self._connection.become and (sentence := sudo_trouble.explain(said)):
            return Answer(reason=sudo_trouble.REASON, detail=sentence)
        script = _PREFLIGHT.read_bytes()
        printed = self._low_level_execute_command("/bin/sh", in_data=script).get("stdout", "")
        used = str(self.variables.get("ansible_python_interpreter") or "/usr/bin/python3")
        cause = no_module.diagnose(printed, used, said)
        if cause.python:
            self.variables["ansible_python_interpreter"] = cause.python
            return self.ask(**arguments)
        return Answer(reason=cause.reason, detail=cause.detail)

    def _answered(self, given: dict[str, object]) -> dict[str, Any]:
        call = {"module_name": "gpu_probe", "task_vars": self.variables}
        try:
            result: dict[str, Any] = self._execute_module(module_args=dict(given), **call)
        except AnsibleConnectionFailure as error:
            if "Data could not be sent" not in str(error):
                raise
            # ssh ended while the module was being sent to it, before it could say why: without load it does
            self._low_level_execute_command("true")
            result = self._execute_module(module_args=dict(given), **call)
        return result

    def shown_key(self) -> ssh_trouble.HostKey | None:
        """The key the server shows, learned by one more connection that goes no further than needed."""
        connection = self._connection
        words = ("-v", "-o", "BatchMode=yes", "-o", "ControlPath=none", connection.get_option("host"), "true")
        try:
            argv = connection._build_command("ssh", "ssh", *words)
            _, _, said = connection._bare_run(argv, None, sudoable=False, checkrc=False)
        except (AnsibleError, AttributeError):  # not an ssh connection, or none at all
            return None
        return ssh_trouble.host_key(said.decode("utf-8", "replace"))

    def where(self) -> tuple[str, int | None]:
        """The server as a person would type it for ssh."""
        user, host = self._connection.get_option("remote_user"), self._connection.get_option("host")
        return (f"{user}@{host}" if user else str(host)), self._connection.get_option("port")

    def _parse_returned_data(self, res: dict[str, Any], profile: str) -> dict[str, Any]:
        """Ansible's own parser shows a shell's noise as a warning, raw: it gets the module's line and nothing else."""
        out = res.get("stdout", "")
        if len(out) > answers.MAX_ANSWER_BYTES:
            raise Spoiled(f"it sent {len(out)} bytes instead of an answer")
        lines = [line for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
        parsed: dict[str, Any] = super()._parse_returned_data({**res, "stdout": lines[-1] if lines else ""}, profile)
        return parsed if lines else parsed | {"module_stdout": out}

    def _is_pipelining_enabled(self, module_style: str, wrap_async: bool = False) -> bool:
        """Ansible parses all ssh arguments for this, three times a call; the answer does not change."""
        if self._pipelined is None:
            self._pipelined = bool(super()._is_pipelining_enabled(module_style, wrap_async))
        return self._pipelined

    def _bound_memory(self) -> None:
        """A server that never stops sending must hit a wall here, in this worker, and nowhere else."""
        if self._connection.transport == "local":  # the probe would inherit the limit
            return
        status = Path("/proc/self/status")
        if not status.exists():  # a controller without /proc has no such wall
            return
        used = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmData:"))
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, ((used << 10) + _SPARE_BYTES, hard))


def _last_word(result: dict[str, Any]) -> str:
    """Why a module failed: its message, or what it raised."""
    raised = getattr(getattr(result.get("exception"), "event", None), "msg", None)
    return str(result.get("msg") or raised or "it said nothing of why")
