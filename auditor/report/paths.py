"""What joins the GPUs of a server: the path's word and the measured rate, as a matrix."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.records import Reading, Record

MOST_GPUS = 16


@dataclass(frozen=True)
class Path:
    """What joins two GPUs."""

    word: str
    bytes_per_second: float | None = None


def matrix(record: Record) -> tuple[list[str], dict[tuple[str, str], Path]] | None:
    """The GPUs by index and what joins each two of them; None without a single path."""
    gpus = sorted((s for s in record.subjects if s.kind == "gpu"), key=lambda s: (s.index is None, s.index or 0, s.id))
    names = [gpu.id for gpu in gpus][:MOST_GPUS]
    words: dict[str, str] = {}
    rates: dict[str, float] = {}
    for reading in record.readings:
        if reading.metric == "topology_path" and isinstance(reading.value, str):
            words.setdefault(reading.subject, reading.value)
        elif _one_way(reading):
            rates[reading.subject] = min(float(reading.value or 0), rates.get(reading.subject, float("inf")))
    paths: dict[tuple[str, str], Path] = {}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            pair = f"{a}-{b}"
            if pair in words or pair in rates:
                paths[a, b] = paths[b, a] = Path(words.get(pair, "?"), rates.get(pair))
    return (names, paths) if paths else None


def tint(word: str) -> str | None:
    """The colour of a path's word."""
    if word.startswith("NV"):
        return "nvlink"
    return {"PIX": "near", "PXB": "near", "PHB": "host", "NODE": "host", "SYS": "far"}.get(word)


def _one_way(reading: Reading) -> bool:
    one_way = reading.metric == "peer_copy_bytes_per_second" and reading.conditions.get("direction") == "one_way"
    return one_way and isinstance(reading.value, int | float)
