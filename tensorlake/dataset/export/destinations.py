"""Destinations of exports: a file or folder that appears whole, and replaces nothing but its like.

    DST             an earlier export of the same format, or nothing
    DST.partial/    the unfinished export as `NEW`; then, for a moment, the replaced one as `OLD`

A `Form` recognises an earlier export: by the names of its files, all of which the format writes,
and by a mark that only tensorlake leaves. Everything else is an error, also with ``overwrite``:
a dataset, a folder above or below one, a folder of another program, a file of another format. New
and old change places in one step, so that a process that is killed leaves one of them whole.
Those in a bucket are in `buckets.py`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Container, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from tensorlake.dataset.export.buckets import (
    HEAD_NBYTES,
    already_there,
    in_dataset,
    is_types,
    kept,
    new_objects,
)
from tensorlake.errors import InvalidInputError
from tensorlake.format import DESCRIPTOR
from tensorlake.quantities import check_flags
from tensorlake.storage import exchange_names, place_text

__all__ = [
    "MARK",
    "TYPES_FILE",
    "TYPES_FILES",
    "Form",
    "check_outside",
    "in_bucket",
    "new_file",
    "new_folder",
    "typed_form",
]

TYPES_FILE = "tensorlake-types.json"
"""Beside the files of a format: the type of each tensor, by name."""

TYPES_FILES = (TYPES_FILE, DESCRIPTOR)
"""The names that it has had; as the second it would pass for a dataset."""

MARK = ".tensorlake-export"
"""An empty file, by which the folder of a format without a place for types is known."""

NEW, OLD = ".tensorlake-new", ".tensorlake-old"
"""The only names in the folder of an unfinished export; one with others is kept."""


@dataclass(frozen=True, slots=True)
class Form:
    """The files of a format's folder.

    Attributes:
        kind: The name of the format.
        names: Matches the names of the files that an export writes, relative to the folder.
        is_own: Whether tensorlake wrote a folder of such files; None: it has the file `MARK`.
        listed: Returns names that are not by a pattern.
    """

    kind: str
    names: re.Pattern[str]
    is_own: Callable[[Path], bool] | None = None
    listed: Callable[[Path], Container[str]] | None = None


def typed_form(kind: str, names: str) -> Form:
    """Return the form of a folder that has `TYPES_FILE`."""
    types = "|".join(map(re.escape, TYPES_FILES))
    return Form(
        kind,
        re.compile(f"{names}|{types}"),
        lambda folder: any(_is_types(folder / name) for name in TYPES_FILES),
    )


@contextmanager
def new_file(dst: str | PathLike[str], *, begins: bytes | None, overwrite: bool) -> Generator[Path]:
    """Yield a file to write, which is renamed to the destination at the end.

    Args:
        dst: The destination.
        begins: How files of the format begin; None: with text.
        overwrite: Whether to replace such a file.
    """

    def check_head(head: bytes) -> None:
        is_like = b"\0" not in head if begins is None else head.startswith(begins)
        if head and not is_like:
            raise kept(os.fspath(dst), "it is a file of another format")

    def check(target: Path) -> None:
        if target.is_dir():
            raise kept(str(target), "it is a folder, and a file would take its place")
        with target.open("rb") as file:
            check_head(file.read(HEAD_NBYTES))

    work = (
        new_objects(dst, kind=None, check=check_head, overwrite=overwrite)
        if in_bucket(dst, overwrite=overwrite)
        else _work(dst, check, overwrite=overwrite)
    )
    with work as new:
        yield new


@contextmanager
def new_folder(dst: str | PathLike[str], *, form: Form, overwrite: bool) -> Generator[Path]:
    """Yield an empty folder to fill, which is renamed to the destination at the end.

    Args:
        dst: The destination.
        form: Recognises an earlier export.
        overwrite: Whether to replace such a folder.
    """

    def check(target: Path) -> None:
        if not target.is_dir():
            raise kept(str(target), "it is a file, and a folder would take its place")
        names = [*_files(target)]
        own = () if form.listed is None else form.listed(target)
        for name in names:
            if not form.names.fullmatch(name) and name not in own and name != MARK:
                raise kept(str(target), f"it has {name!r}, which this format does not write")
        is_own = (target / MARK).is_file() if form.is_own is None else form.is_own(target)
        if names and not is_own:
            raise kept(str(target), "nothing shows that tensorlake wrote it")

    if is_url := in_bucket(dst, overwrite=overwrite):
        work = new_objects(dst, kind=form.kind, overwrite=overwrite)
    else:
        work = _work(dst, check, overwrite=overwrite)
    with work as new:
        new.mkdir()
        yield new
        if form.is_own is None and not is_url:
            (new / MARK).touch()


@contextmanager
def _work(
    dst: str | PathLike[str], check: Callable[[Path], None], *, overwrite: bool
) -> Generator[Path]:
    """Yield the path to write at, beside the destination."""
    target = _target(dst)
    work = target.with_name(f"{target.name}.partial")
    place_text(str(work), what="dst")
    new, old = work / NEW, work / OLD
    if os.path.lexists(work):
        if not work.is_dir() or {one.name for one in work.iterdir()} - {NEW, OLD}:
            raise InvalidInputError(
                f"{str(work)!r} is there, and the export would be written under this name first"
                "\nrename it, or give another path",
                actual=str(work),
            )
        if old.exists() and not target.exists():  # killed between two renames
            old.rename(target)
        shutil.rmtree(work)
    if target.exists() and not overwrite:
        raise already_there(str(target))
    if target.exists():
        check(target)
    work.mkdir(parents=True)
    try:
        yield new
        if target.exists():
            check(target)  # once more: what was written there in the meantime is not lost
        _put(new, target, old)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _put(new: Path, target: Path, old: Path) -> None:
    """Give what was written its name, in place of what is there."""
    if new.is_file():
        new.replace(target)
    elif not target.exists():
        new.rename(target)
    elif not exchange_names(str(new), str(target)):
        target.rename(old)
        new.rename(target)


def check_outside(dst: str | PathLike[str]) -> None:
    """Refuse a destination that is, or is in, a dataset.

    Raises:
        InvalidInputError: It does.
    """
    text = place_text(dst, what="dst")
    if "://" in text:  # a plug-in may take URLs
        return
    real = Path(os.path.realpath(text))
    for folder in (real, *real.parents):
        if _is_dataset(folder):
            raise in_dataset(text, text if folder == real else str(folder))


def in_bucket(dst: str | PathLike[str], *, overwrite: bool = False) -> bool:
    """Whether a destination is a URL; checks the arguments."""
    check_flags(overwrite=overwrite)
    return "://" in place_text(dst, what="dst")


def _target(dst: str | PathLike[str]) -> Path:
    """Return the path of a destination; of a link, what it leads to."""
    text = place_text(dst, what="dst")
    check_outside(text)
    target = Path(text)
    return Path(os.path.realpath(target)) if target.is_symlink() else target


def _is_dataset(folder: Path) -> bool:
    """Whether a folder is a dataset; that file was also the one of types of an export."""
    place = folder / DESCRIPTOR
    return place.is_file() and not _is_types(place)


def _is_types(place: Path) -> bool:
    try:
        return is_types(place.read_bytes())
    except FileNotFoundError:
        return False


def _files(folder: Path) -> Iterator[str]:
    """Yield the names of all files below a folder, and of links, relative to it."""
    for root, folders, files in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(root, name))]  # noqa: PTH114, PTH118 - a Path a file costs
        for name in (*files, *links):
            yield os.path.relpath(os.path.join(root, name), folder).replace(os.sep, "/")  # noqa: PTH118 - as above
