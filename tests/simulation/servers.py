"""Healthy servers of many kinds, benign oddities included, and the same with one fault."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from dataclasses import dataclass

from auditor import order
from auditor.judge import ServerInput
from auditor.records import Reading, Record
from tests.builders import DMI, Machine, build, changed, without
from tests.judge.faults import Fault
from tests.simulation.spreads import Luck, Spread


@dataclass(frozen=True)
class Product:
    """What somebody rents: a model, how many, on metal or as a guest, and the order's words."""

    model: str
    gpus: int
    order: str
    guest: bool = False
    nvlink: bool = True
    profile: str = "standard"


PRODUCTS = (
    Product("A100 SXM4 80GB", 8, "8x A100-SXM4-80GB nvswitch bare-metal"),
    Product("H200 SXM5 141GB", 8, "8x H200 nvswitch bare-metal"),
    Product("H100 SXM5 80GB", 8, "8x H100-SXM5-80GB nvswitch vm", guest=True),
    Product("H100 SXM5 80GB", 4, "4x H100-SXM5-80GB nvlink bare-metal"),
    Product("H200 SXM5 141GB", 1, "1x H200 vm", guest=True, nvlink=False),
    Product("H200 SXM5 141GB", 8, "8x H200 nvswitch bare-metal", profile="quick"),
    Product("L40S", 8, "8x L40S pcie bare-metal"),
    Product("RTX 4090", 8, "8x RTX-4090 pcie"),
    Product("A100 PCIe 80GB", 4, "4x A100-PCIe-80GB pcie vm", guest=True),
    Product("B200 SXM6 180GB", 8, "8x B200 nvswitch bare-metal"),
)
FAULTY = PRODUCTS[:2]

SOLD_AS: tuple[tuple[str, str, Product], ...] = (  # whole machines that are honestly something else
    ("the reference case", "virtualized",
     Product("A100 SXM4 80GB", 8, "8x A100-SXM4-80GB nvswitch bare-metal", guest=True, nvlink=False)),
    ("A100 40GB sold as 80GB", "gpu-wrong-model", Product("A100 SXM4 40GB", 8, "8x A100-SXM4-80GB nvswitch")),
    ("A800 sold as A100", "gpu-wrong-model", Product("A800 SXM4 80GB", 8, "8x A100-SXM4-80GB nvswitch")),
    ("H100 sold as H200", "gpu-wrong-model", Product("H100 SXM5 80GB", 8, "8x H200 nvswitch bare-metal")),
    ("H20 sold as H100", "gpu-wrong-model", Product("H20 96GB", 8, "8x H100-SXM5-80GB nvswitch")),
    ("H100 PCIe sold as SXM", "gpu-wrong-model", Product("H100 PCIe 80GB", 8, "8x H100-SXM5-80GB nvswitch")),
    ("L40 sold as L40S", "gpu-wrong-model", Product("L40", 8, "8x L40S")),
    ("four GPUs sold as eight", "gpu-count-short", Product("H200 SXM5 141GB", 4, "8x H200 nvswitch bare-metal")),
)  # fmt: skip

Oddity = Callable[[Record], Record]


def _metal_cloud(record: Record) -> Record:
    record = changed(record, "server_facts_dmi", "Amazon EC2", field="sys_vendor", source=DMI)
    record = changed(record, "server_facts_dmi", "p5.48xlarge.metal", field="product_name", source=DMI)
    return changed(record, "server_facts_virtual_pci", "1d0f:ec20,1d0f:8061")


ODDITIES: tuple[tuple[str, bool, Oddity], ...] = (  # name, on metal only, edit: false positives others fell for
    ("PCIe at rest in gen 1", False, lambda r: changed(r, "topology_pcie_generation", 1, which="current")),
    ("serials all zero", False, lambda r: changed(r, "gpu_identity_serial", "0000000000000")),
    ("persistence off", False, lambda r: changed(r, "gpu_identity_persistence", False)),
    ("driver baseline memory", False, lambda r: changed(r, "gpu_identity_memory_used_bytes", 620_000_000)),
    ("power cap all the time", False, lambda r: changed(r, "thermal_event_reason_ratio", 1.0, reason="sw_power_cap")),
    ("no DMI", False, lambda r: without(r, "server_facts_dmi")),
    ("metal cloud with ENA", True, _metal_cloud),
    ("no ECC readings", False, lambda r: without(r, "gpu_identity_ecc_enabled")),
    ("applications clocks flag", False, lambda r: changed(r, "thermal_event_reason_ratio", 0.3, reason="idle")),
)


def healthy(product: Product, rng: random.Random, spread: Spread, name: str) -> ServerInput:
    """A healthy server of a product; every third has a benign oddity."""
    record = _made(product, rng, spread, name)
    if rng.random() < 1 / 3:
        fitting = [edit for _, metal, edit in ODDITIES if not (metal and product.guest)]
        record = rng.choice(fitting)(record)
    return _input(product, record, name)


def faulty(product: Product, fault: Fault, rng: random.Random, spread: Spread, name: str) -> ServerInput:
    """A server with one fault, and no oddity that could hide the very reading."""
    return _input(product, fault.edit(_made(product, rng, spread, name)), name)


def _made(product: Product, rng: random.Random, spread: Spread, name: str) -> Record:
    luck = Luck(rng, spread, product.gpus)
    record = build(
        Machine(product.model, product.gpus, name, product.profile, product.guest, product.nvlink, luck, serial=name)
    )
    return _noisy(record, rng, spread)


def _noisy(record: Record, rng: random.Random, spread: Spread) -> Record:
    """Every measured rate as one repeat would give it."""
    rows = []
    for row in record.readings:
        if row.source == "measured" and row.spread and isinstance(row.value, float):
            value = row.value * (1 + rng.gauss(0.0, spread.repeat))
            row = Reading(row.probe, row.metric, row.subject, value, row.source, row.conditions, row.spread, row.n)
        rows.append(row)
    return dataclasses.replace(record, readings=tuple(rows))


def _input(product: Product, record: Record, name: str) -> ServerInput:
    return ServerInput(name, order.parse(product.order, name), record=record)
