"""Exports: files of other formats, made of a dataset's rows for a client to download.

    FOLDER/ID/about.json    of whom, of which dataset, the file's name and type
    FOLDER/ID/pets.csv      the file; a format of many files is one ZIP file
    FOLDER/.ID/             one that is being written, or was when its server was killed

Each attempt has an id of its own, so that a job which two servers work on is written twice and
answered once. All that is older than a day is removed.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tensorlake_server.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KEPT_S", "Export", "Exports"]

KEPT_S = 86_400.0
ABOUT = "about.json"
ID_NBYTES = 16
ID = re.compile(r"[A-Za-z0-9_-]{22}")


class _About(msgspec.Struct, frozen=True):
    who: str
    dataset: str
    file: str
    media_type: str


@dataclass(frozen=True, slots=True)
class Export:
    """A file that was written.

    Attributes:
        id: Its name, which is not to be guessed.
        dataset: The dataset, or saved view, with its rows.
        path: The file.
        media_type: The type of the file.
        nbytes: Its size.
        expires_s: When it is removed, in seconds since 1970.
    """

    id: str
    dataset: str
    path: Path
    media_type: str
    nbytes: int
    expires_s: float


class Exports:
    """The exports in a folder, which replicas share.

    Args:
        folder: The folder; it is made with the first export.
        budget: Bytes that all of them may have; those of one client half of them.
    """

    def __init__(self, folder: Path, budget: int) -> None:
        self._folder = folder
        self._budget = budget

    def write(
        self,
        who: str,
        dataset: str,
        file: str,
        media_type: str,
        fill: Callable[[Path, Callable[[], None]], None],
    ) -> Export:
        """Write a file, and return it.

        Args:
            who: The client, who alone finds it.
            dataset: The dataset, or saved view, with its rows.
            file: Its name.
            media_type: Its type.
            fill: Writes a file or a folder at a path, and calls a function in between, which raises
                when there is no room.

        Raises:
            Problem: 413, there is no room.
        """
        self.remove_old()
        id_ = secrets.token_urlsafe(ID_NBYTES)
        work = self._folder / f".{id_}"
        work.mkdir(mode=0o700, parents=True)
        about = _About(who, dataset, file, media_type)

        def check() -> None:
            self._check_room(work, who)

        try:
            _write_about(work, about)  # what is being written counts for its client, too
            fill(work / file, check)
            if (work / file).is_dir():
                file = _packed(work / file, check).name
                about = _About(who, dataset, file, media_type)
                _write_about(work, about)
            check()
            work.rename(self._folder / id_)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        return self._export(self._folder / id_, about)

    def find(self, id_: str, who: str) -> Export | None:
        """Return an export of a client; None if they have none of this id."""
        if not ID.fullmatch(id_):
            return None
        about = _about(self._folder / id_)
        if about is None or about.who != who:
            return None
        try:
            return self._export(self._folder / id_, about)
        except FileNotFoundError:  # it was just removed
            return None

    def remove(self, export: Export) -> None:
        """Remove a file."""
        shutil.rmtree(self._folder / export.id, ignore_errors=True)

    def remove_old(self) -> None:
        """Remove what is older than a day: also the rest of what was never finished."""
        for one in self._all():
            if _made_s(one) + KEPT_S < time.time():
                shutil.rmtree(one, ignore_errors=True)

    def _all(self) -> list[Path]:
        names = (one for one in self._folder.glob("*") if ID.fullmatch(one.name.removeprefix(".")))
        return list(names)

    def _check_room(self, work: Path, who: str) -> None:
        """Refuse an export that needs more than all others, also those under way, leave."""
        room = self._room(work, who)
        if _nbytes(work) > room:
            raise Problem(
                413,
                "exports-full",
                f"the export needs more than the {max(room, 0):,} bytes that are left for this"
                " client (exports_nbytes)\nexport fewer rows or columns, or delete earlier exports:"
                " DELETE /v1/exports/{id}",
            )

    def _room(self, work: Path, who: str) -> int:
        """Return how many bytes of a client an export may have."""
        used = own = 0
        for one in self._all():
            if one == work:
                continue
            nbytes, about = _nbytes(one), _about(one)
            used += nbytes
            own += nbytes if about is not None and about.who == who else 0
        return min(self._budget - used, self._budget // 2 - own)

    @staticmethod
    def _export(folder: Path, about: _About) -> Export:
        path = folder / about.file
        nbytes = path.stat().st_size
        return Export(
            folder.name, about.dataset, path, about.media_type, nbytes, _made_s(folder) + KEPT_S
        )


def _write_about(folder: Path, about: _About) -> None:
    """Replace it at once: other exports read it to count what is left."""
    new = folder / f"{ABOUT}.new"
    new.write_bytes(msgspec.json.encode(about))
    new.replace(folder / ABOUT)


def _about(folder: Path) -> _About | None:
    try:
        return msgspec.json.decode((folder / ABOUT).read_bytes(), type=_About)
    except (OSError, msgspec.DecodeError):  # another server removes it, or a full disk cut it off
        return None


def _made_s(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # another server removed it
        return time.time()


def _nbytes(folder: Path) -> int:
    sizes = 0
    for root, _, files in os.walk(folder):
        for file in files:
            try:
                sizes += (Path(root) / file).stat().st_size
            except OSError:
                continue  # renamed, or removed
    return sizes


def _packed(folder: Path, check: Callable[[], None]) -> Path:
    """Put the files of a folder into a ZIP file, uncompressed, and remove each."""
    packed = folder.with_name(f"{folder.name}.zip")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(one for one in folder.rglob("*") if one.is_file()):
            check()
            archive.write(file, file.relative_to(folder.parent).as_posix())
            file.unlink()
    shutil.rmtree(folder)
    return packed
