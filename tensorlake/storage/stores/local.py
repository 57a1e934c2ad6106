"""Objects as files of a local folder: durable, never half-written, memory-mapped for reading.

    put_if_absent(path)                                    state after a crash here
    1. write <root>/.tmp/<random>, fsync it                a scratch file, invisible to `list`
    2. give it the name <root>/<path>, if that is free     the object, perhaps not yet durable
    3. fsync the folder (and those above, when new)        the object
    4. remove the scratch name

With ``durable=False`` no step waits for the disk: step 1 only begins write-back, step 3 is skipped,
and ``sync`` syncs files and folders later, many concurrently for the cost of one flush.

Small requests run inline in the awaiting coroutine, because handing them to a thread costs more
than the I/O; large ones, and all that wait for fsync, run on the event loop's threads. In a thread
of
the caller's own (``runtime.run_here``) all run inline.
"""

# ruff: noqa: D102 - the Store protocol documents what its methods do
# ruff: noqa: PTH100, PTH103, PTH105, PTH108, PTH112, PTH116, PTH118, PTH120 - a Path costs more than these calls

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Final, Literal, TypeAlias, TypeVar

from tensorlake.errors import InvalidInputError, TensorlakeError, shown
from tensorlake.storage.api.clock import StoreClock
from tensorlake.storage.api.store import (
    SCRATCH,
    Buffer,
    Data,
    ObjectMeta,
    StoredObject,
    UnknownOutcomeError,
    check_path,
    check_range,
    exists,
    missing,
    nbytes_of,
    pieces_of,
    short,
)
from tensorlake.storage.concurrency.runtime import gather_bounded, runs_here, to_loop
from tensorlake.storage.files.bytes import (
    INLINE_NBYTES,
    ShortFileError,
    bring_to_disk,
    read_if_cached,
    read_in_turn,
    read_into,
    read_ranges,
    read_whole,
)
from tensorlake.storage.files.errors import ABSENT, translate
from tensorlake.storage.files.listing import meta_of, walk
from tensorlake.storage.files.mappings import Mappings
from tensorlake.storage.files.rename import publish_exclusive
from tensorlake.storage.files.temp_files import ScratchFile, ScratchFolder

T = TypeVar("T")
Durability: TypeAlias = Literal["fsync", "none"]

SYNCS_AT_ONCE: Final = 8
"""Files synced concurrently: a disk flushes once for all that wait together."""


