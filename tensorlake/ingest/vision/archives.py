"""Archives of files, zip and tar: their members, and members' contents, read in place.

A member of a zip file has its checksum as stamp. A tar file has none for contents, so its members
have the stamp of the whole file: if that changes, all are read again, and compared by content.
"""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.vision.tar_index import HEADER_NBYTES, Member, index_tar
from tensorlake.storage import public_url

__all__ = ["Archive", "ArchiveMember", "open_archive"]


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """A file in an archive; `problem` is the reason why it cannot be read."""

    name: str
    nbytes: int
    stamp: object
    problem: str | None = None


class Archive(Protocol):
    """An archive whose members can be read in any order, from several threads."""

    def members(self) -> Iterator[ArchiveMember]:
        """List the files, in the order of the archive."""
        ...

    def read(self, names: Sequence[str]) -> list[bytes]:
        """Read files whole.

        Raises:
            InvalidInputError: One is damaged.
        """
        ...


def open_archive(path: str, files: SourceFiles) -> Archive | None:
    """Open a zip or tar file; None if it is neither, or is compressed as a whole.

    Raises:
        InvalidInputError: A tar file is truncated or damaged.
    """
    with files.open(path) as file:
        if zipfile.is_zipfile(file):
            return _Zip(path, files)
        file.seek(0)
        is_tar = _begins_as_tar(file)
        if not is_tar:
            return None
        found = index_tar(file)
    if found.damage is not None and not found.lacks_end:
        raise InvalidInputError(f"{public_url(path)!r} is damaged: {found.damage}", src=path)
    return _Tar(path, files, found.members)


def _begins_as_tar(file: BinaryIO) -> bool:
    try:
        tarfile.TarInfo.frombuf(file.read(HEADER_NBYTES), tarfile.ENCODING, "surrogateescape")
    except tarfile.TarError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Zip:
    path: str
    files: SourceFiles

    def members(self) -> Iterator[ArchiveMember]:
        with self.files.open(self.path) as opened, zipfile.ZipFile(opened) as archive:
            for one in archive.infolist():
                if not one.is_dir():
                    yield ArchiveMember(one.filename, one.file_size, one.CRC)

    def read(self, names: Sequence[str]) -> list[bytes]:
        with self.files.open(self.path) as opened, zipfile.ZipFile(opened) as archive:
            return [_read_zipped(archive, name, public_url(self.path)) for name in names]


@dataclass(frozen=True, slots=True)
class _Tar:
    path: str
    files: SourceFiles
    index: Sequence[Member]

    def members(self) -> Iterator[ArchiveMember]:
        stamp = self.files.stamp(self.path)
        for one in self.index:
            yield ArchiveMember(one.name, one.nbytes, stamp, one.problem)

    def read(self, names: Sequence[str]) -> list[bytes]:
        wanted = set(names)
        places = {one.name: one for one in self.index if one.name in wanted}
        contents: list[bytes] = []
        with self.files.open(self.path) as opened:
            for name in names:
                opened.seek(places[name].start)
                contents.append(opened.read(places[name].nbytes))
                if len(contents[-1]) < places[name].nbytes:
                    shown = public_url(self.path)
                    message = f"{name!r} of {shown!r}: the file became shorter while it was read"
                    raise InvalidInputError(message, src=shown, item=name)
        return contents


def _read_zipped(archive: zipfile.ZipFile, name: str, file: str) -> bytes:
    try:
        with archive.open(name) as member:
            content = member.read(archive.getinfo(name).file_size + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        message = f"{name!r} of {file!r} cannot be read: {error}"
        raise InvalidInputError(message, src=file, item=name) from error
    if len(content) > archive.getinfo(name).file_size:
        message = f"{name!r} of {file!r} is larger than its declared size"
        raise InvalidInputError(message, src=file, item=name)
    return content
