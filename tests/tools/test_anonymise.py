"""The tool that makes a record neutral: names go, figures stay."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from auditor.reading import Read, read_bytes
from tools import anonymise

UUID = "GPU-12345678-9abc-def0-1234-56789abcdef0"


def document() -> dict[str, Any]:
    """A record that names its machine in every way known."""

    def reading(metric: str, value: Any, **conditions: Any) -> dict[str, Any]:
        probe = "_".join(metric.split("_")[:2])
        return {
            "probe": probe,
            "metric": metric,
            "subject": "server",
            "with": conditions,
            "value": value,
            "source": "kernel/sysfs",
        }

    return {
        "schema": 1,
        "tool": {"name": "auditor-probe", "version": "1"},
        "run": "20250101T010101Z",
        "server": "rack7-node3",
        "profile": "quick",
        "device": "cuda",
        "started": "2025-01-01T01:01:01Z",
        "seconds": {"total": 1.5, "fixed": 0.5, "measuring": 1.0},
        "nonce": "abcd",
        "subjects": [{"id": "gpu0", "kind": "gpu", "index": 0, "uuid": UUID, "pci": "0000:06:00.0"}],
        "probes": [],
        "readings": [
            reading("server_facts_hostname", "rack7-node3"),
            reading("server_facts_kernel", "6.1.0-secret-build"),
            reading("server_facts_kernel_version_text", "Linux version 6.1.0-secret-build (root@factory) #7"),
            reading("gpu_identity_uuid", UUID),
            reading("gpu_identity_serial", "1654321098765"),
            reading("gpu_identity_vbios", "96.00.CF.00.01"),
            reading("server_facts_cuda_version", "13.0"),
            reading("storage_file_system", "ext4", path="/tmp/auditor-probe-x7/probe-server"),
            reading("matmul_sustained_flops_per_second", 6.55e14, n=8192),
        ],
        "series": [],
        "attachments": {
            "kernel-log.txt": f"rack7-node3 NVRM: {UUID[4:]} serial 1654321098765 from 10.1.2.3:22, aa:bb:cc:dd:ee:ff\n"
            "Kernel command line: root=/dev/secret\n"
        },
    }


def test_no_name_is_left_and_no_figure_moves() -> None:
    """Everything that names the machine is gone from every corner; figures and versions are as they were."""
    neutral = anonymise.neutral(document())
    text = json.dumps(neutral)
    for name in ("rack7", "secret", "12345678-9abc", "1654321098765", "10.1.2.3", "aa:bb", "factory", "abcd", "-x7"):
        assert name not in text, name
    values = {row["metric"]: row["value"] for row in neutral["readings"]}
    assert values["matmul_sustained_flops_per_second"] == 6.55e14
    assert values["gpu_identity_vbios"] == "96.00.CF.00.01"
    assert values["server_facts_cuda_version"] == "13.0"
    assert neutral["subjects"][0]["pci"] == "0000:06:00.0"


def test_the_same_name_becomes_the_same_word_everywhere() -> None:
    """Subject, reading and log still speak of one GPU: sources that agreed still agree."""
    neutral = anonymise.neutral(document())
    word = neutral["subjects"][0]["uuid"]
    assert next(r["value"] for r in neutral["readings"] if r["metric"] == "gpu_identity_uuid") == word
    assert word[4:] in neutral["attachments"]["kernel-log.txt"]


def test_the_result_is_still_a_record(tmp_path: Path) -> None:
    """The one reader takes it; doing it twice changes nothing more."""
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    source.write_text(json.dumps(document()))
    assert anonymise.main([str(source), str(target)]) == 0
    assert isinstance(read_bytes(target.read_bytes()), Read)
    once = json.loads(target.read_text())
    assert anonymise.neutral(copy.deepcopy(once)) == once


def test_misuse_is_said() -> None:
    """Without two paths: a line on how to call it, exit code 2."""
    assert anonymise.main([]) == 2
