"""The real probes: each file says about itself what the engine needs."""

import ast
import re
from pathlib import Path

import pytest

from auditor.probes.engine import budget, catalogue
from auditor.records import PROFILES

ROOT = Path(__file__).parents[3]
PROBES = {probe.key: probe for probe in catalogue.probes()}


def test_facts_come_first_and_diagnostics_last():
    """Identity before load, host and storage never beside a GPU's measurement, DCGM without our workers."""
    order = list(PROBES)
    assert order[:3] == ["server_facts", "gpu_identity", "topology"]
    assert order.index("gpu_health") < order.index("time_slicing") < order.index("matmul") < order.index("thermal")
    assert order.index("thermal") < order.index("host_cpu") < order.index("dcgm")
    assert PROBES["dcgm"].workers is False


@pytest.mark.parametrize("key", PROBES)
def test_a_probe_describes_itself(key):
    """Key, scope, devices, needs, seconds for each profile, method, and a docstring that is printed in the report."""
    probe, module = PROBES[key], catalogue.load(key)
    assert module.__name__.rsplit(".", 1)[-1] == key
    assert probe.scope in catalogue.SCOPES and set(probe.devices) <= {"cuda", "cpu"} and probe.devices
    assert set(probe.needs) <= {"torch"}
    assert set(probe.seconds) == set(PROFILES) and all(seconds > 0 for seconds in probe.seconds.values())
    assert probe.method >= 1 and len(probe.title) > 20
    assert callable(module.applies) and callable(module.run)


@pytest.mark.parametrize("path", sorted((ROOT / "auditor/probes").rglob("*.py")), ids=lambda path: path.stem)
def test_server_side_code_runs_under_python_3_8(path):
    """Its grammar, and no import at the top but the standard library and our own."""
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    for node in tree.body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        assert not [name for name in names if re.match(r"(torch|pynvml|numpy|msgspec)\b", name)], path
        assert not [
            name for name in names if name.startswith("auditor.") and not re.match(r"auditor\.(records|probes)", name)
        ]


def test_a_share_of_the_budget():
    """All of it while it lasts; in proportion when it does not; nothing when it is over."""
    import time

    endless = budget.Budget(None, time.monotonic())
    assert endless.share(5.0, 100.0) == 5.0
    tight = budget.Budget(10.0, time.monotonic())
    assert tight.share(5.0, 8.0) == 5.0
    assert tight.share(5.0, 20.0) == pytest.approx(2.5, abs=0.05)
    assert budget.Budget(1.0, time.monotonic() - 2.0).share(5.0, 20.0) == 0.0


def test_a_soak_is_as_long_as_asked():
    """The load's length, and room for what comes before and after it."""
    thermal = PROBES["thermal"]
    assert budget.wanted(thermal, "soak", 7200.0) > 7200.0
    assert budget.wanted(thermal, "quick", 7200.0) == thermal.seconds["quick"]
    assert budget.wanted(PROBES["matmul"], "soak", 7200.0) == PROBES["matmul"].seconds["soak"]
