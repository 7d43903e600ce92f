"""Evidence files: complete, checkable with sha256sum alone, and any change is seen."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from auditor import records, runs
from auditor.assembly import judge_run
from auditor.commands.evidence import command
from auditor.errors import UserError
from auditor.report import evidence
from tests.report import samples


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with the reference case and a server that never answered."""
    return run_folder(tmp_path_factory.mktemp("run"), samples.few())


def run_folder(folder: Path, given: samples.Given) -> Path:
    """A judged run as a run folder on disk."""
    judgement = given.judgement
    names = [server.name for server in judgement.servers]
    info = runs.RunInfo(
        judgement.run, judgement.inventory, "standard", "0.1.0", samples.STARTED, samples.FINISHED, len(names)
    )
    runs.write(folder / "run.json", info)
    runs.write(folder / "orders.json", {server.name: server.order for server in judgement.servers})
    for server in judgement.servers:
        record = given.record(server.name)
        state = runs.State("done") if record else runs.State("reach", "unreachable")
        runs.write(folder / "servers" / server.name / "state.json", state)
        if record is not None:
            data = json.dumps(records.to_document(record)).encode()
            runs.write_bytes(folder / "servers" / server.name / "record.json", data)
    return folder


def test_the_file_holds_what_the_verdict_rests_on(run: Path, tmp_path: Path) -> None:
    """Record as fetched, findings in words, order, policy, method, versions; the sum told is the file's."""
    path = tmp_path / "e.zip"
    digest = evidence.build(judge_run(run), "gpu-02", path)
    assert digest == evidence.file_sha256(path)
    with zipfile.ZipFile(path) as package:
        names = set(package.namelist())
        assert package.read("record.json") == (run / "servers/gpu-02/record.json").read_bytes()
        told = json.loads(package.read("findings.json"))
    assert names == {
        "README.txt",
        "record.json",
        "state.json",
        "order.json",
        "findings.json",
        "policy.yaml",
        "method.md",
        "versions.json",
        "MANIFEST.sha256",
    }
    assert told["servers"][0]["name"] == "gpu-02" and len(told["servers"]) == 1
    assert "nvlink-missing" in [one["id"] for one in told["servers"][0]["findings"]]


def test_sha256sum_alone_can_check_it(run: Path, tmp_path: Path) -> None:
    """The other side needs no auditor: unzip and sha256sum -c."""
    path = tmp_path / "e.zip"
    evidence.build(judge_run(run), "gpu-02", path)
    shutil.unpack_archive(path, tmp_path / "x")
    done = subprocess.run(["sha256sum", "-c", "MANIFEST.sha256"], cwd=tmp_path / "x", capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_same_run_gives_the_same_file(run: Path, tmp_path: Path) -> None:
    """No time of making is in it: two people who build it get the same sum."""
    assert evidence.build(judge_run(run), "gpu-01", tmp_path / "a.zip") == evidence.build(
        judge_run(run), "gpu-01", tmp_path / "b.zip"
    )


@pytest.mark.parametrize("how", ["changed", "missing", "added"])
def test_any_change_is_named(run: Path, tmp_path: Path, how: str) -> None:
    """A changed, removed or added file is named, and the check says changed."""
    evidence.build(judge_run(run), "gpu-02", tmp_path / "e.zip")
    with zipfile.ZipFile(tmp_path / "e.zip") as package:
        files = {name: package.read(name) for name in package.namelist()}
    if how == "changed":
        files["record.json"] = files["record.json"].replace(b"A100", b"H100", 1)
    elif how == "missing":
        del files["order.json"]
    else:
        files["extra.txt"] = b"x"
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as package:
        for name, data in files.items():
            package.writestr(name, data)
    check = evidence.verify(tmp_path / "bad.zip")
    assert not check.intact
    wrong = {"changed": "record.json: CHANGED", "missing": "order.json: MISSING", "added": "extra.txt: ADDED"}[how]
    assert any(line.startswith(wrong) for line in check.lines)


@pytest.mark.parametrize("what", ["text", "empty", "no manifest", "bomb", "twice"])
def test_what_is_no_evidence_file_is_refused_with_a_sentence(tmp_path: Path, what: str) -> None:
    """Not a zip, no manifest, a zip bomb, a name twice: a sentence or CHANGED, no traceback, no gigabytes read."""
    path = tmp_path / "x.zip"
    if what in ("text", "empty"):
        path.write_bytes(b"not a zip" if what == "text" else b"")
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
            if what == "bomb":
                package.writestr("MANIFEST.sha256", f"{'0' * 64}  big.bin\n")
                with package.open("big.bin", "w", force_zip64=True) as file:
                    for _ in range(300):
                        file.write(bytes(1024 * 1024))
            elif what == "twice":
                with pytest.warns(UserWarning, match="Duplicate"):
                    package.writestr("a", "1")
                    package.writestr("a", "2")
            else:
                package.writestr("a", "1")
    if what == "bomb":
        assert not evidence.verify(path).intact
    else:
        with pytest.raises(UserError, match="not an evidence file"):
            evidence.verify(path)


def test_a_file_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    """No error number stands in the sentence, and a folder is not a zip in words either."""
    with pytest.raises(UserError, match=r"gone\.zip: no such file\. Give the zip that"):
        evidence.verify(tmp_path / "gone.zip")
    with pytest.raises(UserError, match=r"not an evidence file \(Is a directory\)"):
        evidence.verify(tmp_path)


def test_the_command_makes_and_checks(run: Path) -> None:
    """`auditor evidence RUN --server NAME` prints path and sum; verify exits 0, and 1 for another sum."""
    made = CliRunner().invoke(command, [str(run), "--server", "gpu-02"])
    assert made.exit_code == 0, made.output
    path, told = made.output.splitlines()
    digest = told.split()[1]
    assert CliRunner().invoke(command, ["verify", path, "--sha256", digest]).exit_code == 0
    assert CliRunner().invoke(command, ["verify", path, "--sha256", "0" * 64]).exit_code == 1


def test_an_unknown_server_is_named_with_the_known_ones(run: Path) -> None:
    """A typing error says which servers there are."""
    with pytest.raises(UserError, match="no server 'gpu-9'; it has gpu-01"):
        evidence.build(judge_run(run), "gpu-9", run / "x.zip")
