"""Exports to a bucket: written to a temporary folder, and uploaded when they are complete.

    DST                            the file, as one object
    DST/…                          the files of a folder, those at its top that are JSON last
    DST.tensorlake-export          of a folder: {"id": …, "kind": "mds", "complete": true,
                                   "files": [names]}
    DST.tensorlake-export.lock     held while the mark of an earlier export is replaced

A store cannot rename a folder, so readers can see a part of one. The mark is stored first, with all
names that the folder has meanwhile, and again after the last file, complete. `overwrite` replaces
the files that the mark lists, and no others. A format's index is stored after the files it lists.
The mark has the id of the last export that began; other writers find this id, and stop.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any, cast

from tensorlake.errors import (
    AccessError,
    ConflictError,
    CorruptionError,
    InvalidInputError,
    TensorlakeError,
    UnsupportedError,
    UnsupportedFeatureError,
)
from tensorlake.format import DESCRIPTOR
from tensorlake.storage import (
    MAX_PUT_NBYTES,
    Buffer,
    MissingObjectError,
    ObjectExistsError,
    ObjectMeta,
    Store,
    check_parts,
    gather_bounded,
    open_store,
    place_text,
    public_url,
    run,
)

__all__ = [
    "HEAD_NBYTES",
    "already_there",
    "check_whole",
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
LOCK_ENDING = f"{MARK_ENDING}.lock"
ID_NBYTES = 8
LOCKED_S = 600
"""A lock is held for three requests; one that is older is of a process that was stopped."""

SPOIL_TRIES = 16
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
        ConflictError: Another export writes to the same folder.
        UnsupportedFeatureError: Files cannot be written to the URL.
    """
    given, options = os.fspath(dst), getattr(dst, "storage_options", None)
    url = given.rstrip("/")
    parent, _, name = url.rpartition("/")
    if url.lower().startswith(READ_ONLY) or parent.endswith(":/"):
        raise UnsupportedFeatureError(
            f"an export is written to a path or into a bucket, not to {public_url(url)!r}"
            "\ngive a path, or a URL such as s3://bucket/folder/name",
            actual=public_url(url),
        )
    check_parts(url)
    if kind is None and given != url:
        raise InvalidInputError(
            f"{given!r} names a folder, and the export is one file"
            "\ngive a URL with the name of the file, without a slash at its end",
            actual=given,
        )
    _refuse_inside(url, options)
    store = open_store(parent, storage_options=options)
    target = _Target(store, public_url(url), name, kind, check)
    found = target.look(overwrite=overwrite)
    with TemporaryDirectory(prefix="tensorlake-export-") as work:
        new = Path(work, "new")
        yield new
        again = target.look(overwrite=overwrite)
        if kind is not None and again != found:
            raise target.conflict()
        target.upload(new, again, overwrite=overwrite)


