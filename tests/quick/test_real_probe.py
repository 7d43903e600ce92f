"""The real probe file over real SSH, and what it costs on a poor line."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from auditor import reading
from auditor.quick.events import Figure, Step
from tests.quick.conftest import Machine

PYZ = Path(__file__).parents[2] / "build" / "auditor-probe.pyz"


@pytest.mark.fleet
def test_a_poor_line_costs_less_than_eight_seconds(machine: Machine) -> None:
    """50 ms round trip, 10 Mbit/s, a probe file of a megabyte: first words in 3 s, all over in its own time + 8 s."""
    machine.fleet.fault(machine.name, "latency", 25)
    machine.fleet.fault(machine.name, "slow", 1250)
    machine.probe += b"\0" * 8  # a zip may be followed by anything short
    machine.probe = os.urandom(1_000_000 - len(machine.probe)) + machine.probe
    told: list[float] = []
    began = time.monotonic()
    machine.when(Step, 2, lambda: told.append(time.monotonic() - began))
    assert machine.audit().phase == "done"
    assert told[0] < 3
    assert time.monotonic() - began < 8  # the stub's own time is nothing
    assert machine.leftovers() == []


@pytest.mark.fleet
@pytest.mark.scale
def test_the_real_probe_on_a_cpu(machine: Machine) -> None:
    """True figures come live and in the record; nowhere on the machine is a file more than before."""
    before = files(machine)
    machine.probe = PYZ.read_bytes()
    outcome = machine.audit("server_facts,matmul,training_step,storage", limit=120.0)
    assert (outcome.phase, outcome.reason) == ("done", None)
    read = reading.read_bytes(machine.kept[0])
    assert isinstance(read, reading.Read) and read.record.device == "cpu"
    live = {event.reading.metric for event in machine.events if isinstance(event, Figure)}
    assert "matmul_sustained_flops_per_second" in live
    assert live <= {row.metric for row in read.record.readings}
    assert machine.leftovers() == []
    assert files(machine) == before


def files(machine: Machine) -> set[str]:
    """Every file of the machine that is not the kernel's or the controller's."""
    out: set[str] = set()
    for folder, folders, names in os.walk(machine.root):
        inside = folder.removeprefix(str(machine.root)) or "/"
        if inside == "/":
            folders[:] = [name for name in folders if name not in ("proc", "sys", "usr", "lib", "lib64", "bin", "sbin")]
        elif inside == "/opt":
            folders[:] = [name for name in folders if name != "venv"]
        elif inside in ("/root/.pyenv", "/etc"):
            folders.clear()
        out |= {f"{inside}/{name}" for name in [*names, *folders]}
    return out
