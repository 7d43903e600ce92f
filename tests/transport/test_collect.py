"""The controller's side of a run folder: opened once, noted per server, closed with the nonces that hold."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from auditor import runs
from auditor.errors import UserError
from auditor.transport import collect
from auditor.transport.collect import Wanted


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """An opened run of two servers."""
    wanted = [Wanted("gpu-01", {"gpus": 1, "gpu": "H200"}, "第一台"), Wanted("gpu-02")]
    return collect.open_run(tmp_path, "mine", wanted, profile="quick", of_inventory=5, lang="en")


def test_an_opened_run_knows_its_servers(run: Path) -> None:
    """Orders, labels and a nonce each stand there before the first contact; a nonce is never used twice."""
    opened = runs.open_run(run)
    assert list(opened.orders) == ["gpu-01", "gpu-02"] and opened.orders["gpu-02"] is None
    assert opened.info.labels == {"gpu-01": "第一台"} and opened.info.of_inventory == 5
    assert len(set(opened.info.nonces.values())) == 2
    assert all(len(bytes.fromhex(nonce)) == 16 for nonce in opened.info.nonces.values())
    assert opened.states["gpu-01"].reason == "never_started"
    assert (run / "policy.yaml").exists()


def test_two_runs_in_one_second_have_two_folders(tmp_path: Path) -> None:
    """The name is the second; the later one waits for the next."""
    made = {collect.open_run(tmp_path, "a", [Wanted("x")], profile="quick", of_inventory=1, lang=None) for _ in "12"}
    assert len(made) == 2 and all(collect.RUN_ID.fullmatch(folder.name) for folder in made)


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ([Wanted("-oProxyCommand=x")], "is refused"),
        ([Wanted("gpu 01")], "is refused"),
        ([Wanted("gpu-01"), Wanted("GPU-01")], "differ only in case"),
    ],
)
def test_C07_nothing_is_opened_for_a_bad_inventory(tmp_path: Path, wanted: list[Wanted], sentence: str) -> None:
    """Names are checked before a folder exists."""
    with pytest.raises(UserError, match=sentence):
        collect.open_run(tmp_path, "mine", wanted, profile="quick", of_inventory=1, lang=None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("order", "named"), [({"gpus": "eight"}, "gpus"), ({"gpus": 1, "gpu": "H20", "gpuz": 1}, "gpuz"), ("nonsense", "")]
)
def test_a_bad_order_ends_its_own_server_alone(tmp_path: Path, order: object, named: str) -> None:
    """The run is opened; that server has ended with the sentence, no order is made up for it, nobody else notices."""
    wanted = [Wanted("a", {"gpus": 1, "gpu": "H200"}), Wanted("b", order)]
    opened = runs.open_run(collect.open_run(tmp_path, "mine", wanted, profile="quick", of_inventory=2, lang=None))
    assert opened.orders["a"] and opened.orders["b"] is None
    ended = opened.states["b"]
    assert (ended.phase, ended.reason) == ("start", "bad_order") and opened.states["a"].reason == "never_started"
    assert ended.detail and ended.detail.startswith("b: ") and named in ended.detail
    assert ended.detail.endswith("Correct audit_order in the inventory and audit this server again.")


def test_the_latest_run_is_found(tmp_path: Path) -> None:
    """By its time; one that still runs makes its own report, and where there is none a sentence says so."""
    with pytest.raises(UserError, match="holds no run"):
        collect.latest_run(tmp_path / "mine")
    first, last = (
        collect.open_run(tmp_path, "mine", [Wanted("a")], profile="quick", of_inventory=1, lang=None) for _ in "12"
    )
    assert first != last == collect.latest_run(tmp_path / "mine")
    collect.claim(last, os.getpid())
    with pytest.raises(UserError, match="still runs.*auditor report"):
        collect.latest_run(tmp_path / "mine")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """The sentence names the place and the variable that changes it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="audit_results"):
        collect.open_run(tmp_path / "file", "mine", [Wanted("a")], profile="quick", of_inventory=1, lang=None)


@pytest.mark.parametrize(
    ("sources", "name"),
    [
        (["inventory/provider_a"], "provider_a"), (["/x/provider_a/hosts.yml"], "provider_a"),
        (["fleet.ini"], "fleet"), (["a,b,"], "hosts"), (["inventory/a", "inventory/b"], "a-b"), (["/"], "hosts"),
        (["../.."], "hosts"), (["My Servers (2)"], "My-Servers-2"),
    ],
)  # fmt: skip
def test_the_runs_parent_is_named_after_the_inventory(sources: list[str], name: str) -> None:
    """A folder, a file in it, a list of hosts: always one safe word."""
    assert collect.inventory_name(sources) == name


def test_a_state_keeps_what_was_known(run: Path) -> None:
    """Details add up, the start stays, the end is noted with reason or success."""
    first = collect.note(run, "gpu-01", "measure", folder="/tmp/x", pid=3)
    last = collect.note(run, "gpu-01", "done", exit=0)
    assert last.details == {"folder": "/tmp/x", "pid": 3, "exit": 0}
    assert first.finished is None and last.finished and last.started == first.started
    assert runs.open_run(run).states["gpu-01"] == last


def test_what_a_server_said_is_noted_tame(run: Path) -> None:
    """A detail is one line without control characters."""
    noted = collect.note(run, "gpu-01", "reach", "unreachable", "a\nb \x1b[31mred\x1b[0m")
    assert noted.detail == "a b \\x1b[31mred\\x1b[0m"


def test_a_record_is_kept_byte_for_byte(run: Path) -> None:
    """Also one that no reader accepts; its hash stands in the state."""
    collect.note(run, "gpu-01", "measure")
    data = b'\xff\x00{"half'
    digest = collect.keep_record(run, "gpu-01", data)
    assert runs.open_run(run).record_path("gpu-01").read_bytes() == data
    known = collect.state(run, "gpu-01")
    assert known and known.sha256 == digest == hashlib.sha256(data).hexdigest()


def test_a_closed_run_holds_the_nonce_of_a_probe_taken_over(run: Path) -> None:
    """A probe that an earlier run started answers with that run's nonce."""
    before = runs.open_run(run).info.nonces
    collect.note(run, "gpu-02", "done", nonce="ab" * 16, taken_over_from="20261201T000000Z")
    closed = collect.close_run(run)
    assert closed.nonces == {"gpu-01": before["gpu-01"], "gpu-02": "ab" * 16} and closed.finished


def test_F01_a_run_is_driven_while_its_controller_lives(run: Path) -> None:
    """Known by pid, start time and boot: a reused pid is another process."""
    assert not collect.driven(run)
    collect.claim(run, os.getpid())
    assert collect.driven(run)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    collect.claim(run, child.pid)
    assert collect.driven(run)
    child.communicate(b"\n")
    assert not collect.driven(run)
