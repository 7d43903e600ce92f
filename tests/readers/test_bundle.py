"""Files, folders and archives that a person names."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from auditor.errors import UserError
from auditor.readers import bundle


def test_a_missing_path_is_said(tmp_path: Path) -> None:
    """The message names the path and what may be given."""
    with pytest.raises(UserError, match="no such file"):
        list(bundle.files([tmp_path / "none.txt"]))


def test_a_folder_gives_its_files_without_hidden_ones(tmp_path: Path) -> None:
    """Files of sub-folders carry their folder; hidden files are left out."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.txt").write_text("1")
    (tmp_path / ".hidden").write_text("2")
    found = list(bundle.files([tmp_path]))
    assert [(Path(file.name).name, file.data) for file in found] == [("one.txt", b"1")]
    assert found[0].folder.endswith("/a")


def test_something_that_is_no_file_is_refused(tmp_path: Path) -> None:
    """A pipe is not opened, so nothing can hang on it."""
    os.mkfifo(tmp_path / "pipe")
    assert list(bundle._file(tmp_path / "pipe", "pipe", ""))[0].refused == "not a regular file"


def test_links_and_pipes_in_a_folder_are_listed_and_not_opened(tmp_path: Path) -> None:
    """Who packed the folder cannot make us read our own /etc/passwd into the answer, nor drop an entry unseen."""
    (tmp_path / "one.txt").write_text("1")
    (tmp_path / "secret").symlink_to("/etc/passwd")
    (tmp_path / "etc").symlink_to("/etc")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    found = {Path(file.name).name: (file.data, file.refused) for file in bundle.files([tmp_path])}
    assert found.pop("one.txt") == (b"1", None)
    assert found.pop("pipe") == (b"", "not a regular file")
    assert found == dict.fromkeys(("etc", "loop", "secret"), (b"", "a link, which is not followed"))


def test_more_on_standard_input_than_the_cap_is_refused_and_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a log judged as the whole would be a silent loss."""
    monkeypatch.setattr(bundle, "MAX_FILE_BYTES", 10)
    assert bundle.of_bytes("stdin", "", b"x" * 10).data == b"x" * 10
    assert "send the part" in (bundle.of_bytes("stdin", "", b"x" * 11).refused or "")


def test_a_file_past_the_cap_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of gigabytes is not read into memory."""
    monkeypatch.setattr(bundle, "MAX_FILE_BYTES", 10)
    (tmp_path / "big.txt").write_text("x" * 11)
    assert "larger" in (list(bundle.files([tmp_path / "big.txt"]))[0].refused or "")


def archive(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """A zip with the given members."""
    with zipfile.ZipFile(path, "w", compression) as out:
        for name, data in members.items():
            out.writestr(name, data)
    return path


def test_an_archive_gives_its_members_by_folder(tmp_path: Path) -> None:
    """Members keep their folder; names that lead upwards are only labels, nothing is written to disk."""
    path = archive(tmp_path / "all.zip", {"n1/topo.txt": b"a", "../../etc/passwd": b"b", "__MACOSX/x": b"c"})
    found = list(bundle.files([path]))
    assert [file.data for file in found] == [b"a", b"b"]
    assert found[0].folder.endswith("!n1")
    assert not (tmp_path.parent.parent / "etc").exists()


def test_a_zip_is_known_by_its_bytes(tmp_path: Path) -> None:
    """An archive without .zip in its name is opened all the same."""
    assert [f.data for f in bundle.files([archive(tmp_path / "download", {"a.txt": b"a"})])] == [b"a"]


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    """A member packed a thousand to one is not unpacked."""
    path = archive(tmp_path / "bomb.zip", {"zeros.txt": b"\0" * 5_000_000, "ok.txt": b"fine"})
    found = {Path(file.name).name: file for file in bundle.files([path])}
    assert "packed more than" in (found["bomb.zip!zeros.txt"].refused or "")
    assert found["bomb.zip!ok.txt"].data == b"fine"


def test_the_archive_as_a_whole_has_a_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small members cannot add up to gigabytes."""
    monkeypatch.setattr(bundle, "MAX_ARCHIVE_BYTES", 25)
    path = archive(tmp_path / "many.zip", {f"{i}.txt": os.urandom(10) for i in range(4)})
    assert [file.refused is None for file in bundle.files([path])] == [True, True, False, False]


def test_too_many_members_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of a million entries is not walked."""
    monkeypatch.setattr(bundle, "MAX_MEMBERS", 2)
    path = archive(tmp_path / "many.zip", {f"{i}.txt": b"x" for i in range(3)})
    assert "at most 2" in (list(bundle.files([path]))[0].refused or "")


def test_archives_in_archives_and_broken_ones_are_said(tmp_path: Path) -> None:
    """Nested archives and a cut archive are listed with their reason."""
    path = archive(tmp_path / "outer.zip", {"inner.zip": b"PK\x03\x04"})
    assert "unpack it first" in (list(bundle.files([path]))[0].refused or "")
    broken = tmp_path / "broken.zip"
    broken.write_bytes(path.read_bytes()[:20])
    assert "cannot be opened" in (list(bundle.files([broken]))[0].refused or "")
