"""What a person who knows these machines says of a text: findings from small texts, with and without an order."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor import order
from auditor.commands.triage import triage
from tests.readers.reading_inputs import INPUTS


def matrix(cells: list[list[str]], affinity: str = "0-31    0               N/A") -> str:
    """A `topo -m` text of GPUs with the given cells; one affinity for all rows, or one per row by `|`."""
    names = [f"GPU{i}" for i in range(len(cells))]
    tails = affinity.split("|") * len(cells)
    head = "        " + "".join(f"{name:<8}" for name in names) + "CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
    return head + "".join(
        f"{name:<8}" + "".join(f"{cell:<8}" for cell in row) + tails[i] + "\n"
        for i, (name, row) in enumerate(zip(names, cells, strict=True))
    )


def square(count: int, path: str) -> list[list[str]]:
    """The same path between all GPUs."""
    return [["X" if i == j else path for j in range(count)] for i in range(count)]


def halves(count: int, near: str, far: str) -> list[list[str]]:
    """One path inside each half, another between the halves."""
    half = count // 2
    return [["X" if i == j else near if (i < half) == (j < half) else far for j in range(count)] for i in range(count)]


TWO_NODES = (
    "0-31    0               N/A|0-31    0               N/A|32-63   1               N/A|32-63   1               N/A"
)
BRIDGES = [
    ["X", "NV4", "SYS", "SYS"],
    ["NV4", "X", "SYS", "SYS"],
    ["SYS", "SYS", "X", "NV2"],
    ["SYS", "SYS", "NV2", "X"],
]
CUBE = [["X", "NV1", "NV2", "SYS"], ["NV1", "X", "SYS", "NV2"], ["NV2", "SYS", "X", "NV1"], ["SYS", "NV2", "NV1", "X"]]
TABLE = (INPUTS / "smi_table" / "two-gpus.txt").read_text(encoding="utf-8")
LOG = (INPUTS / "kernel_log" / "stamps.txt").read_text(encoding="utf-8")


def found(tmp_path: Path, text: str, ordered: str | None = None) -> dict[str, str]:
    """Severity by finding, and the verdict under "verdict"."""
    path = tmp_path / "paste"
    path.write_text(text, encoding="utf-8")
    (server,) = triage([path], order.load(ordered) if ordered else None).judgement.servers
    assert server.text_only
    out = {finding.id: finding.severity for finding in server.findings if finding.id != "not-measured"}
    return {**out, "verdict": server.verdict}


@pytest.mark.parametrize(
    ("text", "ordered", "wanted"),
    [
        # With an order: what was paid for and is not there.
        (matrix(halves(8, "PXB", "SYS")), "8x A100 SXM", {"nvlink-missing": "review"}),
        (matrix(square(8, "NV8")), "8x A100-SXM4-80GB", {"nvlink-partial": "review"}),
        (matrix(square(8, "NV8"), TWO_NODES), "8x A800 SXM4", {}),
        (matrix(square(4, "NV6")), "4x A100-SXM4-80GB", {"nvlink-half-partition": "review"}),
        (matrix(square(4, "NV6"), TWO_NODES), "4x H100 SXM", {}),
        (matrix(square(5, "NV18")), "8x H100 SXM", {"gpu-count-short": "review"}),
        (matrix(square(8, "NV18")), "8x L40S", {"unknown-name": "review"}),
        (matrix(square(8, "NV8")), "8x L20Y", {"unknown-name": "review"}),
        (TABLE, "2x H200", {"gpu-wrong-model": "review"}),
        # From the matrix alone.
        (matrix(halves(4, "PIX", "SYS"), TWO_NODES), None, {}),
        (matrix(BRIDGES, TWO_NODES), None, {"nvlink-partial": "review"}),
        (matrix(CUBE, TWO_NODES), None, {}),
        (matrix(square(4, "SYS")), None, {"virtualized": "advice"}),
        (matrix(square(2, "SYS"), "                        N/A"), None, {"virtualized": "advice"}),
        (matrix(square(8, "PHB")), None, {"virtualized": "advice"}),
        (matrix(square(4, "PHB")), None, {}),
        (matrix(square(8, "NV18"), "0-367   0               N/A"), None, {"numa-hidden": "review"}),
        (matrix(square(8, "NV12"), "0-63    N/A             N/A"), None, {"numa-hidden": "review"}),
        (matrix(square(3, "PIX"), "0-31    0-1             N/A"), None, {"virtualized": "advice"}),
        # Other tools.
        ((INPUTS / "smi_table" / "wrapped-80.txt").read_text(), None, {"table-undated": "advice"}),
        ("Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.", None, {"gpu-lost": "reject"}),
        (LOG, None, {"gpu-lost": "reject"}),
        ((INPUTS / "lspci" / "guest-nn.txt").read_text(), None, {"virtualized": "advice"}),
        ((INPUTS / "lscpu" / "guest.txt").read_text(), "1x A10 bare-metal", {"virtualized": "review"}),
        ((INPUTS / "nvlink_status" / "two-down.txt").read_text(), None, {"nvlink-partial": "review"}),
        ((INPUTS / "smi_list" / "mig.txt").read_text(), None, {"mig-sliced": "review"}),
        ((INPUTS / "p2p_matrix" / "mixed.txt").read_text().replace("p2p n", "p2p r"), None, {"p2p-disabled": "review"}),
        ((INPUTS / "nccl_tests" / "rank-prefix-in-rows.txt").read_text(), None, {"allreduce-below-floor": "review"}),
    ],
)
def test_a_text_gives_the_findings_a_person_would(
    tmp_path: Path, text: str, ordered: str | None, wanted: dict[str, str]
) -> None:
    """Each finding that must be there is there with its severity; where none is due, nothing is at review or above."""
    got = found(tmp_path, text, ordered)
    assert wanted.items() <= got.items()
    if not set(wanted.values()) & {"review", "reject"}:
        assert not {severity for id, severity in got.items() if id != "verdict"} & {"review", "reject"}, got
        assert got["verdict"] == "incomplete"
    else:
        assert got["verdict"] == "review"


def test_an_excerpt_is_not_counted_against_the_order(tmp_path: Path) -> None:
    """Links of GPU 3 alone, or a log that names one address, do not mean that seven GPUs are missing."""
    excerpt = "GPU 3: NVIDIA A100-SXM4-80GB (UUID: GPU-aaaaaaaa-0000-4000-8000-000000000003)\n" + "".join(
        f"\t Link {i}: 25 GB/s\n" for i in range(12)
    )
    assert "gpu-count-short" not in found(tmp_path, excerpt, "8x A100-SXM4-80GB")
    assert "gpu-count-short" not in found(tmp_path, LOG, "8x A100-SXM4-80GB")


def test_outputs_of_one_server_are_judged_together(tmp_path: Path) -> None:
    """A matrix names no model and a list shows no paths; together they say that NVLink is off."""
    listing = "".join(
        f"GPU {i}: NVIDIA A100-SXM4-80GB (UUID: GPU-aaaaaaaa-0000-4000-8000-00000000000{i})\n" for i in range(4)
    )
    text = f"$ nvidia-smi -L\n{listing}\n$ nvidia-smi topo -m\n{matrix(halves(4, 'PXB', 'SYS'), TWO_NODES)}"
    assert found(tmp_path, text)["nvlink-missing"] == "review"
