"""What crosses the wire: the record a server sends, as frozen standard-library dataclasses.

Runs on the server (Python >= 3.8, standard library only) and on the controller. The server builds
these and calls `to_document`; the controller decodes the same classes strictly in `auditor.reading`.
The JSON form stands in docs/method.md ("The record").
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple, Union

SCHEMA = 1
STATUSES = ("measured", "not_applicable", "failed", "timed_out", "skipped")
PROFILES = ("quick", "standard", "soak")
SUBJECT_KINDS = ("server", "gpu", "pair", "link", "nic")
FAMILIES = ("driver", "kernel", "measured", "text")

MAX_RECORD_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 32
MAX_SERIES_POINTS = 600
MAX_ATTACHMENT_BYTES = 256 * 1024

Value = Union[bool, int, float, str, None]
Condition = Union[bool, int, float, str]


@dataclass(frozen=True)
class Tool:
    """The program that took the readings."""

    name: str
    version: str


@dataclass(frozen=True)
class Seconds:
    """Time spent: in all, before the first measurement (imports, contexts), and measuring."""

    total: float
    fixed: float
    measuring: float


@dataclass(frozen=True)
class Subject:
    """What a reading is about: `server`, `gpu0`, `gpu0-gpu1`, `gpu0/link3`, `nic0`, `gpu0-nic0`."""

    id: str
    kind: str
    index: Optional[int] = None
    uuid: Optional[str] = None
    pci: Optional[str] = None
    name: Optional[str] = None


@dataclass(frozen=True)
class ProbeRow:
    """How one probe went on one subject; `reason` is one line, `cut` what the budget left out."""

    probe: str
    method: int
    subject: str
    status: str
    reason: Optional[str] = None
    seconds: float = 0.0
    cut: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """One figure or fact. Known by (metric, subject, conditions, source).

    `value` is in the metric's base unit; `spread` is the relative spread of its `n` repeats (CV);
    `stable` is False where that spread was too wide even after one retry. `conditions` is "with" in JSON.
    """

    probe: str
    metric: str
    subject: str
    value: Value
    source: str
    conditions: Dict[str, Condition] = field(default_factory=dict)
    spread: Optional[float] = None
    n: Optional[int] = None
    stable: Optional[bool] = None


@dataclass(frozen=True)
class Series:
    """A figure over time: `t` seconds since the window opened, `v` values in the metric's base unit."""

    metric: str
    subject: str
    t: Tuple[float, ...]
    v: Tuple[Optional[float], ...]


@dataclass(frozen=True)
class Record:
    """All readings of one server in one run."""

    schema: int
    tool: Tool
    run: str
    server: str
    profile: str
    device: str
    started: str
    seconds: Seconds
    synthetic: bool = False
    nonce: Optional[str] = None
    subjects: Tuple[Subject, ...] = ()
    probes: Tuple[ProbeRow, ...] = ()
    readings: Tuple[Reading, ...] = ()
    series: Tuple[Series, ...] = ()
    attachments: Dict[str, str] = field(default_factory=dict)


def family(source: str) -> str:
    """The part of a source that counts for "two independent sources": driver, kernel, measured or text."""
    return source.split("/", 1)[0]


def to_document(record: Record) -> Dict[str, Any]:
    """The record as the plain JSON document of schema 1 (`conditions` is written as `with`)."""
    document = dataclasses.asdict(record)
    readings: List[Dict[str, Any]] = document["readings"]
    for row in readings:
        row["with"] = row.pop("conditions")
    return document
