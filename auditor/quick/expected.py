"""What a figure should be at least, shown beside it while the audit runs: the levels the judge will hold it against.

Only for reading along; the verdict comes from the judge, which sees everything and its margins.
"""

from __future__ import annotations

from collections.abc import Mapping

from auditor.catalog import Catalog
from auditor.catalog.model import Model
from auditor.judge import expectations
from auditor.judge.case import ordered_models
from auditor.judge.expectations import Context
from auditor.judge.policy import Policy
from auditor.order import Order
from auditor.records import Condition, Reading
from auditor.report.units import reading_text


class Expected:
    """Expectations for one server, sharpened by what it said about itself so far."""

    def __init__(self, order: Order | None, catalog: Catalog, policy: Policy) -> None:
        self._order, self._catalog, self._policy = order, catalog, policy
        self._ordered = ordered_models(order, catalog)
        self._model: Model | None = None
        self._gpus: set[str] = set()
        self._nvlinks: dict[str, float] = {}
        self._nvls: bool | None = None
        self._cpu = False

    @property
    def gpus(self) -> int:
        """How many GPUs told their name so far."""
        return len(self._gpus)

    @property
    def model(self) -> Model | None:
        """What the GPUs are, else what was ordered."""
        return self._model or (self._ordered[0] if self._ordered else None)

    def learn(self, reading: Reading) -> None:
        """Take note of a fact that says what can be expected."""
        if reading.metric == "gpu_identity_name" and isinstance(reading.value, str):
            self._gpus.add(reading.subject)
            named = self._catalog.named(reading.value)
            if named and self._model not in named:
                self._model = next((model for model in named if model in self._ordered), named[0])
        elif reading.metric == "topology_nvlinks_active_total" and isinstance(reading.value, int | float):
            self._nvlinks[reading.subject] = float(reading.value)
        elif reading.metric == "collectives_nvls" and isinstance(reading.value, bool):
            self._nvls = reading.value
        elif reading.metric.startswith(("matmul_", "memory_bandwidth_")) and reading.subject == "server":
            self._cpu = True  # no GPU of it could be used: its CPU is not held against a GPU

    def level(self, metric: str, conditions: Mapping[str, Condition]) -> tuple[float, bool] | None:
        """(level, whether it is an upper limit) for one figure; None where nothing is known."""
        lines = self._policy.lines
        if metric == "thermal_gpu_celsius" and conditions.get("stat") == "max":
            return lines.temperature_floor.value, True
        if metric == "collectives_algbw_bytes_per_second":
            return self._floor(conditions)
        model = self.model
        if model is None or self._cpu:
            return None
        if metric == "topology_nvlinks_active_total" and self._several() and model.nvlink_links:
            return float(model.nvlink_links), False
        found = self._published(metric, conditions, model)
        return (found.value, False) if found else None

    def text(self, metric: str, conditions: Mapping[str, Condition]) -> str:
        """The level in words: `668 TFLOPS`, `at most 80 °C`."""
        level = self.level(metric, conditions)
        if level is None:
            return ""
        return f"{'at most ' if level[1] else ''}{reading_text(metric, level[0])}"

    def stands(self, metric: str, conditions: Mapping[str, Condition], value: float) -> tuple[bool, float] | None:
        """(whether a figure is good enough, its distance from the level as a ratio); None without a level.

        Good enough is what the rule of this figure lets pass: the level less the rule's margin.
        """
        level = self.level(metric, conditions)
        if level is None:
            return None
        lines = self._policy.lines
        margins = {
            "matmul_sustained_flops_per_second": lines.achievable_margin.value,
            "memory_bandwidth_bytes_per_second": lines.achievable_margin.value,
            "collectives_busbw_bytes_per_second": lines.collective_margin.value,
            "host_copy_bytes_per_second": lines.host_copy_margin.value,
        }
        distance = value / level[0] - 1 if level[0] else 0.0
        good = value <= level[0] if level[1] else value >= level[0] * (1 - margins.get(metric, 0.0))
        return good, distance

    def _published(
        self, metric: str, conditions: Mapping[str, Condition], model: Model
    ) -> expectations.Expectation | None:
        if metric == "matmul_sustained_flops_per_second" and conditions.get("n") == 8192:
            return expectations.matmul(self._catalog, model, str(conditions.get("dtype")))
        if metric == "memory_bandwidth_bytes_per_second":
            return expectations.memory(self._catalog, model, str(conditions.get("op")))
        if metric == "host_copy_bytes_per_second" and conditions.get("memory") == "pinned":
            size, direction = conditions.get("bytes", 0), str(conditions.get("direction"))
            if (
                direction in ("h2d", "d2h")
                and conditions.get("load", "alone") == "alone"
                and isinstance(size, int | float)
                and size >= 64e6
            ):
                return expectations.host_copy(self._catalog, model.pcie_gen, model.pcie_lanes, direction)
        if metric == "collectives_busbw_bytes_per_second" and conditions.get("op") == "all_reduce":
            ranks, size = conditions.get("ranks", 0), conditions.get("bytes", 0)
            if isinstance(ranks, int) and isinstance(size, int | float):
                fabric = "pcie"
                if self._linked(model):
                    fabric = "nvswitch" if model.nvswitch_capable else "nvlink_bridge"
                element = str(conditions.get("dtype"))
                context = Context(model.name, ranks, fabric, self._nvls, element, float(size))
                return expectations.all_reduce(self._catalog, context)
        return None

    def _floor(self, conditions: Mapping[str, Condition]) -> tuple[float, bool] | None:
        """The user's own floors: 8 ranks, about 400 MB of float32."""
        size = conditions.get("bytes")
        fits = conditions.get("op") == "all_reduce" and conditions.get("ranks") == 8 and self.model is not None
        if not fits or conditions.get("dtype") != "float32" or not isinstance(size, int | float):
            return None
        if not 256e6 <= size <= 640e6 or self.model is None:
            return None
        lines = self._policy.lines
        line = lines.allreduce_floor_nvlink if self._linked(self.model) else lines.allreduce_floor_pcie
        return line.value, False

    def _several(self) -> bool:
        return (self._order.gpus if self._order else len(self._gpus)) > 1

    def _linked(self, model: Model) -> bool:
        """Whether NVLink is there, or was ordered, or belongs to this kind of board."""
        ordered = self._order.interconnect if self._order else None
        if ordered is not None:
            return ordered in ("nvswitch", "nvlink", "nvlink_bridge")
        return any(self._nvlinks.values()) or (model.sxm and bool(model.nvlink_links) and self._several())
