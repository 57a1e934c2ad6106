"""Files that links name: at URLs of any store, in local folders, or relative to a dataset's URL.

    link                          dataset at s3://b/lake/pets         read from
    clips/1.mp4                                                       s3://b/lake/pets/clips/1.mp4
    ../clips/1.mp4                                                    s3://b/lake/clips/1.mp4
    https://host/1.mp4, /data/1.mp4                                   there

A URL is stored with a dataset, so it holds no secret: users, passwords and queries are refused.
Credentials are those of the process: of the environment, the dataset's own storage_options for a
link into the same bucket, or what `set_link_credentials` was given.

Local files are read by calls, not mapped: another program may change or cut them at any time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from posixpath import normpath
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote, urlsplit

from tensorlake.errors import (
    AccessError,
    CorruptionError,
    InvalidInputError,
    StorageError,
    UnsupportedStoreError,
    shown,
)
from tensorlake.storage.api.options import check_options
from tensorlake.storage.api.store import Buffer, MissingObjectError, Store
from tensorlake.storage.api.urls import join_url, place_text, public_url, split_url
from tensorlake.storage.concurrency import runtime
from tensorlake.storage.concurrency.lru_cache import LruCache
from tensorlake.storage.stores.fsspec import FsspecStore
from tensorlake.storage.stores.object_store import ObjectStore
from tensorlake.storage.stores.open import open_store
from tensorlake.types import FileView, only_regular, pread

__all__ = ["LinkStore", "LinkTarget", "reading_bases", "set_link_credentials"]

KEPT_STORES: Final = 64
FILES_IN_FLIGHT: Final = 64

T = TypeVar("T")

_credentials: dict[str, dict[str, Any]] = {}
_reads_bases: ContextVar[bool] = ContextVar("reads_bases", default=True)


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """The state of a linked file.

    Attributes:
        nbytes: Its size.
        etag: The store's tag of its content, or a local file's time of change; "" if unknown.
    """

    nbytes: int
    etag: str


def set_link_credentials(prefix: str, storage_options: Mapping[str, Any] | None) -> None:
    """Set the storage options of links to a URL and to what is below it, for this process.

    They are kept in memory only; of several prefixes the longest counts.

    Args:
        prefix: A bucket, a host or a folder of one, such as ``s3://films/``: its options are not
            used for ``s3://films-2/``.
        storage_options: Credentials and endpoint, by fsspec's key names; None forgets them.

    Example:
        >>> import tensorlake as tl
        >>> tl.set_link_credentials("s3://films/", {"anon": True})
        >>> tl.set_link_credentials("s3://films/", None)
    """
    place = place_text(prefix, what="prefix")
    check_options(storage_options)
    if "://" not in place or (storage_options is not None and not storage_options):
        raise InvalidInputError(
            f"prefix={place!r}: credentials are of the URLs that begin with it"
            '\ngive a prefix and its options: ("s3://films/", {"key": …, "secret": …})',
            argument="prefix",
        )
    folder = f"{place.rstrip('/')}/"
    if storage_options is None:
        _credentials.pop(folder, None)
    else:
        _credentials[folder] = dict(storage_options)


@contextmanager
def reading_bases(is_allowed: bool) -> Generator[None]:  # noqa: FBT001 - as contextlib's
    """Set whether datasets opened in the block read the bases of forks, as a server does.

    A fork's base is an address in its data: a server reads one only if it follows links.
    """
    token = _reads_bases.set(is_allowed)
    try:
        yield
    finally:
        _reads_bases.reset(token)


class LinkStore:
    """Reads the files that the links of a dataset name. Thread-safe.

    Args:
        base: URL of the dataset.
        options: Its storage options.

    Attributes:
        is_followed: Whether links may be read and made; a server does not follow links of clients.
        reads_bases: Whether the bases of a fork may be read.
    """

    def __init__(self, base: str, options: Mapping[str, Any] | None = None) -> None:
        self._base = base
        self._options = dict(options or {})
        self._stores: LruCache[str, tuple[Store, Mapping[str, Any] | None]] = LruCache(KEPT_STORES)
        self.is_followed = True
        self.reads_bases = _reads_bases.get()

    @classmethod
    def of(cls, store: Store) -> LinkStore:
        """Make one for the dataset in a store, with the store's credentials."""
        has_options = isinstance(store, ObjectStore | FsspecStore)
        return cls(store.url, store.storage_options if has_options else None)

    def stored_url(self, given: str | os.PathLike[str]) -> str:
        """Return the URL to store for a user's link.

        Raises:
            InvalidInputError: It has a user, a password or a query, or cannot be a path or URL.
        """
        text = place_text(given, what="a link")
        if "://" in text:
            _check_address(text)
            if split_url(text)[0] != "file" and public_url(text) != text.rstrip("/"):
                raise InvalidInputError(
                    f"a link to {public_url(text)!r} has a user, a password, a query or a fragment,"
                    " which a dataset would store\nlink the plain URL, and give credentials by"
                    " tl.set_link_credentials(prefix, storage_options)",
                    url=public_url(text),
                )
            return text
        is_path = isinstance(given, PurePath) or os.path.isabs(text)  # noqa: PTH117 - a str
        if is_path or not isinstance(given, str):
            return f"file://{quote(os.path.abspath(text))}"  # noqa: PTH100 - stays a str
        return text

    def located(self, url: str) -> str:
        """Return the URL from which a stored link is read.

        Raises:
            AccessError: It is relative, and leads out of the dataset's bucket or host.
        """
        if "://" in url:
            _check_address(url)
            return url
        scheme, separator, rest = self._base.rpartition("://")
        if not separator or scheme == "file":
            return f"{scheme}{separator}{normpath(f'{rest}/{url}')}"
        host, _, folder = rest.partition("/")
        path = normpath(f"./{folder}/{url}")
        if path == ".." or path.startswith("../"):
            raise AccessError(
                f"a link to {shown(url)} leads out of {scheme}://{host}, where the dataset is"
                "\nlink the file's whole URL",
                url=url,
            )
        return f"{scheme}://{host}/{path}"

    def absolute(self, url: str) -> str:
        """Return the URL by which a stored link leads to its file from any dataset."""
        place = self.located(url)
        return place if "://" in place else f"file://{quote(place)}"

    def dataset(self, url: str) -> Store:
        """Return the store of a dataset, such as a fork's base, by the credentials of links.

        Raises:
            AccessError: Bases are not read here.
        """
        if not self.reads_bases:
            raise AccessError(
                f"the base {url!r} of a fork is not read here: a server reads its own datasets only"
                "\nstart it with --follow-links, where all who write to it are trusted; or copy the"
                " base's data into the fork: ds.absorb()",
                url=url,
            )
        place = self.located(url)
        return open_store(place, storage_options=self._options_of(place))

    def stat(self, url: str) -> LinkTarget:
        """Look a file up.

        Raises:
            AccessError: Links are not followed here.
            FileNotFoundError: There is none.
        """
        return runtime.run(self._stat(self._allowed(url)))

    def view(self, url: str) -> tuple[FileView, LinkTarget]:
        """Look a file up, and view it: its bytes are read when they are looked at.

        Raises:
            AccessError: Links are not followed here.
            FileNotFoundError: There is none.
        """
        place = self._allowed(url)
        target = runtime.run(self._stat(place))

        def read(start: int, stop: int) -> Buffer:
            return runtime.run(self._read(place, [(start, stop)]))[0]

        return FileView(url, target.nbytes, read), target

    def read(self, url: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read byte ranges [start, stop) of a file; see `LinkOpener`."""
        return runtime.run(self._read(self._allowed(url), ranges))

    async def read_many(
        self, wanted: Sequence[tuple[str, Sequence[tuple[int, int]]]]
    ) -> list[list[Buffer] | FileNotFoundError | EOFError]:
        """Read ranges of many files on the storage loop; a file that is gone gives its error."""
        reads = [partial(self._read_or_error, self._allowed(url), rs) for url, rs in wanted]
        return await runtime.gather_bounded(reads, limit=FILES_IN_FLIGHT)

    async def _read_or_error(
        self, place: str, ranges: Sequence[tuple[int, int]]
    ) -> list[Buffer] | FileNotFoundError | EOFError:
        try:
            return await self._read(place, ranges)
        except (FileNotFoundError, EOFError) as error:
            return error

    def _allowed(self, url: str) -> str:
        if not self.is_followed:
            raise AccessError(
                f"a link to {url!r} is not followed here: a server reads its own datasets only"
                "\nstart it with --follow-links, where all who write to it are trusted; or copy"
                " the files into the dataset: ds.absorb(name)",
                url=url,
            )
        return self.located(url)

    async def _stat(self, place: str) -> LinkTarget:
        scheme, path = split_url(place)
        if scheme == "file":
            return await _in_thread(partial(_stat_file, path))
        store, name = self._store(place)
        try:
            found = await store.head(name)
        except UnsupportedStoreError as error:
            raise UnsupportedStoreError(
                f"the server of {public_url(place)!r} does not answer HEAD requests"
                f" ({error.status or 'refused'}), by which links look files up\n"
                "download the file and store it: use the linked type itself instead of tl.Link,"
                " or put it on another server",
                status=error.status,
            ) from error
        if found is None:
            raise FileNotFoundError(place)
        return LinkTarget(found.nbytes, found.etag or "")

    async def _read(self, place: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        scheme, path = split_url(place)
        if scheme == "file":
            return await _in_thread(partial(_read_file, path, ranges))
        store, name = self._store(place)
        try:
            return await store.get_ranges(name, ranges)
        except MissingObjectError as error:
            raise FileNotFoundError(place) from error
        except CorruptionError as error:  # it is shorter than the range
            raise EOFError(place) from error
        except UnsupportedStoreError as error:
            raise UnsupportedStoreError(
                f"the server of {public_url(place)!r} sends whole files only, and links are read by"
                " ranges\nstore the file: use the linked type itself instead of tl.Link, or put it"
                " on another server"
            ) from error

    def _store(self, place: str) -> tuple[Store, str]:
        folder, _, name = place.rpartition("/")
        options = self._options_of(place)
        kept = self._stores.get(folder)
        if kept is None or kept[1] != options:  # credentials may be set at any time
            kept = open_store(folder, storage_options=options), options
            self._stores.put(folder, kept)
        # addresses of the web are escaped as browsers show them, names of objects are not
        return kept[0], unquote(name) if place.startswith(("http://", "https://")) else name

    def _options_of(self, place: str) -> Mapping[str, Any] | None:
        own = [folder for folder in _credentials if f"{place}/".startswith(folder)]
        if own:
            return _credentials[max(own, key=len)]
        bucket = "/".join(place.split("/")[:3])
        is_same = "/".join(join_url(self._base, "").split("/")[:3]) == bucket
        return self._options or None if is_same else None


def _check_address(url: str) -> None:
    """Refuse a URL that names no single place.

    Raises:
        InvalidInputError: It cannot be parsed, has a segment ``..``, or is a chain of fsspec.
    """
    why = None
    try:
        path = unquote(urlsplit(url).path)
    except ValueError as error:
        why = f"cannot be parsed: {error}"
    else:
        if ".." in path.split("/"):
            why = "has a segment '..'"
        elif "::" in url and "[" not in url:
            why = "is a chain of file systems"
    if why is not None:
        raise InvalidInputError(
            f"a link to {shown(url)} {why}\ngive the plain URL of a file", url=url
        )


async def _in_thread(call: Callable[[], T]) -> T:
    """Call a function of local files in a thread.

    Raises:
        FileNotFoundError: There is no such file.
        StorageError: It is not a regular file, or cannot be read.
    """
    try:
        return await asyncio.get_running_loop().run_in_executor(None, call)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(str(error.filename)) from error
    except PermissionError as error:
        raise AccessError(
            f"may not read the linked file {error.filename!r}\ncheck its permissions"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        reason = getattr(error, "strerror", None) or str(error)
        name = getattr(error, "filename", None)
        what = "a linked file" if name is None else f"the linked file {name!r}"
        raise StorageError(f"cannot read {what}: {reason}\nlink a regular file") from error


def _stat_file(path: str) -> LinkTarget:
    descriptor = only_regular(path, os.O_RDONLY)
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return LinkTarget(found.st_size, f"{found.st_mtime_ns:x}")


def _read_file(path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
    with open(path, "rb", opener=only_regular) as file:
        return [_read_range(file.fileno(), path, start, stop) for start, stop in ranges]


def _read_range(descriptor: int, path: str, start: int, stop: int) -> bytes:
    pieces: list[bytes] = []
    while start < stop:
        piece = pread(descriptor, min(stop - start, 1 << 30), start)
        if not piece:
            raise EOFError(path)
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
