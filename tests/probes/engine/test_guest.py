"""Guest manners: one audit a machine, one private folder, both gone afterwards."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from auditor.probes.engine import guest, process_tree
from auditor.probes.engine.guest import Busy, Lock, Scratch

ROOT = Path(__file__).parents[3]
RACE = """
import sys, time
from auditor.probes.engine.guest import Busy, Lock
sys.stdin.readline()
try:
    lock = Lock(sys.argv[1], sys.argv[2])
except Busy as busy:
    print("busy", busy, flush=True)
else:
    print("mine", flush=True)
    sys.stdin.readline()
    lock.release()
"""


def test_H02_of_twenty_at_once_exactly_one_runs(tmp_path):
    """The others are told who it is."""
    path = tmp_path / "lock"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(path), f"run-{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        for number in range(20)
    ]
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    lines = [process.stdout.readline() for process in started]
    for process in started:
        process.communicate("end\n")
    assert sum(line == "mine\n" for line in lines) == 1
    winner = f"run-{lines.index('mine' + chr(10))}"
    assert all(winner in line for line in lines if line.startswith("busy") and "unnamed" not in line)
    assert not path.exists()


def test_a_lock_is_free_again_once_released(tmp_path):
    """And its file has gone."""
    path = tmp_path / "lock"
    Lock(str(path), "one").release()
    assert not path.exists()
    Lock(str(path), "two").release()


def test_a_lock_file_that_nobody_holds_is_no_obstacle(tmp_path):
    """What a killed audit left behind."""
    path = tmp_path / "lock"
    path.write_text("run old, pid 1")
    lock = Lock(str(path), "new")
    assert "new" in path.read_text()
    lock.release()


@pytest.mark.parametrize("kind", ["link", "folder", "fifo"])
def test_H05_a_lock_that_is_no_plain_file_is_refused(tmp_path, kind):
    """No link is followed, nothing is written through one, a pipe does not block us."""
    path, target = tmp_path / "lock", tmp_path / "target"
    target.write_text("precious")
    if kind == "link":
        path.symlink_to(target)
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(Busy, match="--lock"):
        Lock(str(path), "run")
    assert target.read_text() == "precious"


def test_a_lock_is_not_inherited(tmp_path):
    """An orphan that outlives the audit must not keep the machine locked."""
    lock = Lock(str(tmp_path / "lock"), "run")
    child = subprocess.Popen(["sleep", "600"], close_fds=False)
    try:
        lock.release()
        Lock(str(tmp_path / "lock"), "next").release()
    finally:
        child.kill()
        child.wait()


def test_the_private_folder_is_private_and_goes(tmp_path, monkeypatch):
    """Mode 700, a name nobody can guess, nothing left."""
    monkeypatch.setattr(guest.tempfile, "tempdir", str(tmp_path))
    scratch, other = Scratch(), Scratch()
    assert scratch.path != other.path
    assert Path(scratch.path).stat().st_mode & 0o777 == 0o700
    Path(scratch.fresh("a"), "file").write_text("x")
    assert list(Path(scratch.fresh("a")).iterdir()) == []
    scratch.remove()
    other.remove()
    assert list(tmp_path.iterdir()) == []


def test_H05_only_dead_audits_folders_are_cleared(tmp_path, monkeypatch):
    """Not a living one's, not a link, not one without an owner, nothing behind a link."""
    monkeypatch.setattr(guest.tempfile, "tempdir", str(tmp_path))
    child = subprocess.Popen(["sleep", "600"])
    living, dead, strange = (tmp_path / f"auditor-probe-{name}" for name in ("living", "dead", "strange"))
    outside = tmp_path / "outside"
    for folder in (living, dead, strange, outside):
        folder.mkdir()
        (folder / "file").write_text("x")
    boot = guest.boot_id()
    (living / "owner").write_text(f"{child.pid} {process_tree.entry(child.pid).ticks} {boot}")
    (dead / "owner").write_text(f"{child.pid} 1 {boot}")
    (dead / "link").symlink_to(outside)
    (outside / "owner").write_text(f"{child.pid} 1 {boot}")
    (tmp_path / "auditor-probe-link").symlink_to(outside)
    try:
        Scratch().remove()
    finally:
        child.kill()
        child.wait()
    assert not dead.exists()
    assert living.exists() and strange.exists()
    assert (outside / "file").read_text() == "x"


def test_a_folder_from_before_a_reboot_is_cleared(tmp_path, monkeypatch):
    """Its owner cannot live any more, whoever has its number now."""
    monkeypatch.setattr(guest.tempfile, "tempdir", str(tmp_path))
    old = tmp_path / "auditor-probe-old"
    old.mkdir()
    (old / "owner").write_text(f"{os.getpid()} {process_tree.entry(os.getpid()).ticks} another-boot")
    Scratch().remove()
    assert not old.exists()


def test_the_tree_is_found_by_parent_and_start(tmp_path):
    """A child of a child, in a session of its own, is ours; its sibling by name is not."""
    script = "import subprocess, time; subprocess.Popen(['sleep', '600'], start_new_session=True); time.sleep(600)"
    parent = subprocess.Popen([sys.executable, "-c", script])
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        limit = time.monotonic() + 10
        found = []
        while [process.name for process in found] != ["sleep"] and time.monotonic() < limit:
            time.sleep(0.02)
            found = process_tree.descendants(parent.pid)
        left = process_tree.end(process_tree.entry(parent.pid), "no-such-word", {stranger.pid: "other"})
        assert left == []
        assert parent.wait(5) == -9
        assert process_tree.entry(found[0].pid) is None or process_tree.entry(found[0].pid).state == "Z"
        assert stranger.poll() is None
    finally:
        for process in (parent, stranger):
            process.kill()
            process.wait()


def test_a_number_that_is_anothers_by_now_is_left_alone():
    """A process is known by its number and its start: a reused number is somebody else."""
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        real = process_tree.entry(stranger.pid)
        gone = real._replace(ticks=real.ticks - 1)
        assert process_tree.end(gone, "no-such-word", {stranger.pid: "other"}) == []
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
