"""`auditor triage` on texts written for the purpose."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from auditor.cli import auditor
from auditor.commands.triage import CLEAN, FORGEABLE, NOTHING
from tests.readers.reading_inputs import INPUTS

NO_NVLINK = """\
        GPU0    GPU1    GPU2    GPU3    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      PXB     SYS     SYS     0-35    0               N/A
GPU1    PXB      X      SYS     SYS     0-35    0               N/A
GPU2    SYS     SYS      X      PXB     36-71   1               N/A
GPU3    SYS     SYS     PXB      X      36-71   1               N/A
"""
FULL = NO_NVLINK.replace("PXB", "NV4").replace("SYS", "NV4")


def run(*arguments: str, stdin: str | None = None) -> tuple[int, str]:
    """Exit code and stdout of `auditor triage`."""
    result = CliRunner().invoke(auditor, ["triage", *arguments], input=stdin, standalone_mode=False)
    assert not isinstance(result.exception, (AssertionError, TypeError, KeyError)), result.exception
    return (result.return_value or result.exit_code, result.output)


def document(*arguments: str) -> dict[str, Any]:
    """The JSON document of `auditor triage --json`."""
    code, output = run(*arguments, "--json")
    assert code == 3
    found: dict[str, Any] = json.loads(output)
    return found


@pytest.fixture
def paste(tmp_path: Path) -> Path:
    """A matrix without NVLink in a file whose name says nothing."""
    path = tmp_path / "x"
    path.write_text(NO_NVLINK)
    return path


def test_an_order_tells_before_payment_that_nvlink_is_off(paste: Path) -> None:
    """4x A100 SXM ordered, PXB and SYS between the GPUs: review with nvlink-missing, never reject from text."""
    server = document(str(paste), "--order", "4x A100 SXM")["servers"][0]
    found = {finding["id"]: finding for finding in server["findings"]}
    assert server["verdict"] == "review"
    assert found["nvlink-missing"]["category"] == "misallocated"
    assert found["nvlink-missing"]["severity"] == "review"


def test_the_same_text_without_an_order_finds_nothing_and_says_what_that_means(paste: Path) -> None:
    """A matrix names no model: the verdict is incomplete, "nothing wrong in what was sent", and text can be forged."""
    code, output = run(str(paste))
    words = " ".join(output.split())
    assert code == 3
    assert "incomplete" in words and CLEAN in words and FORGEABLE in words


def test_a_text_in_which_nothing_could_be_read_is_not_called_clean() -> None:
    """ "hello" holds nothing wrong because it holds nothing: that is said, and the verdict stays incomplete."""
    code, output = run("-", stdin="hello\n")
    words = " ".join(output.split())
    assert code == 3 and "incomplete" in words
    assert NOTHING in words and CLEAN not in words


def test_chinese_is_chinese_to_the_end(paste: Path) -> None:
    """What is missing, what was not read and the closing note are in the language that was asked for."""
    clean, nothing = run(str(paste), "--lang", "zh")[1], run("-", "--lang", "zh", stdin="hello\n")[1]
    assert "发来的内容中没有发现问题" in clean and "付款前请实测服务器" in clean
    assert "其中没有任何可以读取的内容" in nothing and "未读取：" in nothing
    for words in (CLEAN, NOTHING, FORGEABLE, "not read:", "host_copy", "thermal", "matmul"):
        assert words not in clean + nothing, words
    assert "付款前请实测服务器" in document(str(paste), "--lang", "zh")["note"]


def test_a_full_mesh_is_never_accepted(tmp_path: Path) -> None:
    """Text that agrees with the order in everything stays incomplete."""
    (tmp_path / "x").write_text(FULL)
    server = document(str(tmp_path / "x"), "--order", "4x A100 SXM")["servers"][0]
    assert server["verdict"] == "incomplete"
    assert not any(finding["severity"] in ("reject", "review") for finding in server["findings"])


def test_the_document_holds_every_cell_and_where_each_row_was_not_read(tmp_path: Path) -> None:
    """Readings hold paths, affinity, NUMA node, GPU NUMA id and NIC names; unreadable lines have file, line, reason."""
    path = tmp_path / "x"
    path.write_text((INPUTS / "topology_matrix" / "blanks.txt").read_text() + "\nwhat is this?\n")
    found = document(str(path))
    assert set(found) >= {"schema", "servers"}
    server = found["servers"][0]
    assert set(server) >= {"name", "verdict", "findings", "readings", "unreadable"}
    paths = {r["subject"]: r["value"] for r in server["readings"] if r["metric"] == "topology_path"}
    assert paths["gpu0-gpu1"] == "NV6" and paths["gpu1-nic1"] == "PIX" and paths["nic0-nic1"] == "SYS"
    metrics = {r["metric"] for r in server["readings"]}
    assert {"topology_cpu_affinity", "topology_numa_node", "topology_gpu_numa_id", "topology_nic_name"} <= metrics
    last = server["unreadable"][-1]
    assert last["file"] == str(path) and last["line"] > 10 and "what is this?" in last["why"]
    for finding in server["findings"]:
        assert set(finding) >= {"id", "category", "severity", "subject", "basis", "source"}


def test_a_file_of_nothing_known_is_a_server_of_which_nothing_is_known(tmp_path: Path) -> None:
    """Unknown text, an empty file and a refused one are rows with their reason, never dropped, never a crash."""
    (tmp_path / "a").write_text("ERROR: Option -m is missing its value.")
    (tmp_path / "b").write_text("")
    (tmp_path / "c").write_bytes(b"PK\x03\x04 broken")
    servers = document(*(str(tmp_path / name) for name in "abc"), "--each")["servers"]
    assert {server["verdict"] for server in servers} == {"incomplete"}
    why = {Path(row["file"]).name: row["why"] for server in servers for row in server["unreadable"]}
    assert "not the output" in why["a"] and "no text" in why["b"] and "archive" in why["c"]


def test_a_zip_of_two_servers(tmp_path: Path) -> None:
    """Folders of an archive are servers of their own, each under its own name."""
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for host, text in (("n1", NO_NVLINK), ("n2", FULL)):
            archive.writestr(f"{host}/topo.txt", text)
            archive.writestr(f"{host}/cpu.txt", (INPUTS / "lscpu" / "guest.txt").read_text())
    servers = document(str(path))["servers"]
    assert len(servers) == 2
    assert all(len(server["files"]) == 2 for server in servers)


def test_hosts_give_names_and_orders(tmp_path: Path) -> None:
    """A host named by a prompt has the order that ORDER.yml gives that name."""
    (tmp_path / "paste.txt").write_text(f"root@gpu-07:~# nvidia-smi topo -m\n{NO_NVLINK}")
    (tmp_path / "ORDER.yml").write_text("servers: {gpu-07: {gpu: A100-SXM4-80GB, gpus: 4}}\n")
    server = document(str(tmp_path / "paste.txt"), "--order", str(tmp_path / "ORDER.yml"))["servers"][0]
    assert server["name"] == "gpu-07"
    assert "nvlink-missing" in {finding["id"] for finding in server["findings"]}


def test_names_of_files_cannot_leave_their_place(tmp_path: Path) -> None:
    """Whatever a file is called, the server's name is plain, and two files of one name stay two servers."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "evil\u202e$(x).txt").write_text(NO_NVLINK)
    names = [server["name"] for server in document(str(tmp_path))["servers"]]
    assert len(set(names)) == 2
    assert all(name.isascii() and name[0].isalnum() for name in names)


def test_standard_input_is_read() -> None:
    """`cat paste | auditor triage -` works; an order given with it is used."""
    code, output = run("-", "--order", "4x A100 SXM", "--json", stdin=NO_NVLINK)
    assert json.loads(output)["servers"][0]["verdict"] == "review"
    assert code == 3


def test_misuse_is_told(paste: Path) -> None:
    """A missing file and contradicting options name what to do."""
    empty = paste.parent / "empty"
    empty.mkdir()
    for arguments, said in (
        ((str(paste) + ".none",), "no such file"),
        ((str(paste), "--each", "--server", "x"), "give one of them"),
        ((str(empty),), "holds no file"),
    ):
        result = CliRunner().invoke(auditor, ["triage", *arguments], standalone_mode=False)
        assert said in str(result.exception)


def test_a_server_of_the_persons_own_choosing(tmp_path: Path) -> None:
    """--server puts contradicting files under one name."""
    (tmp_path / "a").write_text(NO_NVLINK)
    (tmp_path / "b").write_text(FULL)
    servers = document(str(tmp_path / "a"), str(tmp_path / "b"), "--server", "mine")["servers"]
    assert [server["name"] for server in servers] == ["mine"]
