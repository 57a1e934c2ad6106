"""Zarr, version 2 and 3: the arrays of a group become tensors, their first axis the rows.

Groups of a store are read by zarr's own code through `_Files`, one object or range of it at a time;
codecs that unpickle are refused before anything is decoded.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, Unpack

import numpy as np
from xxhash import xxh3_64_hexdigest

from tensorlake.dataset import TYPE_ATTRIBUTE, Dataset
from tensorlake.errors import InvalidInputError, missing_extra
from tensorlake.ingest.arrays.array_files import ingest_array_files
from tensorlake.ingest.arrays.columns import OpenArrays, StoredArray
from tensorlake.ingest.engine.found_files import source_path
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.storage import public_url

__all__ = ["zarr"]

METADATA = ("zarr.json", ".zarray", ".zgroup")

METADATA_NBYTES_MAX = 16 << 20
"""Size of the metadata of one array or group."""

PROMISED_MIN_NBYTES = 1 << 30
PROMISED_MAX_RATIO = 10_000
"""Elements that an array may promise for each byte of its chunks: others are fill values."""


@shows_options
def zarr(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    schema: Mapping[str, Any] | None = None,
    key: str | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a Zarr group, version 2 or 3: each array a tensor, its first axis the rows.

    Arrays in groups are named by their paths, ``train/x``; an array that is not in a group is the
    tensor ``data``. Groups written by ``to_zarr`` are restored to the same tensors.

    Args:
        src: A folder, by path or URL.
        dst: Path or URL of the dataset.
        columns: Only these arrays: those with the same number of rows.
        schema: Types by array; they override the inferred ones.
        key: The array whose value names a row; None: rows are known by position, so that a later
            call may find more of them at the end, and nothing else may have changed.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: It is not Zarr, or damaged; arrays have different numbers of rows, or
            elements of which there is no tensor; the message names the array.
        MissingExtraError: ``zarr`` is not installed.

    Example:
        >>> import zarr
        >>> import tensorlake as tl
        >>> group = zarr.create_group("x.zarr")
        >>> _ = group.create_array("x", data=np.array([[1, 2], [3, 4]]))
        >>> tl.ingest.zarr("x.zarr", "memory://doc-zarr")["x"][1]
        array([3, 4])
    """
    try:
        import zarr as library
    except ImportError as error:
        raise missing_extra("ingest.zarr()", "zarr") from error
    files = SourceFiles(options.get("storage_options"))
    path = source_path(src).rstrip("/")
    place = public_url(path)
    found = files.below(path)
    if not any(f"{path}/{name}" in found for name in METADATA):
        raise InvalidInputError(
            f"{place!r} is not a Zarr array or group: it has none of {', '.join(METADATA)}"
            "\ngive the folder of the array or group",
            src=place,
        )
    stored = _Stored(library, path, place, files, found)
    return ingest_array_files(
        "zarr",
        [path],
        lambda _: stored.opened(),
        dst,
        options,
        files=files,
        src=src,
        columns=columns,
        schema=schema,
        key=key,
        stamp=lambda _: stored.stamp(),
    )


