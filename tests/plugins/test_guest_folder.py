"""Our one folder on a server: private, unpredictable, removed by itself and nothing else (threat H05)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible.module_utils import guest_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder as the audit makes one."""
    made = guest_folder.make()
    yield made
    guest_folder.remove(made)


def test_it_is_private_and_its_name_is_not_guessed(folder: Path) -> None:
    """Mode 0700, a name of 64 random bits, found again among the user's own."""
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert guest_folder.NAME.fullmatch(folder.name)
    assert folder in guest_folder.ours()
    assert not list(folder.iterdir())


def test_H05_a_link_inside_is_removed_not_followed(folder: Path, tmp_path: Path) -> None:
    """What a link points to stays."""
    decoy = tmp_path / "decoy"
    decoy.mkdir()
    (decoy / "kept").write_text("x")
    (folder / "link").symlink_to(decoy)
    (folder / "deep").mkdir()
    (folder / "deep/link").symlink_to(decoy / "kept")
    assert guest_folder.remove(folder) is None
    assert not folder.exists() and (decoy / "kept").read_text() == "x"


@pytest.mark.parametrize(
    "name", ["auditor-0123", "other", "auditor-0123456789abcdeZ", "auditor-torch-0123456789abcdef"]
)
def test_H05_another_name_is_not_ours(tmp_path: Path, name: str) -> None:
    """A path that we did not give is refused."""
    stranger = tmp_path / name
    stranger.mkdir(mode=0o700)
    assert "no folder of the audit's" in str(guest_folder.remove(stranger))
    assert stranger.exists()


def test_H05_a_link_in_our_name_is_not_ours(tmp_path: Path) -> None:
    """The folder itself must be a folder, of this user, closed to others."""
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    link = tmp_path / "auditor-0123456789abcdef"
    link.symlink_to(target)
    assert guest_folder.remove(link) and target.exists()
    open_one = tmp_path / "auditor-1123456789abcdef"
    open_one.mkdir()
    open_one.chmod(0o755)
    assert guest_folder.remove(open_one) and open_one.exists()


def test_what_is_gone_is_no_problem(folder: Path) -> None:
    """Removing twice is removing once."""
    assert guest_folder.remove(folder) is None and guest_folder.remove(folder) is None


def test_R16_only_regular_files_are_read(folder: Path) -> None:
    """A link, a pipe, a folder: None, at once; a long file ends one byte past the limit."""
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    (folder / "long").write_bytes(b"x" * 100)
    assert [guest_folder.read_capped(folder / name, 10) for name in ("link", "pipe", ".", "none")] == [None] * 4
    assert guest_folder.read_capped(folder / "long", 10) == b"x" * 11


def test_one_start_at_a_time_leaves_no_lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home folder itself is locked."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with guest_folder.alone():
        pass
    assert not list(tmp_path.iterdir())
