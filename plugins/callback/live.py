# Copyright: the auditor's authors
"""What a person sees while an audit runs: a table with one row a server, or plain lines without a terminal."""

from __future__ import annotations

import os
import sys

from ansible.plugins.callback import CallbackBase
from rich.console import Console
from rich.text import Text

from auditor.showing import show
from auditor.transport.board import Board

DOCUMENTATION = r"""
name: live
type: stdout
short_description: The audit's live display
description:
  - One row a server with step, percent and figures as they come; at the end the report's own summary.
  - Without a terminal, or with NO_COLOR, plain lines. Text from servers is made fit to show before it is printed.
extends_documentation_fragment:
  - default_callback
"""

_OURS = ("gpu_probe", "audit_run")


class CallbackModule(CallbackBase):
    """Translates Ansible's events to rows and lines; other playbooks get one plain line a result."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "live"

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        console = Console(file=sys.stdout, highlight=False)
        plain = not console.is_terminal or bool(os.environ.get("NO_COLOR"))
        self._board = Board(console, plain=plain)

    # what happens to one server --------------------------------------------------------------------------------

    def v2_runner_on_ok(self, result: object) -> None:
        """A task went through; ours may still tell of trouble, as data."""
        said, name = result.result, result.host.get_name()
        self._verbose(result)
        action = _action(result.task)
        if action == "audit_run":
            self._run_told(said)
        elif action == "gpu_probe":
            self._probe_told(name, said)
        elif said.get("changed"):
            self._board.say(_line(name, f"{result.task.get_name()}: changed"))

    def v2_runner_retry(self, result: object) -> None:
        """The probe still runs."""
        self._probe_told(result.host.get_name(), result.result)

    def v2_runner_on_unreachable(self, result: object) -> None:
        """No connection, or none any more."""
        self._board.update(result.host.get_name(), "trouble", result.result.get("msg", "unreachable"))

    def v2_runner_on_failed(self, result: object, ignore_errors: bool = False) -> None:
        """Broken tooling, or a sentence for the person at the keyboard."""
        self._verbose(result)
        said, name = result.result, result.host.get_name()
        message = said.get("msg") or said.get("stderr") or "failed without a word"
        message = str(message).removeprefix("Task failed: ").removeprefix("Action failed: ")
        if _action(result.task) == "audit_run":
            self._board.close()
            if said.get("report"):
                self._board.console.file.write(said["report"])
            self._board.say(Text(f"audit: {show(message, 2000)}", style="bold red"))
        else:
            self._board.say(_line(name, f"{result.task.get_name()}: {show(message, 600)}", "bold red"))

    def _run_told(self, said: dict) -> None:
        if "servers" in said:
            self._board.open([show(name) for name in said["servers"]])
            for name, sentence in said["bad_orders"].items():
                self._board.update(name, "trouble", sentence)
        elif "report" in said:
            self._board.close()
            self._board.console.file.write(said["report"])
            self._board.console.file.flush()

    def _probe_told(self, name: str, said: dict) -> None:
        board, news = self._board, {"percent": said.get("percent"), "figures": said.get("figures")}
        if "lacks" in said:
            board.update(name, "started", f"not ready: lacks {', '.join(said['lacks'])}")
        elif "plan" in said:
            board.update(name, "trouble" if said.get("reason") else "done", said.get("msg") or "would be measured")
            for step in said["plan"]["steps"]:
                board.say(_line(name, f"  {show(step, 300)}"))
        elif "removed" in said:
            board.say(_line(name, f"removed {', '.join(said['removed']) or 'nothing: nothing of ours was there'}"))
        elif said.get("reason"):
            board.update(name, "trouble", said.get("msg"))
        elif said.get("phase") == "measure":
            board.update(name, "started", _plan(said.get("facts", {})))
        elif said.get("phase") == "done":
            board.update(name, "done", "measured", 100, news["figures"])
        elif "silent" in said:
            board.update(name, "measuring", f"silent for {said['silent']} s: {said['msg']}")
        elif not said.get("finished", True):
            board.update(name, "measuring", said.get("step") or "starting", **news)
        for problem in said.get("left") or ():
            board.say(_line(name, f"left behind: {show(problem)}", "bold red"))

    # the rest ---------------------------------------------------------------------------------------------------

    def v2_playbook_on_stats(self, stats: object) -> None:
        """The end."""
        self._board.close()

    def _verbose(self, result: object) -> None:
        if self._display.verbosity:
            self._board.say(
                _line(result.host.get_name(), f"{result.task.get_name()} {self._dump_results(result.result)}")
            )


def _action(task: object) -> str:
    return str(task.action).rpartition(".")[2]


def _line(name: str, text: str, style: str = "default") -> Text:
    return Text.assemble((show(name), "bold"), ("  " + text, style))


def _plan(facts: dict) -> str:
    """With what a server is, or would be, measured."""
    torch = facts.get("torch")
    cuda = f"CUDA {facts['cuda']}" if facts.get("cuda") else "no CUDA"
    missing = "".join(f" ({show(facts[name])})" for name in ("driver_missing", "torch_missing") if facts.get(name))
    with_torch = f"torch {show(torch)}, {cuda}" if torch else "no torch"
    return f"{show(facts.get('interpreter', 'Python'))}, {with_torch}{missing}"
