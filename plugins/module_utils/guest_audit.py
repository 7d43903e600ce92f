# Copyright: the auditor's authors
# One audit as the server sees it: looked at, started, collected, removed.
"""What the module gpu_probe does on a server. Standard library only, Python >= 3.8.

What a server cannot do is an `Obstacle` with a fixed word, never a failure of the play.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
from pathlib import Path

from ansible.module_utils import (
    brought,
    dcgm_plan,
    detached,
    driver_plan,
    guest_folder,
    host_facts,
    listing,
    torch_folder,
    torch_search,
)

PROBE = "probe.pyz"
RECORD = "record.json"
STATUS = "status.json"
RUN = "run.json"
_TOLD = ("os", "kernel", "privilege", "container", "driver_version", "dcgm", "secure_boot", "disk_free_bytes")


class Obstacle(Exception):
    """Why this server cannot be measured now: a fixed word, and a sentence's worth of detail."""

    def __init__(self, reason: str, detail: str, **more: object) -> None:
        super().__init__(detail)
        self.answer = {"reason": reason, "detail": detail, **more}


def preflight(params: dict) -> dict:
    """What this server is, what it lacks, and what the roles would do about it. Changes nothing."""
    facts = host_facts.gather()
    branch = str(facts["driver_version"] or "").split(".")[0]
    interpreter, torch, cuda, chosen = _choose(params["interpreter"], int(branch) if branch.isdigit() else None)
    driver = driver_plan.plan(facts, params["driver"])
    dcgm = dcgm_plan.plan(facts, params["dcgm"])
    lacks = [name for name, plan in (("driver", driver), ("dcgm", dcgm)) if plan.action == "install"]
    gpus = bool(facts["nvidia_devices"] or facts["driver_version"])
    wished = f"torch {torch} of {interpreter}: {chosen}" if torch else f"{interpreter}, which has no torch"
    if gpus and cuda is None and not params["interpreter"]:
        lacks.append("torch")
        wished = "no Python with a CUDA torch is there: one is brought into a folder of the audit's"
    steps = [f"{name}: {plan.action}, {plan.reason}" for name, plan in (("driver", driver), ("DCGM", dcgm)) if gpus]
    if facts["gpu_users"]:
        steps.append("GPUs in use by: " + ", ".join(facts["gpu_users"][:4]))
    return {
        "interpreter": interpreter,
        "torch": torch,
        "cuda": cuda,
        "chosen": chosen,
        "lacks": lacks,
        "plan": [*steps, f"measured with: {wished}"],
        "facts": {**{name: facts[name] for name in _TOLD}, "gpus_on_bus": len(facts["nvidia_devices"])},
    }


def start(params: dict) -> dict:
    """Make the folder, write the probe, start it; or say which audit runs here already."""
    with guest_folder.alone():
        return _start(params)


def _start(params: dict) -> dict:
    kept = None
    for folder in guest_folder.ours():
        told = _told(folder)
        if told and _alive(told):
            same = told.get("wish") == _wish(params)
            raise Obstacle(
                "busy",
                f"the audit of run {told['run']} is under way here; try again when it has ended",
                folder=str(folder),
                running={"run": told["run"], "nonce": told["nonce"], "same": same},
            )
        if params["keep"] and kept is None and detached.end(None, folder, grace=0.0) == []:
            kept = folder  # an earlier audit was told to keep it
        else:
            _remove(folder)  # an audit that died: its controller never came back
    found = {**preflight(params), "listing": listing.take()}
    if params["prepare"] and found["lacks"]:
        return found
    interpreter = found["interpreter"]
    try:
        folder = guest_folder.emptied(kept, PROBE) if kept else guest_folder.make()
    except guest_folder.NoPlace as error:
        raise Obstacle(error.reason, str(error)) from None
    payload = base64.b64decode(params["payload"])
    if hashlib.sha256(payload).hexdigest() != params["sha256"]:
        _remove(folder)
        raise Obstacle("damaged", "the probe file arrived damaged")
    probe = folder / PROBE
    try:
        if not params["keep"]:
            detached.start_timer(folder, params["lifetime"], torch_folder.ours())
        if not probe.exists() or probe.read_bytes() != payload:
            probe.write_bytes(payload)
        if hashlib.sha256(probe.read_bytes()).hexdigest() != params["sha256"]:
            raise Obstacle("damaged", "the probe file was altered on the server")
        argv = [interpreter, str(probe), "--server", params["server"], "--run", params["run"]]
        argv += ["--nonce", params["nonce"], *params["options"]]
        argv += ["--out", str(folder / RECORD), "--status", str(folder / STATUS)]
        who = detached.start(argv, folder, detached.environment(folder))
        told = {"run": params["run"], "nonce": params["nonce"], "wish": _wish(params), **who._asdict()}
        (folder / RUN).write_text(json.dumps(told), encoding="ascii")
    except (OSError, Obstacle) as error:
        _remove(folder)
        if isinstance(error, Obstacle):
            raise
        raise Obstacle("not_started", f"{error.filename or interpreter}: {error.strerror}") from None
    return {**found, "lacks": [], "folder": str(folder), "pid": who.pid}


