"""Exports to a bucket: written to a temporary folder, and uploaded when they are complete.

    DST                       the file, as one object
    DST/…                     the files of a folder, those at its top that are JSON last
    DST.tensorlake-export     of a folder: {"kind": "mds", "complete": true, "files": [names]}

A store cannot rename a folder, so readers can see a part of one. The mark is stored first, with all
names that the folder has meanwhile, and again after the last file, complete. `overwrite` replaces
the files that the mark lists, and no others. A format's index is stored after the files it lists.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from tensorlake.errors import AccessError, InvalidInputError, UnsupportedFeatureError
from tensorlake.format import DESCRIPTOR
from tensorlake.storage import (
    MAX_PUT_NBYTES,
    Buffer,
    ObjectExistsError,
    Store,
    gather_bounded,
    open_store,
    place_text,
    public_url,
    run,
)

__all__ = [
    "HEAD_NBYTES",
    "already_there",
    "destination",
    "in_dataset",
    "is_types",
    "kept",
    "new_objects",
]

HEAD_NBYTES = 4096
"""Bytes by which the format of a file is known."""

UPLOADS = 8
MARK_ENDING = ".tensorlake-export"
READ_ONLY = ("http://", "https://", "hf://", "file://")


@dataclass(frozen=True, slots=True)
class _Place(PathLike[str]):
    """A destination, with the options of its store."""

    url: str
    storage_options: Mapping[str, Any]

    def __fspath__(self) -> str:
        return self.url


def destination(
    dst: str | PathLike[str], storage_options: Mapping[str, Any] | None
) -> str | PathLike[str]:
    """Return a destination that has the options of its store, which are checked."""
    if storage_options is None:
        return dst
    text = place_text(dst, what="dst")
    open_store(text, storage_options=storage_options)
    return _Place(text, storage_options)


@contextmanager
def new_objects(
    dst: str | PathLike[str],
    *,
    kind: str | None,
    overwrite: bool,
    check: Callable[[bytes], None] | None = None,
) -> Generator[Path]:
    """Yield a path to write a file or to fill a folder at, which is uploaded at the end.

    Args:
        dst: URL of the file or the folder.
        kind: The format of a folder; None: a file.
        overwrite: Whether to replace an earlier export of the same format.
        check: Refuses a file that is there, by how it begins.

    Raises:
        InvalidInputError: The destination exists and is not replaced, or a file is too large.
        UnsupportedFeatureError: Files cannot be written to the URL.
    """
    url, options = os.fspath(dst).rstrip("/"), getattr(dst, "storage_options", None)
    parent, _, name = url.rpartition("/")
    if url.lower().startswith(READ_ONLY) or parent.endswith("/"):
        raise UnsupportedFeatureError(
            f"an export is written to a path or into a bucket, not to {public_url(url)!r}"
            "\ngive a path, or a URL such as s3://bucket/folder/name",
            actual=public_url(url),
        )
    _refuse_dataset(url, options)
    store = open_store(parent, storage_options=options)
    target = _Target(store, public_url(url), name, kind, check)
    target.earlier(overwrite=overwrite)
    with TemporaryDirectory(prefix="tensorlake-export-") as work:
        new = Path(work, "new")
        yield new
        target.upload(new, target.earlier(overwrite=overwrite), overwrite=overwrite)


@dataclass(frozen=True, slots=True)
class _Target:
    """A destination below a store; its files have paths of the store."""

    store: Store
    url: str
    name: str
    kind: str | None
    check: Callable[[bytes], None] | None

    @property
    def mark(self) -> str:
        return f"{self.name}{MARK_ENDING}"

    def earlier(self, *, overwrite: bool) -> set[str]:
        """Return the files that are replaced; refuse others."""
        marked = None if self.kind is None else run(self.store.get(self.mark))
        there = run(self._there())
        if (there or marked is not None) and not overwrite:
            raise already_there(self.url)
        if self.check is not None:
            for path, nbytes in there.items():
                self.check(bytes(run(self.store.get_range(path, 0, min(nbytes, HEAD_NBYTES)))))
        elif there:
            kind, files = _read_mark(marked)
            if kind != self.kind:
                raise kept(self.url, f"nothing shows that tensorlake wrote it as {self.kind}")
            if others := {one.removeprefix(f"{self.name}/") for one in there} - {*files}:
                raise kept(self.url, f"it has {min(others)!r}, which the export did not write")
        return {*there}

    async def _there(self) -> dict[str, int]:
        if self.kind is None:
            found = await self.store.head(self.name)
            return {} if found is None else {self.name: found.nbytes}
        return {one.path: one.nbytes async for one in self.store.list(f"{self.name}/")}

    def upload(self, new: Path, earlier: set[str], *, overwrite: bool) -> None:
        """Store the files; those of an earlier export that are not among them are deleted."""
        files = {self.name: new}
        if self.kind is not None:
            below = [one for one in new.rglob("*") if one.is_file()]
            files = {f"{self.name}/{one.relative_to(new).as_posix()}": one for one in below}
        for file in files.values():
            self._check_size(file.stat().st_size)
        put = self.store.put if overwrite else self.store.put_if_absent
        try:
            if self.kind is None:
                run(put(self.name, _mapped(new)))
                return
            run(put(self.mark, self._marked(earlier | files.keys(), is_complete=False)))
        except ObjectExistsError as error:
            raise already_there(self.url) from error
        last = {one for one in files if one.endswith(".json") and files[one].parent == new}
        for paths in (files.keys() - last, last):
            calls = [partial(self._send, one, files[one]) for one in sorted(paths)]
            run(gather_bounded(calls, limit=UPLOADS))
        gone = [partial(self.store.delete, one) for one in sorted(earlier - files.keys())]
        run(gather_bounded(gone, limit=UPLOADS))
        run(self.store.put(self.mark, self._marked(files.keys(), is_complete=True)))

    async def _send(self, path: str, file: Path) -> None:
        await self.store.put(path, _mapped(file))

    def _check_size(self, nbytes: int) -> None:
        if nbytes > MAX_PUT_NBYTES:
            raise InvalidInputError(
                f"a file of {self.url!r} would have {nbytes:,} bytes, and a store takes"
                f" {MAX_PUT_NBYTES:,} at once"
                "\nexport fewer rows at a time, or a format of several files",
                actual=nbytes,
            )

    def _marked(self, paths: Iterable[str], *, is_complete: bool) -> bytes:
        names = sorted(path.removeprefix(f"{self.name}/") for path in paths)
        return json.dumps({"kind": self.kind, "complete": is_complete, "files": names}).encode()


def _read_mark(content: bytes | None) -> tuple[object, list[str]]:
    """Return the format and the files of a mark; None and no files if it is damaged or missing."""
    try:
        mark = json.loads(content or b"")
        return mark["kind"], [str(one) for one in mark["files"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, []


def _mapped(file: Path) -> Buffer:
    """Map a file into memory: its pages are read as they are sent."""
    with file.open("rb") as opened:
        if not os.fstat(opened.fileno()).st_size:
            return b""
        return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))


def _refuse_dataset(url: str, options: Mapping[str, Any] | None) -> None:
    """Refuse a URL that is, or is in, a dataset that can be read."""
    root = url.index("://") + len("://")
    for stop in [*(at for at, one in enumerate(url) if one == "/" and at > root), len(url)]:
        try:
            found = run(open_store(url[:stop], storage_options=options).get(DESCRIPTOR))
        except AccessError:  # of credentials for a part of a bucket
            continue
        if found is not None and not is_types(found):
            raise in_dataset(public_url(url), public_url(url[:stop]))


def is_types(content: bytes) -> bool:
    """Whether a ``tensorlake.json`` has the types of an export, and not a dataset."""
    try:
        found: Any = json.loads(content)
    except (ValueError, RecursionError):
        return False
    if not isinstance(found, dict):
        return False
    return all(isinstance(one, dict) for one in cast("dict[str, Any]", found).values())


def in_dataset(place: str, dataset: str) -> InvalidInputError:
    """Return the error of a destination that is a dataset, or in one."""
    what = "is" if dataset == place else f"is in {dataset!r}, which is"
    return InvalidInputError(
        f"{place!r} {what} a dataset, where no export is written\ngive another path", actual=place
    )


def already_there(place: str) -> InvalidInputError:
    """Return the error of a destination that exists."""
    return InvalidInputError(
        f"{place!r} is there already"
        "\ngive overwrite=True (in a shell: --overwrite), or another path",
        actual=place,
    )


def kept(place: str, why: str) -> InvalidInputError:
    """Return the error of a destination that is not replaced."""
    return InvalidInputError(
        f"{place!r} is not replaced, because {why}: it is not an earlier export"
        "\ngive another path, or move it away first",
        actual=place,
    )
