"""The policy: every line a finding may rest on, with where it comes from and what it costs in false alarms.

`judge/policy.yaml` holds the values; a run folder's own `policy.yaml` lies over it. An unknown key is an error
with file and line; a key that is left out keeps the shipped value.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from auditor.catalog import strict
from auditor.errors import UserError
from auditor.finding import USES
from auditor.records import PROFILES

NEEDS = (  # answered by auditor.judge.needs
    "model",
    "count",
    "matmul",
    "host_copy",
    "thermal",
    "memory_bandwidth",
    "topology",
    "all_reduce",
    "server_facts",
    "matmul_cpu",
    "all_reduce_cpu",
)
PARTS = ("compute", "collectives", "memory", "host_copy", "steadiness")  # scored by auditor.judge.ranking
SHIPPED = Path(__file__).parent / "policy.yaml"


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One threshold: its value, the source that backs it, and its price in false alarms."""

    value: float
    source: str
    cost: str = ""


class Lines(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All thresholds by name; docs/thresholds.md explains them in the same order."""

    siblings_review: Line
    siblings_repeated: Line
    siblings_advice: Line
    siblings_scatter: Line
    siblings_scatter_least: Line
    fleet_review: Line
    fleet_scatter: Line
    fleet_smallest: Line
    per_clock_siblings: Line
    per_clock_over_formula: Line
    rate_over_spec: Line
    bandwidth_over_spec: Line
    watts_over_limit: Line
    clock_over_model: Line
    achievable_margin: Line
    collective_margin: Line
    host_copy_margin: Line
    peer_copy_share: Line
    allreduce_floor_nvlink: Line
    allreduce_floor_pcie: Line
    temperature_floor: Line
    hotter_than_siblings: Line
    lost_rate: Line
    reason_share: Line
    brake_share: Line
    clock_below_max: Line
    power_cap: Line
    memory_short: Line
    capacity_short: Line
    ram_short: Line
    used_before: Line
    used_ratio: Line
    gaps_per_second: Line
    remote_launch: Line
    sign_strong: Line
    sign_total: Line
    tie: Line
    correctable_remaps: Line
    retired_pages: Line
    pcie_replays: Line
    pcie_replays_boot: Line
    steal: Line
    steal_window: Line
    cpus_per_gpu: Line
    shm_small: Line
    training_memory: Line
    training_scaling: Line
    training_scaling_guest: Line
    training_memory_use: Line
    training_nvlink_use: Line
    training_steady: Line
    training_steady_mean: Line
    clock_apart: Line


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Thresholds, weights and needs in force; `sha256` is of the values used."""

    lines: Lines
    weights: dict[str, dict[str, float]]
    needed: dict[str, list[str]]
    needed_of_several: list[str]
    needed_without_gpu: list[str]
    oldest_method: dict[str, int] = {}

    @property
    def sha256(self) -> str:
        """Names the policy in a report."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()


def read(path: Path | None = None) -> Policy:
    """The shipped policy, with the given file laid over it.

    Raises:
        UserError: file and line of what is not understood.
    """
    if path is None:
        return load()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: the policy cannot be read ({error}).") from None
    if not text.strip():
        return load()
    given, lines = strict.document(text, str(path))
    if not isinstance(given, dict):
        raise UserError(f"{path}: a policy maps names to values; see auditor/judge/policy.yaml.")
    base, _ = strict.document(SHIPPED.read_text(encoding="utf-8"), str(SHIPPED))
    return _checked(strict.convert(_over(base, given), lines, Policy, str(path)), str(path))


@cache
def load() -> Policy:
    """The policy that ships with the auditor."""
    return _checked(strict.load(SHIPPED, Policy), str(SHIPPED))


def _over(base: Any, given: Any) -> Any:
    if isinstance(base, dict) and isinstance(given, dict):
        return {**base, **{key: _over(base.get(key), value) for key, value in given.items()}}
    return given


def _checked(policy: Policy, where: str) -> Policy:
    for use, parts in policy.weights.items():
        if use not in USES:
            raise UserError(f"{where}: weights: `{use}` is no use; the uses are {', '.join(USES)}.")
        for part in parts:
            if part not in PARTS:
                raise UserError(f"{where}: weights of {use}: `{part}` is no part; the parts are {', '.join(PARTS)}.")
        if any(weight < 0 for weight in parts.values()) or not sum(parts.values()) > 0:
            raise UserError(f"{where}: weights of {use}: give weights of 0 or more, at least one above 0.")
    for profile in policy.needed:
        if profile not in PROFILES:
            raise UserError(f"{where}: needed: `{profile}` is no profile; the profiles are {', '.join(PROFILES)}.")
    for name in (
        need
        for needs in (*policy.needed.values(), policy.needed_of_several, policy.needed_without_gpu)
        for need in needs
    ):
        if name not in NEEDS:
            raise UserError(f"{where}: needed: `{name}` is no need; the needs are {', '.join(NEEDS)}.")
    for name in Lines.__struct_fields__:
        line: Line = getattr(policy.lines, name)
        if not 0 <= line.value < float("inf"):
            raise UserError(f"{where}: lines.{name}: {line.value} is no line; give a number of 0 or more.")
        if not line.source.strip():
            raise UserError(f"{where}: lines.{name}: a line without a source is not used; say where it comes from.")
    return policy
