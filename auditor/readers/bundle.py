"""What a person names on the command line: files, folders, zip archives. Caps hold before anything is unpacked."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from auditor.errors import UserError

MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_ARCHIVE_BYTES = 256 * 1024 * 1024
MAX_MEMBERS = 5_000
MAX_RATIO = 200
_TOO_LARGE = f"larger than {MAX_FILE_BYTES // 2**20} MiB: send the part that matters"


@dataclass(frozen=True)
class File:
    """One text as it came: its name for messages, the folder it lay in, its bytes; or why it was not opened."""

    name: str
    folder: str
    data: bytes = b""
    refused: str | None = None


def files(paths: list[Path]) -> Iterator[File]:
    """Every file below the paths, folders and archives opened, hidden files left out.

    Raises:
        UserError: a path does not exist.
    """
    for path in paths:
        if not path.exists():
            raise UserError(
                f"{path}: no such file. Name files, folders or zip archives of pasted output, or - for stdin."
            )
        if path.is_dir():
            for one in sorted(path.rglob("*")):
                name = str(one.relative_to(path.parent))
                if any(part.startswith(".") for part in one.relative_to(path).parts):
                    continue
                if one.is_symlink():
                    # Somebody else packed the folder: its links would lead to files of this machine.
                    yield File(name, str(one.parent), refused="a link, which is not followed")
                elif not one.is_dir():
                    yield from _file(one, name, str(one.parent))
        else:
            yield from _file(path, str(path), "")


def of_bytes(name: str, folder: str, data: bytes) -> File:
    """What came without a file, held to the same cap: one byte past it is refused, not cut."""
    if len(data) > MAX_FILE_BYTES:
        return File(name, folder, refused=_TOO_LARGE)
    return File(name, folder, data)


def _file(path: Path, name: str, folder: str) -> Iterator[File]:
    try:
        size = path.stat()
        if not stat.S_ISREG(size.st_mode):
            yield File(name, folder, refused="not a regular file")
        elif size.st_size > MAX_FILE_BYTES and not zipfile.is_zipfile(path):
            yield File(name, folder, refused=_TOO_LARGE)
        elif path.suffix.lower() == ".zip" or _is_zip(path):
            yield from _archive(path, name)
        else:
            yield File(name, folder, path.read_bytes())
    except OSError as error:
        yield File(name, folder, refused=f"cannot be opened: {error.strerror}")


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _archive(path: Path, name: str) -> Iterator[File]:
    """The members of an archive; nothing is written to disk, so no member's path can lead anywhere."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if not one.is_dir()]
            if len(members) > MAX_MEMBERS:
                yield File(name, "", refused=f"{len(members)} files in the archive, at most {MAX_MEMBERS} are read")
                return
            left = MAX_ARCHIVE_BYTES
            for member in members:
                label, folder = f"{name}!{member.filename}", f"{name}!{PurePosixPath(member.filename).parent}"
                if any(_hidden(part) for part in PurePosixPath(member.filename).parts):
                    continue
                why = _unfit(member, left)
                if why:
                    yield File(label, folder, refused=why)
                    continue
                with archive.open(member) as file:
                    data = file.read(min(MAX_FILE_BYTES, left) + 1)
                if len(data) > min(MAX_FILE_BYTES, left):
                    yield File(label, folder, refused="unpacks to more than its entry says")
                    continue
                left -= len(data)
                yield File(label, folder, data)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        yield File(name, "", refused=f"the archive cannot be opened: {error}")


def _hidden(part: str) -> bool:
    return part == "__MACOSX" or (part.startswith(".") and part != "..")


def _unfit(member: zipfile.ZipInfo, left: int) -> str | None:
    if member.flag_bits & 1:
        return "encrypted"
    if member.file_size > MAX_FILE_BYTES:
        return f"larger than {MAX_FILE_BYTES // 2**20} MiB unpacked"
    if member.file_size > left:
        return f"the archive unpacks to more than {MAX_ARCHIVE_BYTES // 2**20} MiB"
    if member.file_size > 100_000 and member.file_size > MAX_RATIO * max(member.compress_size, 1):
        return f"packed more than {MAX_RATIO} to 1"
    if PurePosixPath(member.filename).suffix.lower() in (".zip", ".gz", ".xz", ".bz2", ".tar", ".tgz", ".7z", ".rar"):
        return "an archive within an archive: unpack it first"
    return None