def collect(params: dict) -> dict:
    """How far it is; once it has ended, the record as base64 with its hash."""
    folder = Path(params["folder"])
    told = _told(folder) if guest_folder.is_ours(folder) else None
    if told is None:
        raise Obstacle("vanished", f"{folder} is gone: something on the server removed it", finished=True)
    status = _json(folder / STATUS) or {}
    progress = {key: status.get(key) for key in ("percent", "step", "figures", "exit")}
    if not status.get("finished") and _alive(told):
        if not params["stop"]:
            _shorten(folder / "stderr")
            return {"finished": False, **progress}
        detached.end(_identity(told), folder, grace=30.0)
    record = guest_folder.read_capped(folder / RECORD, params["limit"])
    answer = {"finished": True, "rebooted": told["boot"] != detached.boot_id(), **progress}
    answer["last_words"] = _last_words(folder / "stderr")
    if record is None:
        return answer
    if len(record) > params["limit"]:
        return {**answer, "reason": "too_large", "detail": f"the record has more than {params['limit']} bytes"}
    answer["record"] = base64.b64encode(record).decode("ascii")
    answer["sha256"] = hashlib.sha256(record).hexdigest()
    return answer


def absent(params: dict) -> dict:
    """End and remove one audit, or every audit of this user; the listing shows what is there afterwards."""
    folders = [Path(params["folder"])] if params["folder"] else guest_folder.ours()
    torches = torch_folder.ours()
    left = [problem for problem in [*map(_remove, folders), *map(torch_folder.remove, torches)] if problem]
    removed = [str(folder) for folder in [*folders, *torches] if not folder.exists()]
    if params["packages_before"] is not None:
        gone, problems = brought.remove(params["packages_before"])
        removed += gone
        left += problems
    return {"removed": removed, "left": left, "listing": listing.take()}


def _wish(params: dict) -> list:
    return [params["server"], params["sha256"], *params["options"]]


def _choose(wanted: str | None, driver: int | None) -> tuple[str, str | None, str | None, str]:
    """The interpreter to measure with, its torch and CUDA, and why; without any torch the one that runs this module."""
    found = torch_search.search(prefixes=[folder / "venv" for folder in torch_folder.ours()], driver=driver)
    if wanted:
        if not os.access(wanted, os.X_OK):
            raise Obstacle("no_interpreter", f"audit_interpreter {wanted} is no program here")
        same = [one for one in found if one.interpreter == wanted or Path(one.interpreter).samefile(wanted)]
        return (wanted, *((same[0].torch, same[0].cuda) if same else (None, None)), "audit_interpreter names it")
    why = torch_search.why(found, driver)
    return (*found[0][:3], why) if found else (sys.executable, None, None, why)


def _told(folder: Path) -> dict | None:
    """What the start wrote down; None while it is being written or when it is not ours to understand."""
    told = _json(folder / RUN)
    keys = {"run": str, "nonce": str, "pid": int, "ticks": int, "boot": str}
    return told if told and all(type(told.get(key)) is kind for key, kind in keys.items()) else None


def _identity(told: dict) -> detached.Identity:
    return detached.Identity(told["pid"], told["ticks"], told["boot"])


def _alive(told: dict) -> bool:
    return detached.alive(_identity(told))


def _remove(folder: Path) -> str | None:
    if not guest_folder.is_ours(folder):
        return guest_folder.remove(folder)
    told = _told(folder)
    stuck = detached.end(_identity(told) if told else None, folder, grace=3.0)
    problem = guest_folder.remove(folder)
    return f"process {stuck[0]} would not end" if stuck else problem


def _json(path: Path) -> dict | None:
    data = guest_folder.read_capped(path, 65536)
    try:
        found = json.loads(data) if data else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _shorten(path: Path) -> None:
    """The probe appends progress for hours; what nobody read by now nobody needs."""
    try:
        if path.stat().st_size > 4 << 20:
            os.truncate(path, 0)
    except OSError:
        pass


def _last_words(path: Path) -> str | None:
    """The last line on stderr that is no progress: a crash's reason."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 16384))
            lines = file.read(16384).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    plain = [line.strip() for line in lines if line.strip() and not line.startswith("{")]
    return plain[-1][:300] if plain else None
