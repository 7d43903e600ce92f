"""Two listings tell what an audit left."""

import os
import subprocess
import sys

from ansible.module_utils import listing


def test_a_file_a_process_and_a_listener_of_ours_are_seen(tmp_path, monkeypatch):
    """Each kind appears in the difference, and is gone from it after the end."""
    monkeypatch.setenv("HOME", str(tmp_path))
    before = listing.take()
    folder = tmp_path / "auditor-0123456789abcdef"
    folder.mkdir(mode=0o700)
    script = folder / "probe.py"
    script.write_text(
        "import socket, sys\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n"
        "print(s.getsockname()[1], flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    port = int(process.stdout.readline())
    left = listing.difference(before, listing.take())
    process.communicate()
    script.unlink()
    folder.rmdir()
    assert f"+files {folder}" in left
    assert f"+listeners tcp loopback {port}" in left
    assert any(line.startswith("+processes") and str(script) in line for line in left)
    assert not any(str(folder) in line for line in listing.difference(before, listing.take()))


def test_what_others_do_is_not_listed(tmp_path, monkeypatch):
    """A file of somebody else beside ours makes no difference."""
    monkeypatch.setenv("HOME", str(tmp_path))
    before = listing.take()
    (tmp_path / "thesis.txt").write_text("x")
    assert not [line for line in listing.difference(before, listing.take()) if "thesis" in line]


def test_a_package_that_came_and_one_that_changed_are_named():
    """An upgrade is a difference in both directions."""
    before = {"packages": ["nvidia-utils 535"], "files": []}
    after = {"packages": ["nvidia-utils 580", "dkms 3"], "files": []}
    assert listing.difference(before, after) == [
        "+packages dkms 3",
        "+packages nvidia-utils 580",
        "-packages nvidia-utils 535",
    ]


def test_listing_does_not_list_itself():
    """The process that takes the listing is not what it looks for."""
    assert not [one for one in listing.take()["processes"] if str(os.getpid()) in one]