class LocalStore:
    """A folder of this machine as a store.

    Args:
        root: The folder; created by the first write.
        durability: "none" skips every fsync: a power cut may lose what was acknowledged.
    """

    def __init__(self, root: str | os.PathLike[str], *, durability: Durability = "fsync") -> None:
        if not isinstance(durability, str) or durability not in ("fsync", "none"):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
            raise InvalidInputError(
                f"durability {shown(durability)} is not known;\nuse 'fsync' or 'none'",
                durability=durability,
            )
        self._root = os.path.abspath(os.fspath(root))
        self._durability: Durability = durability
        self._scratch = ScratchFolder(self._root, is_synced=durability == "fsync")
        self._clock = StoreClock(self._root)
        self._mappings = Mappings()
        # Folders whose names are known to be on disk. The set only grows, one atomic step at a
        # time, so threads need no lock here.
        self._durable_folders: set[str] = set()

    @property
    def url(self) -> str:
        return self._root

    @property
    def is_local(self) -> bool:
        return True

    @property
    def waits_for_disk(self) -> bool:
        """Whether writes wait for fsync, so that a writing thread could do other work meanwhile."""
        return self._durability == "fsync"

    async def get(self, path: str) -> bytes | None:
        found = await self._read(path)
        return None if found is None else found[0]

    async def read(self, path: str) -> StoredObject | None:
        found = await self._read(path)
        return None if found is None else StoredObject(found[0], meta_of(path, found[1]).modified)

    async def _read(self, path: str) -> tuple[bytes, os.stat_result] | None:
        file = self._file(path)
        try:
            facts = os.stat(file)
            return await _where_it_pays(facts.st_size, partial(read_whole, file)), facts
        except ABSENT:
            return None
        except OSError as error:
            raise self._translated(error, "read", path) from error

    async def get_range(self, path: str, start: int, stop: int) -> Buffer:
        return (await self.get_ranges(path, [(start, stop)]))[0]

    async def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        for start, stop in ranges:
            check_range(path, start, stop)
        file = self._file(path)
        nbytes = sum(stop - start for start, stop in ranges)
        try:
            data = await _where_it_pays(nbytes, partial(read_ranges, file, ranges))
        except OSError as error:
            raise self._unreadable(error, "read", path) from error
        for (start, stop), piece in zip(ranges, data, strict=True):
            if len(piece) != stop - start:
                raise short(path, self.url, start=start, stop=stop, received=len(piece))
        return data

    async def put_if_absent(
        self,
        path: str,
        data: Data,
        *,
        durable: bool = True,
        after: Callable[[], None] | None = None,
    ) -> None:
        def publish(scratch: str, file: str) -> None:  # its bytes are on disk, without a name
            if after is not None:
                after()
            publish_exclusive(scratch, file)

        durable = durable and self._durability == "fsync"
        await self._put(path, data, durable=durable, publish=publish)

    def write_unseen(self, path: str, parts: Iterable[Iterable[Buffer]]) -> ScratchFile:
        """Write an object part by part in the caller's own thread; invisible until ``show``.

        Args:
            path: Its future path.
            parts: Its bytes; the buffers of a part may be reused for the next.
        """
        with self._written(path):
            file = self._scratch.begin()
            try:
                for pieces in parts:
                    file.append(pieces)
            except BaseException:
                file.remove()
                raise
            return file

    def show(self, path: str, file: ScratchFile, last: Iterable[Buffer]) -> None:
        """Append the last bytes of a file and publish it; it is durable once ``sync`` returned.

        Raises:
            ObjectExistsError: The name is taken.
        """
        with self._written(path):
            try:
                file.append(last)
                file.finish(durable=False)
                _name(file.path, self._file(path), publish_exclusive)
            finally:
                file.remove()

    async def sync(self, paths: Sequence[str]) -> None:
        if self._durability == "none" or not paths:
            return
        folders = sorted({os.path.dirname(self._file(path)) for path in paths})
        if runs_here():
            for path in paths:
                self._sync_object(path)
            self._sync_new_names(folders)
            return
        loop = asyncio.get_running_loop()

        def synced(path: str) -> asyncio.Future[None]:
            return loop.run_in_executor(None, self._sync_object, path)

        await gather_bounded([partial(synced, path) for path in paths], limit=SYNCS_AT_ONCE)
        await loop.run_in_executor(None, self._sync_new_names, folders)

    async def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        publish = os.replace if durable else _replace_hint
        durable = durable and self._durability == "fsync"
        await self._put(path, data, durable=durable, publish=publish)

    async def now(self) -> datetime:
        if not self._clock.is_known or self._clock.is_far:
            with suppress(OSError):  # a read-only folder: the local clock is the only one
                scratch = self._scratch.begin()
                self._clock.hear(scratch.modified_ns)
                scratch.remove()
        return self._clock.now()

    async def head(self, path: str) -> ObjectMeta | None:
        return self.look_up(path)

    def look_up(self, path: str) -> ObjectMeta | None:
        """Do what ``head`` does, without the event loop: a local file needs no waiting."""
        file = self._file(path)
        try:
            found = os.stat(file)
        except ABSENT:
            return None
        except OSError as error:
            raise self._translated(error, "look up", path) from error
        return None if stat.S_ISDIR(found.st_mode) else meta_of(path, found)

    def range_if_cached(self, path: str, start: int, stop: int) -> tuple[Buffer, int] | None:
        """Read a small cached range, and the object's size; None if it would wait or fails."""
        check_range(path, start, stop)
        if stop - start > INLINE_NBYTES:
            return None
        try:
            return read_if_cached(self._file(path), start, stop)
        except OSError:
            return None

    async def list(self, prefix: str) -> AsyncIterator[ObjectMeta]:
        folder, _, _ = prefix.rpartition("/")
        if folder:
            check_path(folder)
        await to_loop()
        # One folder a step: a branch's log may be long, and the caller may stop early.
        batches = walk(os.path.join(self._root, folder), f"{folder}/" if folder else "", prefix)
        loop = asyncio.get_running_loop()
        try:
            while batch := await loop.run_in_executor(None, next, batches, None):
                for meta in batch:
                    yield meta
        except OSError as error:
            raise self._translated(error, "list", prefix) from error

    async def folders(self, prefix: str) -> Sequence[str]:
        if prefix:
            check_path(prefix.removesuffix("/"))
        try:
            with os.scandir(os.path.join(self._root, prefix)) as scan:
                found = [e for e in scan if e.is_dir() and e.name != SCRATCH]
            # Deleting an object leaves its folder: only what holds one is there for others.
            return sorted(e.name for e in found if next(walk(e.path, "", ""), None))
        except ABSENT:
            return []
        except OSError as error:
            raise self._translated(error, "list", prefix) from error

    async def delete(self, path: str) -> None:
        try:
            os.unlink(self._file(path))
        except ABSENT:
            return
        except OSError as error:
            raise self._translated(error, "delete", path) from error

    def map_range(self, path: str, start: int, stop: int) -> memoryview | None:
        check_range(path, start, stop)
        if start == stop:
            return memoryview(b"")
        try:
            view = self._mappings.view(self._file(path))
        except OSError as error:
            raise self._unreadable(error, "map", path) from error
        if stop > view.nbytes:
            received = max(0, view.nbytes - start)
            raise short(path, self.url, start=start, stop=stop, received=received)
        return view[start:stop]

    def read_in_turn(self, path: str, ranges: Sequence[tuple[int, int]]) -> Generator[bytes]:
        """Read ranges of an object in the caller's own thread, each on demand.

        Args:
            path: Which object; it must exist and be that long.
            ranges: [start, stop) each, in the order wanted.

        Yields:
            The bytes of each; dropped before the next is asked for, their memory serves again.
        """
        try:
            yield from read_in_turn(self._file(path), ranges)
        except ShortFileError as error:
            at = {"start": error.start, "stop": error.stop, "received": error.received}
            raise short(path, self.url, **at) from error
        except OSError as error:
            raise self._unreadable(error, "read", path) from error

    def read_into(self, path: str, start: int, pieces: Sequence[memoryview]) -> bool:
        stop = start + nbytes_of(pieces)
        check_range(path, start, stop)
        try:
            received = read_into(self._file(path), start, pieces)
        except OSError as error:
            raise self._unreadable(error, "read", path) from error
        if received != stop - start:
            raise short(path, self.url, start=start, stop=stop, received=received)
        return True

    def check_writable(self) -> None:
        """Raise early the error that the first write would raise; a folder needs no request for it.

        Raises:
            AccessError: Objects may not be added here.
        """
        if os.path.isdir(self._root) and not os.access(self._root, os.W_OK | os.X_OK):
            denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            raise self._translated(denied, "add to") from None

    def check_readable(self) -> None:
        """Check that the folder exists: a missing one would read as empty.

        Raises:
            StorageError: It is missing, or not a folder.
            AccessError: It may not be read.
        """
        try:
            os.scandir(self._root).close()
        except OSError as error:
            raise self._translated(error, "list") from error

    def clone(self) -> LocalStore:
        return LocalStore(self._root, durability=self._durability)

    def _file(self, path: str) -> str:
        return f"{self._root}{os.sep}{check_path(path)}"

    async def _put(
        self, path: str, data: Data, *, durable: bool, publish: Callable[[str, str], None]
    ) -> None:
        file = self._file(path)
        write = partial(self._write, path, file, pieces_of(data), durable=durable, publish=publish)
        # an object's first write may sync the folder itself; a hint never waits for that
        may_sync = self._durability == "fsync" and publish is not _replace_hint
        if not runs_here() and (may_sync or nbytes_of(data) > INLINE_NBYTES):
            await asyncio.get_running_loop().run_in_executor(None, write)
        else:
            write()

    def _write(
        self,
        path: str,
        file: str,
        pieces: list[Buffer],
        *,
        durable: bool,
        publish: Callable[[str, str], None],
    ) -> None:
        with self._written(path):
            scratch = self._scratch.begin()
            try:
                scratch.append(pieces)
                self._clock.hear(scratch.modified_ns)
                scratch.finish(durable=durable)
                _name(scratch.path, file, publish)
            finally:
                scratch.remove()
        if durable:
            try:
                self._sync_folders(os.path.dirname(file))
            except OSError as error:
                # Others can see the object already: taking it back would break their reads.
                raise UnknownOutcomeError(
                    f"object {path!r} of {self.url!r} was written, but may not outlive a power cut"
                    f" ({error.strerror});\ncheck the disk, then read the object back",
                    path=path,
                    url=self.url,
                ) from error

    @contextmanager
    def _written(self, path: str) -> Generator[None]:
        """Translate system errors to store errors."""
        try:
            yield
        except TensorlakeError:  # of another object, awaited before this one becomes visible
            raise
        except FileExistsError as error:
            raise exists(path, self.url) from error
        except OSError as error:
            raise self._translated(error, "write", path) from error

    def _sync_object(self, path: str) -> None:
        try:
            bring_to_disk(self._file(path))
        except OSError as error:
            raise self._unreadable(error, "make durable", path) from error

    def _sync_new_names(self, folders: Sequence[str]) -> None:
        try:
            for folder in folders:
                self._sync_folders(folder)
        except OSError as error:
            raise self._translated(error, "make durable") from error

    def _sync_folders(self, folder: str) -> None:
        """Sync a new name in `folder`, and once the names of its parent folders."""
        bring_to_disk(folder)
        while folder != self._root and folder not in self._durable_folders:
            parent = os.path.dirname(folder)
            bring_to_disk(parent)
            self._durable_folders.add(folder)
            folder = parent

    def _translated(self, error: OSError, verb: str, path: str = "") -> TensorlakeError:
        return translate(error, verb=verb, path=path, url=self.url)

    def _unreadable(self, error: OSError, verb: str, path: str) -> TensorlakeError:
        """Build the error of a read that needs an object, which may be missing."""
        if isinstance(error, ABSENT):
            return missing(path, self.url)
        return self._translated(error, verb, path)


async def _where_it_pays(nbytes: int, read: Callable[[], T]) -> T:
    if nbytes <= INLINE_NBYTES or runs_here():
        return read()
    return await asyncio.get_running_loop().run_in_executor(None, read)


def _name(scratch: str, file: str, publish: Callable[[str, str], None]) -> None:
    try:
        publish(scratch, file)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(file), exist_ok=True)
        publish(scratch, file)


def _replace_hint(scratch: str, file: str) -> None:
    """Replace a file that may be missing for a moment, or after a power cut.

    A rename over another file makes ext4 write the new one to disk first (auto_da_alloc): 2 ms in
    which the storage loop is blocked, against 20 µs for these two calls.
    """
    with suppress(FileNotFoundError):
        os.unlink(file)
    os.replace(scratch, file)
