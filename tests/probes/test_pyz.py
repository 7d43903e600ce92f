"""The one file that goes to a server: small, the same every time, at home under every Python from 3.8."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import auditor
from tools import build_pyz

ROOT = Path(__file__).parents[2]
PYTHONS = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))


@pytest.fixture(scope="module")
def pyz(tmp_path_factory):
    """The file, built."""
    path = tmp_path_factory.mktemp("pyz") / "auditor-probe.pyz"
    path.write_bytes(build_pyz.pyz())
    return path


def names(data):
    """What is inside."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {entry.filename: entry for entry in archive.infolist()}


def test_it_is_small_and_holds_what_it_needs(pyz):
    """Below 1 MB: records, probes, pynvml, and nothing of the controller."""
    data = pyz.read_bytes()
    inside = names(data)
    assert len(data) < 1_000_000
    assert {"__main__.py", "pynvml.py", "auditor/records.py", "auditor/probes/matmul.py"} <= set(inside)
    assert not [name for name in inside if name.startswith("auditor/") and not name.startswith("auditor/probes/")
                and name not in ("auditor/__init__.py", "auditor/records.py")]  # fmt: skip
    assert not [name for name in inside if name.endswith(".pyc")]


def test_the_same_sources_give_the_same_bytes(pyz, tmp_path):
    """Whatever the files' times, owners and place: the hash that a server checks is one."""
    copy = tmp_path / "elsewhere"
    shutil.copytree(ROOT / "auditor", copy / "auditor", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "auditor/probes/__pycache__").mkdir()
    (copy / "auditor/probes/__pycache__/x.pyc").write_bytes(b"noise")
    for path in copy.rglob("*.py"):
        os.utime(path, (1, 1))
    assert build_pyz.pyz(copy) == pyz.read_bytes()
    inside = names(pyz.read_bytes())
    assert list(inside) == sorted(inside)
    assert {entry.date_time for entry in inside.values()} == {(2020, 1, 1, 0, 0, 0)}


def run(python, pyz, folder, *arguments):
    """Start it as a server would: another folder, nothing of this project in sight."""
    out = folder / "record.json"
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(folder), "HOME": str(folder)}
    ended = subprocess.run(
        [str(python), str(pyz), "--server", "gpu-01", "--lock", str(folder / "lock"), "--out", str(out), *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=120,
    )
    return ended, json.loads(out.read_bytes()) if out.exists() else None


def test_it_says_its_version(pyz, tmp_path):
    """On the command line and in the record, the project's own."""
    ended, _ = run(sys.executable, pyz, tmp_path, "--version")
    assert ended.stdout.strip() == f"auditor-probe {auditor.__version__}"
    _, record = run(sys.executable, pyz, tmp_path, "--only", "steal_time", "--device", "cpu")
    assert record["tool"] == {"name": "auditor-probe", "version": auditor.__version__}


@pytest.mark.parametrize("python", PYTHONS or [Path(sys.executable)], ids=lambda path: path.parts[-3])
def test_it_runs_under_every_python_from_3_8(pyz, tmp_path, python):
    """Facts without torch; what needs torch says that this Python has none; an older Python gets one sentence."""
    told = subprocess.run(
        [str(python), "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True, check=True
    )
    ended, record = run(
        python, pyz, tmp_path, "--only", "server_facts,network_interfaces,gpu_health,matmul", "--device", "cpu"
    )
    if int(told.stdout) < 8:
        assert ended.returncode == 2 and "needs Python 3.8" in ended.stderr and "Traceback" not in ended.stderr
        return
    assert ended.returncode == 0, ended.stderr
    rows = {row["probe"]: row for row in record["probes"]}
    assert [rows[key]["status"] for key in ("server_facts", "network_interfaces", "gpu_health")] == ["measured"] * 3
    if "no torch" in (rows["matmul"]["reason"] or ""):
        assert rows["matmul"]["status"] == "skipped" and str(python) in rows["matmul"]["reason"]
    else:
        assert rows["matmul"]["status"] == "measured"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["record.json"]


def test_it_starts_itself_again_as_a_worker(pyz, tmp_path):
    """Every process it starts is the same file; nothing is unpacked."""
    ended, record = run(sys.executable, pyz, tmp_path, "--only", "steal_time", "--device", "cpu")
    assert ended.returncode == 0, ended.stderr
    assert {row["status"] for row in record["probes"]} == {"measured"}


def test_it_hears_a_stop_before_it_has_read_itself(pyz, tmp_path):
    """Held back by who starts it until the handlers stand, the earliest stop gives a record."""
    argv = [sys.executable, str(pyz), "--server", "gpu-01", "--device", "cpu", "--lock", str(tmp_path / "lock")]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        process = subprocess.Popen([*argv, "--out", "-"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.terminate()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    record = json.loads(process.communicate(timeout=60)[0])
    assert process.returncode == 0 and record["readings"] == []
    assert {row["reason"] for row in record["probes"]} == {"stopped by SIGTERM before anything was measured"}


def test_what_a_machine_has_in_the_folder_is_not_imported(pyz, tmp_path):
    """A `torch.py`, a `json.py` or an `auditor` beside it are not ours."""
    for name in ("auditor.py", "json.py", "pynvml.py", "selectors.py"):
        (tmp_path / name).write_text("raise SystemExit('wrong file')\n")
    ended, record = run(sys.executable, pyz, tmp_path, "--only", "steal_time", "--device", "cpu")
    assert ended.returncode == 0, ended.stderr
    assert record["probes"][0]["status"] == "measured"
