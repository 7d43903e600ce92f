"""One server before the rules: its readings, its order, what its GPUs are, and the lines in force."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

import msgspec

from auditor.catalog import Catalog, identify
from auditor.catalog.identify import Identity, Sign
from auditor.catalog.model import Model
from auditor.finding import Basis, Category, Evidence, Finding, Severity
from auditor.judge.mesh import Mesh
from auditor.judge.mesh import read as read_mesh
from auditor.judge.plausible import Impossible, impossible
from auditor.judge.policy import Lines, Policy
from auditor.judge.signs import Machine, machine
from auditor.judge.view import ServerView, is_number, says_something, told_by
from auditor.order import Order
from auditor.records import Reading, Value
from auditor.runs import State


class Case(msgspec.Struct, frozen=True, dict=True):
    """What a rule sees. `model` is what most GPUs here are; `ordered` are the models the order may mean.

    `impossible` figures are in no view: no average, comparison or ranking may use them.
    """

    server: str
    view: ServerView
    order: Order | None
    ordered: tuple[Model, ...]
    identities: Mapping[str, Identity]
    model: Model | None
    catalog: Catalog
    policy: Policy
    machine: Machine
    state: State | None = None
    refused: str | None = None
    text_only: bool = False
    nonce: str | None = None
    between: tuple[str | None, str | None] = (None, None)
    impossible: tuple[Impossible, ...] = ()

    @cached_property
    def mesh(self) -> Mesh:
        """Who reaches whom by which path."""
        return read_mesh(self.view)

    @property
    def lines(self) -> Lines:
        """The thresholds in force."""
        return self.policy.lines

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPU subjects of the record, by index."""
        return self.view.gpus

    @property
    def count(self) -> int:
        """How many GPUs the record shows."""
        return len(self.view.gpus)

    @property
    def expected_models(self) -> tuple[Model, ...]:
        """The ordered models, else what the server is."""
        return self.ordered or ((self.model,) if self.model else ())

    @property
    def device(self) -> str | None:
        """`cuda` or `cpu`, None without a record."""
        return self.view.record.device if self.view.record else None

    @property
    def without_gpu(self) -> bool:
        """A server that was ordered, or without an order shown, to have no GPU."""
        if self.order is not None:
            return self.order.gpus == 0
        return self.device == "cpu" and not self.gpus

    def finding(
        self,
        id: str,
        category: Category,
        severity: Severity,
        subject: str,
        basis: Basis,
        source: str,
        parameters: Mapping[str, Value] | None = None,
        evidence: Iterable[Reading | None] = (),
    ) -> Finding:
        """A finding on this server; evidence that is None (no such reading) is left out."""
        kept: list[Evidence] = [self.view.evidence(reading) for reading in evidence if reading is not None]
        return Finding(
            id=id,
            category=category,
            severity=severity,
            server=self.server,
            subject=subject,
            basis=basis,
            source=source,
            parameters=dict(parameters or {}),
            evidence=tuple(kept),
            uuid=self.view.uuid(subject),
        )

    def per_gpu(self, metric: str, **conditions: str | int | float | bool) -> dict[str, Reading]:
        """The metric's figure of every GPU that has one."""
        out = {}
        for gpu in self.view.gpus:
            for reading in self.view.all(metric, gpu, **conditions):
                if is_number(reading.value):
                    out[gpu] = reading
                    break
        return out


def build(server: str, view: ServerView, order: Order | None, catalog: Catalog, policy: Policy) -> Case:
    """A server's case: identifies every GPU once, for all rules."""
    identities = {gpu: identify.identify(catalog, signs(view, gpu)) for gpu in view.gpus}
    common = Counter(identity.model.name for identity in identities.values() if identity.model)
    model = catalog.get(common.most_common(1)[0][0]) if common else None
    lines = policy.lines
    kind = machine(view, lines.sign_strong.value, lines.sign_total.value)
    absurd = tuple(impossible(view, identities, model, lines))
    view.put_aside(one.reading for one in absurd)
    ordered = ordered_models(order, catalog)
    return Case(server, view, order, ordered, identities, model, catalog, policy, kind, impossible=absurd)


def ordered_models(order: Order | None, catalog: Catalog) -> tuple[Model, ...]:
    """The models an order may mean: by name, narrowed by its memory and by NVSwitch."""
    if order is None or order.gpu is None:
        return ()
    models = catalog.named(order.gpu)
    if order.memory_gb is not None:
        models = _narrow(models, lambda m: abs(m.memory_gb - (order.memory_gb or 0)) <= 1)
    if order.interconnect == "nvswitch":
        models = _narrow(models, lambda m: m.nvswitch_capable)
    return models


def _narrow(models: tuple[Model, ...], keep: Callable[[Model], bool]) -> tuple[Model, ...]:
    return tuple(m for m in models if keep(m)) or models


_SIGNS = {
    "gpu_identity_name": "name",
    "gpu_identity_pci_device": "pci_device",
    "gpu_identity_compute_capability": "compute_capability",
    "gpu_identity_sms_total": "sms",
    "gpu_identity_l2_bytes": "l2_bytes",
    "gpu_identity_memory_bytes": "memory_bytes",
    "gpu_identity_memory_bus_bits": "bus_bits",
    "memory_capacity_bytes": "capacity_measured",
    "l2_cache_bytes": "l2_measured",
}


def signs(view: ServerView, gpu: str) -> list[Sign]:
    """Everything in the record that speaks about which model a GPU is."""
    out = []
    for metric, what in _SIGNS.items():
        for reading in view.all(metric, gpu):
            if isinstance(reading.value, str) or is_number(reading.value):
                out.append(Sign(what, reading.value, told_by(reading.source), reading))
    for reading in view.all("memory_bandwidth_bytes_per_second", gpu, op="read"):
        if is_number(reading.value) and reading.value > 0:  # zero was not measured, which says nothing about the model
            out.append(Sign("bandwidth_measured", reading.value, "measured", reading))
    for reading in view.all("matmul_flops_per_clock_per_sm", gpu, dtype="bf16"):
        if is_number(reading.value):
            out.append(Sign("per_clock_measured", reading.value, "measured", reading))
    share = _fp64_share(view, gpu)
    if share is not None:
        out.append(share)
    return [
        sign for sign in out if is_number(sign.value) or (isinstance(sign.value, str) and says_something(sign.value))
    ]


def _fp64_share(view: ServerView, gpu: str) -> Sign | None:
    fp64 = view.one("matmul_sustained_flops_per_second", gpu, dtype="fp64")
    fp32 = view.number("matmul_sustained_flops_per_second", gpu, dtype="fp32")
    if fp64 is None or not is_number(fp64.value) or not fp32:
        return None
    return Sign("fp64_share_measured", float(fp64.value) / fp32, "measured", fp64)


def median(values: Iterable[float]) -> float:
    """The middle of at least one value."""
    return statistics.median(values)
