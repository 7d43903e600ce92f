"""peer_copy: pairs by their lower index, each direction on streams of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.probes import peer_copy
from auditor.probes.engine.gpu_facts import GpuFacts
from tests.probes.desk import desk


def test_one_gpu_has_no_peer(tmp_path: Path) -> None:
    """The reason says why there is nothing to measure."""
    with desk("peer_copy", tmp_path, device="cuda", gpus=(GpuFacts(0),)) as at:
        assert peer_copy.applies(at.context) == "one GPU: no peer"


def test_a_pair_is_named_by_its_lower_index() -> None:
    """Whoever sends, the pair has one name."""
    assert peer_copy.pair_id(5, 2) == peer_copy.pair_id(2, 5) == "gpu2-gpu5"


@pytest.mark.gpu
def test_what_arrives_is_compared_word_by_word() -> None:
    """On one GPU as its own peer: everything arrives, a changed word is found, rates and latency are figures."""
    path, other = peer_copy.Path(0, 0, 1 << 24), peer_copy.Path(0, 0, 1 << 24)
    assert peer_copy.one_way(path).value > 1e9
    whole, own = peer_copy.at_once([path, other])
    assert whole.value > 1e9 and len(own) == 2
    assert path.wrong() == other.wrong() == 0
    path.got[77] += 1
    assert path.wrong() == 1
    assert 1e-7 < peer_copy.latency(0, 0) < 1e-3
