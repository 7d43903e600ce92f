"""The command line: what cannot be meant is one sentence and exit code 2."""

import json
import os
import subprocess
import sys

import pytest

GOOD = "def run(context):\n    yield context.reading('seconds', 1.5)\n"


def test_the_list_names_every_probe(command):
    """Key, scope and seconds of each, and no measurement."""
    outcome = command.probes(good=GOOD, other=GOOD).run("--list")
    assert outcome.code == 0 and outcome.record is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "matmull"], ["--only", "'matmull'", "good"]),
        (["--skip", "good,nothing"], ["--skip", "'nothing'"]),
        (["--budget", "0"], ["--budget"]),
        (["--budget", "nan"], ["--budget"]),
        (["--budget", "soon"], ["--budget", "soon"]),
        (["--soak-seconds", "-1"], ["--soak-seconds"]),
        (["--nonce", "xyz"], ["--nonce", "hexadecimal"]),
        (["--server", "-oProxyCommand=x"], ["--server"]),
        (["--server", "a/b"], ["--server", "'a/b'"]),
        (["--path", "/no/such/folder"], ["--path", "/no/such/folder"]),
        (["--out", "/no/such/folder/record.json"], ["--out", "/no/such/folder"]),
        (["--profile", "hard"], ["--profile", "hard"]),
        (["--frobnicate"], ["--frobnicate"]),
    ],
)
def test_misuse_is_one_sentence(command, arguments, words):
    """Named option, named value, exit code 2, no traceback, no record."""
    outcome = command.probes(good=GOOD).run(*arguments)
    assert outcome.code == 2
    assert len(outcome.sentence.splitlines()) == 1 and "Traceback" not in outcome.stderr
    assert all(word in outcome.sentence for word in words), outcome.sentence
    assert outcome.record is None


def test_server_and_out_are_needed(command):
    """A record without a name belongs to nobody."""
    environment = {**os.environ, "PYTHONPATH": str(command.probes(good=GOOD)._tree)}
    for given in ([], ["--server", "x"], ["--out", "-"]):
        ended = subprocess.run(
            [sys.executable, "-m", "auditor.probes", *given], env=environment, capture_output=True, text=True
        )
        assert ended.returncode == 2 and "--server NAME and --out FILE" in ended.stderr


def test_only_and_skip_choose(command):
    """What is left out has no row."""
    command.probes(a=GOOD, b=GOOD, c=GOOD)
    assert {row["probe"] for row in command.run("--only", "a,b", "--skip", "b").record["probes"]} == {"a"}
    assert {row["probe"] for row in command.run("--skip", "b").record["probes"]} == {"a", "c"}


def test_a_dash_writes_the_record_to_standard_output(command):
    """And nothing else stands there, whatever a probe prints."""
    prints = "def run(context):\n    print('noise')\n    yield context.reading('seconds', 1.5)\n"
    process = command.probes(prints=prints).start("--device", "cpu", "--out", "-")
    out, _ = process.communicate(timeout=30)
    record = json.loads(out)
    assert record["server"] == "gpu-01"
    assert [row["value"] for row in record["readings"]] == [1.5]


def test_F07_a_full_disk_is_a_sentence(command, tmp_path):
    """Exit code 3, the file and the reason; no half record, no status lie."""
    folder = tmp_path / "full"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("no right to mount here")
    try:
        big = "def run(context):\n    for i in range(200):\n        yield context.reading('text', 'x' * 200, i=i)\n"
        outcome = command.probes(big=big).run("--device", "cpu", "--out", str(folder / "record.json"))
        assert outcome.code == 3
        assert "No space left" in outcome.sentence and "record.json" in outcome.sentence
        assert list(folder.iterdir()) == []
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_probe_with_a_broken_file_is_told_before_anything_runs(command):
    """A scope that does not exist is a fault of ours; its name stands in the message."""
    outcome = command.probes(odd="SCOPE = 'planet'\n").run("--device", "cpu")
    assert outcome.code != 0 and "planet" in outcome.stderr
