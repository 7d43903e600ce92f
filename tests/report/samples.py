"""Synthetic runs for the tests of the report: the builders' machines, with what only a report shows added."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from auditor.finding import Judgement
from auditor.judge import ServerInput, judge
from auditor.order import Order
from auditor.records import ProbeRow, Record, Series
from auditor.runs import Run, State
from tests import builders
from tests.builders import Machine, reading

RUN = "20261201T031500Z"
STARTED, FINISHED = "2026-12-01T03:15:00Z", "2026-12-01T03:19:10Z"
ORDER = Order(
    gpus=8,
    gpu="A100-SXM4-80GB",
    interconnect="nvswitch",
    bare_metal=True,
    price_per_hour=12.0,
    currency="USD",
)
A100 = "A100 SXM4 80GB"


@dataclass
class Given:
    """A judged run in memory."""

    judgement: Judgement
    records: dict[str, Record] = field(default_factory=dict)
    run: Run | None = None

    def record(self, name: str) -> Record | None:
        """One server's record."""
        return self.records.get(name)


def a100(
    name: str = "gpu-01", guest: bool = False, nvlink: bool = True, slow: int | None = None, gpus: int = 8
) -> Record:
    """8×A100-SXM4-80GB with courses over time and training; `guest` without NVLink is the reference case."""
    pace: Callable[[str, int], float] = lambda kind, gpu: 0.82 if gpu == slow and kind == "matmul" else 1.0  # noqa: E731
    made = builders.build(Machine(A100, gpus, name, guest=guest, nvlink=nvlink, scale=pace))
    training = []
    for ranks in [r for r in (1, 2, 4, 8) if r <= gpus]:
        gain = ranks ** (0.885 if nvlink else 0.72)
        training.append(reading("training_step_speedup_ratio", gain, ranks=ranks))
        training.append(reading("training_step_tokens_per_second", 21000.0 * gain, ranks=ranks, parameters=124000000))
    rows = (
        ProbeRow("dcgm", 1, "server", "not_applicable", "dcgmi is not installed"),
        ProbeRow("matmul", 1, "gpu0", "measured", None, 1.0, ("fp64",)),
    )
    series = tuple(_series([subject.id for subject in made.subjects if subject.kind == "gpu"]))
    return replace(builders.added(made, *training), probes=made.probes + rows, series=series)


def _series(ids: list[str]) -> Iterator[Series]:
    t = tuple(float(s) for s in range(0, 121, 2))
    for i, gpu in enumerate(ids):
        yield Series("thermal_gpu_celsius", gpu, t, tuple(31.0 + (31 + i) * (1 - math.exp(-s / 18)) for s in t))
        yield Series("thermal_watts", gpu, t, tuple(388.0 - i if s else 90.0 for s in t))
        yield Series("thermal_sm_clock_hertz", gpu, t, tuple(1.41e9 - 7.5e7 * (1 - math.exp(-s / 10)) for s in t))


def given(
    records: Mapping[str, Record | None],
    orders: Mapping[str, Order | None] | Order | None = ORDER,
    labels: Mapping[str, str] | None = None,
    states: Mapping[str, State] | None = None,
    inventory: str = "provider_a",
    run: str = RUN,
) -> Given:
    """Judge records held in memory as the servers of one run; None never answered."""
    inputs = []
    for name, record in records.items():
        order = orders.get(name) if isinstance(orders, Mapping) else orders
        missing = State(phase="reach", reason="unreachable")
        state = (states or {}).get(name) or (missing if record is None else State(phase="done"))
        digest = None if record is None else hashlib.sha256(name.encode()).hexdigest()
        inputs.append(ServerInput(name, order, (labels or {}).get(name), record, state=state, sha256=digest))
    judgement = judge(
        lambda: iter(inputs),
        run=run,
        inventory=inventory,
        version="0.1.0",
        of_inventory=len(inputs),
        started=STARTED,
        finished=FINISHED,
    )
    return Given(judgement, {name: record for name, record in records.items() if record is not None})


def one_of_many(name: str, kind: int) -> Record | None:
    """The reference case, a slow GPU, an unreachable server, one without a thermal reading, else a healthy one."""
    if kind == 1:
        return a100(name, guest=True, nvlink=False)
    if kind == 3:
        return a100(name, slow=5)
    if kind == 5:
        return None
    if kind == 6:
        return without(a100(name), "thermal", "the GPU was lost during the load")
    return a100(name)


def mixed(servers: int = 8) -> Given:
    """A run with every verdict."""
    names = [f"gpu-{i:02d}" if servers < 100 else f"gpu-{i:03d}" for i in range(1, servers + 1)]
    return given({name: one_of_many(name, place % 8) for place, name in enumerate(names)})


def few(gpus: int = 2) -> Given:
    """A healthy server, the reference case, and one that never answered: the smallest run with every sheet."""
    order = replace_order(gpus=gpus)
    records = {"gpu-01": a100("gpu-01", gpus=gpus), "gpu-02": a100("gpu-02", True, False, gpus=gpus), "gpu-03": None}
    return given(records, order)


def replace_order(**changes: object) -> Order:
    """The usual order with changes."""
    return msgspec.structs.replace(ORDER, **changes)


class Fleet:
    """A large run whose records are made when they are asked for, as a run folder reads them from disk."""

    run = None

    def __init__(self, servers: int) -> None:
        self.kinds = {f"gpu-{i:05d}": (i if i % 10 < 4 else 0) % 8 for i in range(servers)}
        self.judgement = judge(
            self._inputs,
            run=RUN,
            inventory="provider_a",
            version="0.1.0",
            of_inventory=servers,
            started=STARTED,
            finished=FINISHED,
        )

    def _inputs(self) -> Iterator[ServerInput]:
        for name in self.kinds:
            record = self.record(name)
            state = State(phase="done") if record else State(phase="reach", reason="unreachable")
            yield ServerInput(name, ORDER, None, record, state=state, sha256=None if record is None else "0" * 64)

    def record(self, name: str) -> Record | None:
        """One server's record."""
        return one_of_many(name, self.kinds[name])


def without(record: Record, probe: str, reason: str) -> Record:
    """The record as if a probe had failed everywhere."""
    rows = tuple(replace(row, status="failed", reason=reason) if row.probe == probe else row for row in record.probes)
    kept = tuple(r for r in record.readings if r.probe != probe)
    return replace(record, probes=rows, readings=kept, series=())
