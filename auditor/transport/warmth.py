"""Work done once before Ansible forks its workers, because each of a thousand would do it again for itself.

Called when the action plugins are loaded, which the main process does before the first fork. Nothing depends on it:
without it the same audit costs the controller about a fifth more CPU per server.
"""

from __future__ import annotations

import gc
import importlib

import msgspec
from ansible.plugins.loader import filter_loader, test_loader

from auditor import reading
from auditor.runs import RunInfo, State
from auditor.transport import answers, wishes
from auditor.transport.collect import Controller

_RUN = b'{"run": "", "inventory": "", "profile": "", "version": "", "started": ""}'


def warm() -> None:
    """Load what a worker loads, build the tables that msgspec builds at first use, and let no collector touch them."""
    for name in ("connection.ssh", "connection.local", "shell.sh"):
        importlib.import_module(f"ansible.plugins.{name}")
    filter_loader.get("default")
    test_loader.get("defined")
    wishes.read({}, "nobody")
    answers.understand({})
    reading.read_bytes(b'{"schema": 1}')
    for kind, least in (
        (State, b'{"phase": ""}'),
        (RunInfo, _RUN),
        (Controller, b'{"pid": 1, "ticks": "", "boot": ""}'),
    ):
        msgspec.json.decode(least, type=kind)
    gc.collect()
    gc.freeze()