@dataclass(frozen=True, slots=True)
class _Found:
    """Mark and files of a destination: an export that is being written makes two looks differ."""

    mark: bytes | None
    files: dict[str, ObjectMeta]


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

    @property
    def lock(self) -> str:
        return f"{self.name}{LOCK_ENDING}"

    def look(self, *, overwrite: bool) -> _Found:
        """Return what is there and is replaced; refuse what is not."""
        found = run(self._found())
        if (found.files or found.mark is not None) and not overwrite:
            raise already_there(self.url)
        for path, one in found.files.items():
            is_below = path != self.name
            if is_below and self.kind is None:
                raise kept(self.url, "it is a folder, and a file would take its place")
            if not is_below and self.kind is not None:
                raise kept(self.url, "it is a file, and a folder would take its place")
            if self.check is not None:
                self.check(bytes(run(self.store.get_range(path, 0, min(one.nbytes, HEAD_NBYTES)))))
        if self.kind is not None and found.files:
            kind, files = _read_mark(found.mark)
            if kind != self.kind:
                raise kept(self.url, f"nothing shows that tensorlake wrote it as {self.kind}")
            if others := {one.removeprefix(f"{self.name}/") for one in found.files} - {*files}:
                raise kept(self.url, f"it has {min(others)!r}, which the export did not write")
        return found

    async def _found(self) -> _Found:
        file = await self.store.head(self.name)
        files = {} if file is None else {self.name: file}
        async for one in self.store.list(f"{self.name}/"):
            files[one.path] = one
            if self.kind is None:
                break
        mark = None if self.kind is None else await self.store.get(self.mark)
        return _Found(mark, files)

    def upload(self, new: Path, found: _Found, *, overwrite: bool) -> None:
        """Store the files; those of an earlier export that are not among them are deleted."""
        files = {self.name: new}
        if self.kind is not None:
            below = [one for one in new.rglob("*") if one.is_file()]
            files = {f"{self.name}/{one.relative_to(new).as_posix()}": one for one in below}
        for file in files.values():
            self._check_size(file.stat().st_size)
        if self.kind is None:
            put = self.store.put if overwrite else self.store.put_if_absent
            try:
                run(put(self.name, _mapped(new)))
            except ObjectExistsError as error:
                raise already_there(self.url) from error
            return
        own = token_hex(ID_NBYTES)
        whole = self._marked(own, files, is_complete=True)
        begun = self._marked(own, found.files.keys() | files.keys(), is_complete=False)
        self._begin(begun, found, overwrite=overwrite)
        try:
            self._replace(new, files, {*found.files}, begun)
            if overwrite:
                self._exchange(begun, whole)
            else:
                run(self._check_own(begun))
                run(self.store.put(self.mark, whole))
        except Exception:
            self._spoil(begun, files)
            raise

    def _replace(
        self, new: Path, files: Mapping[str, Path], earlier: set[str], begun: bytes
    ) -> None:
        """Replace the earlier files by those of a folder, as long as the mark is this export's."""
        last = {one for one in files if one.endswith(".json") and files[one].parent == new}
        for paths in (files.keys() - last, last):
            calls = [
                partial(self._send, one, files[one], begun, is_checked=not at % UPLOADS)
                for at, one in enumerate(sorted(paths))
            ]
            run(gather_bounded(calls, limit=UPLOADS))
        gone = [partial(self._remove, one, begun) for one in sorted(earlier - files.keys())]
        run(gather_bounded(gone, limit=UPLOADS))
        left = {path: one.nbytes for path, one in run(self._found()).files.items()}
        if left != {path: one.stat().st_size for path, one in files.items()}:
            raise self.conflict()

    def _begin(self, begun: bytes, found: _Found, *, overwrite: bool) -> None:
        """Store the mark of this export; of several writers that found the same, one does."""
        if found.mark is not None:
            self._exchange(found.mark, begun)
            return
        try:
            run(self.store.put_if_absent(self.mark, begun))
        except ObjectExistsError as error:
            raise (self.conflict() if overwrite else already_there(self.url)) from error

    def _exchange(self, expected: bytes | None, mark: bytes) -> None:
        """Replace the mark if it is as expected: not every store compares as it writes."""
        try:
            run(self._take_lock())
        except ObjectExistsError as error:
            raise self.conflict(
                f"; {self.lock!r} is held for {LOCKED_S // 60} minutes at most"
            ) from error
        try:
            if run(self.store.get(self.mark)) != expected:
                raise self.conflict()
            run(self.store.put(self.mark, mark))
        finally:
            run(self.store.delete(self.lock))

    async def _take_lock(self) -> None:
        """Put the lock, in place of one that a process left that was stopped."""
        there = await self.store.head(self.lock)
        if there and (await self.store.now() - there.modified).total_seconds() > LOCKED_S:
            await self.store.delete(self.lock)
        await self.store.put_if_absent(self.lock, b"")

    def _spoil(self, begun: bytes, files: Mapping[str, Path]) -> None:
        """Mark a folder that another export took over as not complete: it may have files of both.

        A request of this export may have landed after one of the other, which found it stopped.
        """
        with suppress(TensorlakeError):  # the error that ended this export is raised
            for _ in range(SPOIL_TRIES):
                mark = run(self.store.get(self.mark))
                if mark is not None and mark.startswith(begun[: begun.index(b",")]):
                    return
                names = {*files, *(f"{self.name}/{one}" for one in _read_mark(mark)[1])}
                with suppress(ConflictError):
                    spoilt = self._marked(token_hex(ID_NBYTES), names, is_complete=False)
                    self._exchange(mark, spoilt)
                    return

    async def _check_own(self, begun: bytes) -> None:
        """Raise the error of a conflict if the mark is no longer that of this export."""
        stop = begun.index(b",")  # after the id: the names that follow may be many
        try:
            found = await self.store.get_range(self.mark, 0, stop)
        except (MissingObjectError, CorruptionError) as error:
            raise self.conflict() from error
        if bytes(found) != begun[:stop]:
            raise self.conflict()

    def conflict(self, why: str = "") -> ConflictError:
        """Return the error of a folder to which another export writes."""
        return ConflictError(
            f"another export to {self.url!r} began, or ended, during this one{why}"
            "\nwhen no other is running, export again with overwrite=True; or give another URL",
            actual=self.url,
        )

    async def _send(self, path: str, file: Path, begun: bytes, *, is_checked: bool) -> None:
        if is_checked:
            await self._check_own(begun)
        await self.store.put(path, _mapped(file))

    async def _remove(self, path: str, begun: bytes) -> None:
        await self._check_own(begun)
        await self.store.delete(path)

    def _check_size(self, nbytes: int) -> None:
        if nbytes > MAX_PUT_NBYTES:
            raise InvalidInputError(
                f"a file of {self.url!r} would have {nbytes:,} bytes, and a store takes"
                f" {MAX_PUT_NBYTES:,} at once"
                "\nexport fewer rows at a time, or a format of several files",
                actual=nbytes,
            )

    def _marked(self, own: str, paths: Iterable[str], *, is_complete: bool) -> bytes:
        names = sorted(path.removeprefix(f"{self.name}/") for path in paths)
        mark = {"id": own, "kind": self.kind, "complete": is_complete, "files": names}
        return json.dumps(mark).encode()