class _Stored:
    """The files of an array or group.

    Args:
        library: zarr-python.
        path: Folder of the files.
        place: The folder, for errors.
        files: Opens files.
        found: Sizes of the files, by path.
    """

    def __init__(
        self, library: Any, path: str, place: str, files: SourceFiles, found: Mapping[str, int]
    ) -> None:
        self._library, self._place = library, place
        self._path, self._files, self._found = path, files, found
        self._store = _store_class(library)(files, path, found)
        self._opened: OpenArrays | None = None

    def stamp(self) -> str:
        """Return a string that changes with any file."""
        named = (f"{path}\0{self._files.stamp(path)}\0" for path in self._found)
        return xxh3_64_hexdigest("".join(named).encode(errors="surrogateescape"))

    @contextmanager
    def opened(self) -> Generator[OpenArrays]:
        """Yield the arrays, whose chunks are read when they are asked for, in any thread."""
        if self._opened is None:
            self._opened = self._arrays()
        yield self._opened

    def _arrays(self) -> OpenArrays:
        arrays: dict[str, StoredArray] = {}
        types: dict[str, Any] = {}
        strange: dict[str, str] = {}
        for name, member in self._members().items():
            if isinstance(member, str):
                strange[name] = member
                continue
            if TYPE_ATTRIBUTE in member.attrs:
                types[name] = member.attrs[TYPE_ATTRIBUTE]
            if isinstance(member, self._library.Array):
                arrays[name] = _array(member)
        return OpenArrays(self._place, arrays, types, strange)

    def _members(self) -> dict[str, Any]:
        """Return arrays and groups by path; the reason instead of one that cannot be opened."""
        found: dict[str, Any] = {}
        start = len(self._path) + 1
        for path in self._found:
            folder, _, last = path[start:].rpartition("/")
            if last not in METADATA or (not folder and last == ".zgroup"):
                continue
            why = self._why_not(path, folder)
            if why is not None:
                found[folder or "data"] = why
                continue
            try:
                member = self._library.open(store=self._store, path=folder, mode="r")
            except Exception as error:  # noqa: BLE001 - of zarr and codecs: no common class
                found[folder or "data"] = f"cannot be opened: {error or type(error).__name__}"
                continue
            if folder or isinstance(member, self._library.Array):
                found[folder or "data"] = member
        return found

    def _why_not(self, path: str, folder: str) -> str | None:
        """Return why an array is not opened; None if it is."""
        if self._found[path] > METADATA_NBYTES_MAX:
            return f"has metadata of {self._found[path]:,} bytes"
        try:
            described = json.loads(self._files.content(path))
            if "shape" not in described:
                return None
            codecs = [
                described.get("compressor") or {},
                *(described.get("filters") or ()),
                *(described.get("codecs") or ()),
            ]
            names = [str(one.get("id", one.get("name", ""))) for one in codecs]
            shape = [int(one) for one in described["shape"]]
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            return f"has damaged metadata: {error}"
        if any("pickle" in one for one in names):
            return "holds Python objects, and unpickling them could run any code"
        folder_path = f"{self._path}/{folder}/" if folder else f"{self._path}/"
        stored = sum(size for one, size in self._found.items() if one.startswith(folder_path))
        if math.prod(shape) > max(PROMISED_MIN_NBYTES, PROMISED_MAX_RATIO * stored):
            return f"promises {math.prod(shape):,} elements, of which there are {stored:,} bytes"
        return None


def _array(array: Any) -> StoredArray:
    dtype = np.dtype(array.dtype)
    is_text = dtype.kind in "OT"  # zarr has objects of text alone: others were refused
    return StoredArray(
        shape=tuple(array.shape),
        dtype=np.dtype("O") if is_text else dtype,
        read=lambda start, stop: np.asarray(array[start:stop]),
        items="str" if is_text else None,
        chunk=tuple(array.chunks),
    )


def _store_class(library: Any) -> Any:
    """Return the class by which zarr reads files: it derives from a class of zarr."""
    base: Any = library.abc.store.Store
    requests: Any = library.abc.store

    class _Files(base):
        """Files as a store of zarr, read only."""

        supports_writes = supports_deletes = supports_partial_writes = False
        supports_listing = True

        def __init__(self, files: SourceFiles, folder: str, found: Mapping[str, int]) -> None:
            super().__init__(read_only=True)
            self._files, self._folder, self._found = files, folder, found

        def __eq__(self, other: object) -> bool:
            return self is other

        def __hash__(self) -> int:
            return id(self)

        async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
            path = f"{self._folder}/{key}"
            size = self._found.get(path)
            if size is None:
                return None
            match byte_range:
                case None:
                    start, stop = 0, size
                case requests.RangeByteRequest():
                    start, stop = byte_range.start, byte_range.end
                case requests.OffsetByteRequest():
                    start, stop = byte_range.offset, size
                case _:
                    start, stop = max(0, size - byte_range.suffix), size
            content = await asyncio.to_thread(self._read, path, start, stop)
            return prototype.buffer.from_bytes(content)

        def _read(self, path: str, start: int, stop: int) -> bytes:
            if (start, stop) == (0, self._found[path]):
                return self._files.content(path)
            with self._files.open(path) as file:
                file.seek(start)
                return file.read(max(0, stop - start))

        async def get_partial_values(
            self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]
        ) -> list[Any]:
            return [await self.get(key, prototype, one) for key, one in key_ranges]

        async def exists(self, key: str) -> bool:
            return f"{self._folder}/{key}" in self._found

        async def set(self, key: str, value: Any) -> None:
            raise NotImplementedError(key)

        async def delete(self, key: str) -> None:
            raise NotImplementedError(key)

        async def list(self) -> AsyncIterator[str]:
            for path in self._found:
                yield path[len(self._folder) + 1 :]

        async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
            async for name in self.list():
                if name.startswith(prefix):
                    yield name

        async def list_dir(self, prefix: str) -> AsyncIterator[str]:
            start = f"{prefix.rstrip('/')}/" if prefix else ""
            seen = set[str]()
            async for name in self.list_prefix(start):
                first = name[len(start) :].partition("/")[0]
                if first not in seen:
                    seen.add(first)
                    yield first

    return _Files
