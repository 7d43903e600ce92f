"""What others published for a machine's all-reduce: the band a curve is drawn in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from auditor import catalog
from auditor.catalog.achievable import AllReduce, low
from auditor.judge.texts import N_

_LARGEST = 2**30


def rows(model: str, gpus: int) -> Iterator[tuple[str, list[tuple[float, AllReduce]]]]:
    """The lowest and the highest published row of a machine by size; needs two sizes to be a line."""
    by_size: dict[float, list[AllReduce]] = defaultdict(list)
    for row in catalog.load().achievable.nccl_all_reduce:
        fits = row.comparable and row.gpus == gpus and model in row.models
        if fits and row.bytes and row.bytes <= _LARGEST:
            by_size[float(row.bytes)].append(row)
    if len(by_size) < 2:
        return
    names = ((N_("published, lowest: {gpus} × {model}"), min), (N_("published, highest: {gpus} × {model}"), max))
    for name, pick in names:
        yield name, [(size, pick(by_size[size], key=lambda row: low(row.busbw_gb_s))) for size in sorted(by_size)]


def band(model: str, gpus: int) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """The same as bytes and bytes per second of bus bandwidth."""
    for name, published in rows(model, gpus):
        yield name, [(size, low(row.busbw_gb_s) * 1e9) for size, row in published]


def citation(row: AllReduce) -> str:
    """Where a row comes from."""
    return catalog.load().achievable.sources.get(row.source, row.source)
