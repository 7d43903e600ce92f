"""The `audit_*` variables of an inventory or a command line: what may be wished, and what each means when absent."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from auditor.errors import UserError

State = Literal["missing", "never", "manage"]
_PROBES = Path(__file__).parents[1] / "probes"
_OURS = ("opened", "collected", "started", "unready")  # what the playbooks themselves register
_LIMITS = {"quick": 900.0, "standard": 2700.0, "soak": 3600.0}  # seconds; a soak's own length comes on top


class Wishes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One server's wishes. docs/inventories.md explains each; names here carry no `audit_`."""

    profile: Literal["quick", "standard", "soak"] = "standard"
    only: list[str] = []
    skip: list[str] = []
    device: Literal["auto", "cuda", "cpu"] = "auto"
    budget: float | None = None
    soak_seconds: float = 3600.0
    path: str | None = None
    allow_busy: bool = False
    interpreter: str | None = None
    keep: bool = False
    driver: State = "missing"
    dcgm: State = "missing"
    wheelhouse: str | None = None
    allow_reboot: bool = False
    remove_packages: bool = False
    accept_new_host_keys: bool = False
    limit: float | None = None
    silence: float = 180.0
    lifetime: float = 86400.0
    poll: float = 5.0
    task_timeout: float = 180.0
    label: str | None = None
    order: Any = None
    lang: Literal["en", "zh"] = "en"
    fail_on: Literal["never", "reject", "review", "incomplete"] = "never"
    results: str | None = None
    probe: str | None = None

    @property
    def limit_seconds(self) -> float:
        """When a probe that still runs is told to stop."""
        if self.limit is not None:
            return self.limit
        if self.budget is not None:
            return self.budget + 300.0
        return _LIMITS[self.profile] + (self.soak_seconds if self.profile == "soak" else 0.0)

    def options(self) -> list[str]:
        """The probe's command line, beside name, run and nonce."""
        words = ["--profile", self.profile, "--device", self.device]
        for name, value in (("--only", self.only), ("--skip", self.skip)):
            words += [name, ",".join(value)] if value else []
        words += ["--path", self.path] if self.path else []
        words += ["--budget", str(self.budget)] if self.budget is not None else []
        words += ["--soak-seconds", str(self.soak_seconds)] if self.profile == "soak" else []
        return [*words, "--allow-busy"] if self.allow_busy else words


_KINDS = get_type_hints(Wishes)


def read(variables: Mapping[str, Any], server: str) -> Wishes:
    """The wishes among a server's variables.

    Raises:
        UserError: an unknown `audit_` name, or a value it cannot have; the sentence names the server.
    """
    wished = {str(name).removeprefix("audit_"): value for name, value in variables.items() if name.startswith("audit_")}
    raw = {name: _plain(value) for name, value in wished.items() if name not in _OURS}
    for name, value in list(raw.items()):
        kind = _KINDS.get(name)
        if kind == list[str] and isinstance(value, str):
            raw[name] = [word.strip() for word in value.split(",") if word.strip()]
        elif kind is bool and isinstance(value, str):  # -e audit_keep=yes arrives as text
            raw[name] = {"yes": True, "on": True, "no": False, "off": False}.get(value.lower(), value)
    unknown = sorted(set(raw) - set(Wishes.__struct_fields__))
    if unknown:
        near = difflib.get_close_matches(unknown[0], Wishes.__struct_fields__, 1)
        hint = f" Did you mean audit_{near[0]}?" if near else ""
        raise UserError(
            f"{server}: audit_{unknown[0]} is no variable of the audit.{hint} docs/inventories.md lists them."
        )
    try:
        wishes = msgspec.convert(
            {name: value for name, value in raw.items() if value is not None}, Wishes, strict=False
        )
    except msgspec.ValidationError as error:
        name = str(error).rpartition("$.")[2].strip("`.").partition("[")[0]
        raise UserError(
            f"{server}: audit_{name}: {raw.get(name)!r} {_complaint(_KINDS.get(name), str(error))}."
        ) from None
    _check(wishes, server)
    return wishes


def _complaint(kind: Any, error: str) -> str:
    if get_origin(kind) is Literal:
        return f"is none of {', '.join(get_args(kind))}"
    for known, words in ((bool, "is neither true nor false"), (float, "is no number"), (str, "is no text")):
        if kind in (known, known | None):
            return words
    return f"cannot be used ({error})"


def check_probes(names: list[str], where: str) -> None:
    """Hold names of probes against the files that hold them.

    Raises:
        UserError: one of them is no probe; the sentence names the nearest.
    """
    known = sorted(file.stem for file in _PROBES.glob("[a-z]*.py"))
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise UserError(f"{where}: {name!r} is no probe.{hint} Probes: {', '.join(known)}.")


def _check(wishes: Wishes, server: str) -> None:
    check_probes(wishes.only, f"{server}: audit_only")
    check_probes(wishes.skip, f"{server}: audit_skip")
    for name in ("budget", "soak_seconds", "limit", "silence", "lifetime", "poll", "task_timeout"):
        value = getattr(wishes, name)
        if value is not None and not 0 < value < 10_000_000:
            raise UserError(f"{server}: audit_{name}: {value} must be above 0 seconds.")
    if wishes.path is not None and not wishes.path.startswith("/"):
        raise UserError(f"{server}: audit_path: {wishes.path!r} must be an absolute path on the server.")
    if wishes.wheelhouse and not Path(wishes.wheelhouse).is_dir():
        raise UserError(
            f"{server}: audit_wheelhouse: {wishes.wheelhouse} is no folder here. `make wheelhouse` fills one."
        )


def _plain(value: Any) -> Any:
    """Data of the inventory without Ansible's wrappers, as a strict reader expects it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value