def check_whole(places: Sequence[str], storage_options: Mapping[str, Any] | None) -> None:
    """Refuse to read folders of exports that are being written, or were stopped.

    Args:
        places: Paths or URLs of files or folders.
        storage_options: Options of their stores.

    Raises:
        InvalidInputError: One is, or is in, such a folder.
    """
    for place in dict.fromkeys(folder for one in places for folder in _folders_of(one)):
        mark = _mark_beside(place, storage_options)
        if mark is not None and _is_incomplete(mark):
            shown = public_url(place)
            raise InvalidInputError(
                f"the export at {shown!r} is not complete, as {shown + MARK_ENDING!r} reports"
                "\nif no export is writing to it, write it again with overwrite=True",
                src=shown,
            )


def _folders_of(place: str) -> list[str]:
    """Return a path or URL and the folders it is in, without a bucket itself.

    >>> _folders_of("s3://bucket/out/train/0.tar")
    ['s3://bucket/out/train/0.tar', 's3://bucket/out/train', 's3://bucket/out']
    """
    rest = place.rstrip("/")
    start = rest.find("://") + len("://") if "://" in rest else 0
    cuts = [at for at, one in enumerate(rest) if one == "/" and at > start]
    return [rest[:stop] for stop in [*cuts, len(rest)][bool(start) :]][::-1]


def _mark_beside(place: str, options: Mapping[str, Any] | None) -> bytes | None:
    """Read the mark beside a path or URL; None where there is none, or it cannot be read."""
    if "://" not in place:  # a copy of a bucket's folder
        with suppress(OSError, ValueError):
            return Path(f"{place}{MARK_ENDING}").read_bytes()
        return None
    if place.lower().startswith(READ_ONLY):  # servers, of which not all answer for each name
        return None
    parent, _, name = place_text(place, what="src").rpartition("/")
    with suppress(AccessError, InvalidInputError, UnsupportedError):  # reading the files raises it
        return run(open_store(parent, storage_options=options).get(f"{name}{MARK_ENDING}"))
    return None


def _is_incomplete(mark: bytes) -> bool:
    try:
        return json.loads(mark)["complete"] is False
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


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


def _refuse_inside(url: str, options: Mapping[str, Any] | None) -> None:
    """Refuse a URL that is, or is in, a dataset that can be read, or is in another export."""
    for folder in _folders_of(url)[1:]:
        parent, _, name = folder.rpartition("/")
        try:
            mark = run(open_store(parent, storage_options=options).head(f"{name}{MARK_ENDING}"))
        except AccessError:
            continue
        if mark is not None:
            raise InvalidInputError(
                f"{public_url(url)!r} is in {public_url(folder)!r}, which is another export"
                "\ngive another URL",
                actual=public_url(url),
            )
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
