"""HDF5 files: arrays whose first axis is the rows become tensors.

Links to other files, arrays kept in other files, and virtual arrays are refused: a file that was
received from elsewhere could name any file of this machine.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from os import PathLike
from typing import Any, Unpack

import numpy as np

from tensorlake.dataset import TYPE_ATTRIBUTE, Dataset
from tensorlake.errors import InvalidInputError, missing_extra
from tensorlake.ingest.arrays.array_files import ingest_array_files
from tensorlake.ingest.arrays.columns import OpenArrays, StoredArray
from tensorlake.ingest.engine.found_files import find_files
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.source_files import SourceFiles, is_url
from tensorlake.storage import public_url

__all__ = ["hdf5"]

ENDINGS = (".h5", ".hdf5", ".hdf", ".he5")
DEPTH_MAX = 32
"""Depth of nested groups: a hard link may lead back to a group above it."""

ARRAYS_MAX = 10_000

PROMISED_MIN_NBYTES = 1 << 30
PROMISED_MAX_RATIO = 10_000
"""Bytes that an array may promise for each byte of the file, beyond a GiB: others are fill values,
and gzip's best is 1,032."""


@shows_options
def hdf5(
    src: str | PathLike[str] | Sequence[str | PathLike[str]],
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    schema: Mapping[str, Any] | None = None,
    key: str | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest HDF5 files: each array a tensor, its first axis the rows.

    Arrays in groups are named by their paths, ``train/x``; a soft link within the file is read
    where ``columns`` names it. Strings become text, arrays of any
    length stay such, an enumeration of 0, 1, … becomes a ClassLabel. Files written by ``to_hdf5``
    are restored to the same tensors.

    Args:
        src: A file, a folder (its files ``.h5``, ``.hdf5``, ``.hdf``, ``.he5``), a pattern, or a
            list of files, which have the same arrays.
        dst: Path or URL of the dataset.
        columns: Only these arrays: those with the same number of rows.
        schema: Types by array; they override the inferred ones.
        key: The array whose value names a row; None: rows are known by position, so that a later
            call may find more of them at the end, and nothing else may have changed.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: A file is not HDF5, or damaged; arrays have different numbers of rows, or
            elements of which there is no tensor; the message names the array.
        MissingExtraError: ``h5py`` is not installed.

    Example:
        >>> import h5py
        >>> import tensorlake as tl
        >>> with h5py.File("x.h5", "w") as file:
        ...     file["x"] = [[1, 2], [3, 4]]
        >>> tl.ingest.hdf5("x.h5", "memory://doc-hdf5")["x"][1]
        array([3, 4])
    """
    try:
        h5py: Any = import_module("h5py")  # its types are partial
    except ImportError as error:
        raise missing_extra("ingest.hdf5()", "hdf5") from error
    files = SourceFiles(options.get("storage_options"))
    paths = _paths(src, files)
    only = None if columns is None or isinstance(columns, str) else [*columns]
    return ingest_array_files(
        "hdf5",
        paths,
        lambda path: _opened(h5py, path, files, only),
        dst,
        options,
        files=files,
        src=src,
        columns=columns,
        schema=schema,
        key=key,
    )


def _paths(
    src: str | PathLike[str] | Sequence[str | PathLike[str]], files: SourceFiles
) -> list[str]:
    """List the files; of a folder those with an ending of HDF5."""
    found = find_files(src, "", files)
    named = [path for path in found if path.lower().endswith(ENDINGS)]
    return named or found


@contextmanager
def _opened(
    h5py: Any, path: str, files: SourceFiles, only: Sequence[str] | None
) -> Generator[OpenArrays]:
    place = public_url(path)
    with files.open(path) if is_url(path) else nullcontext(path) as content:
        try:
            # Without a cache: each chunk is read once, whole
            file = h5py.File(content, "r", rdcc_nbytes=0)
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            message = f"{place!r} is not HDF5, or damaged: {error}"
            raise InvalidInputError(message, src=place) from error
        with file:
            try:
                yield _arrays(h5py, file, place, only)
            except (OSError, RuntimeError, KeyError) as error:  # of h5py, where a header is damaged
                raise InvalidInputError(f"{place!r} is damaged: {error}", src=place) from error


def _arrays(h5py: Any, file: Any, place: str, only: Sequence[str] | None) -> OpenArrays:
    arrays: dict[str, StoredArray] = {}
    types: dict[str, Any] = {}
    strange: dict[str, str] = {}
    for name, one in _found(h5py, file, only):
        if len(arrays) + len(strange) >= ARRAYS_MAX:
            message = f"{place!r} has more than {ARRAYS_MAX:,} arrays\ngive columns=[…]"
            raise InvalidInputError(message, src=place)
        if isinstance(one, str):
            strange[name] = one
            continue
        if TYPE_ATTRIBUTE in one.attrs:
            types[name] = one.attrs[TYPE_ATTRIBUTE]
        if not isinstance(one, h5py.Dataset):
            continue
        why = _why_not(h5py, one)
        if why is None:
            arrays[name] = _array(h5py, one)
        else:
            strange[name] = why
    return OpenArrays(place, arrays, types, strange)


def _found(h5py: Any, file: Any, only: Sequence[str] | None) -> Iterator[tuple[str, Any]]:
    """Yield the arrays and groups of some names, or else, and if one is not there, all of them."""
    named = [] if only is None else [(name, _at(h5py, file, name)) for name in only]
    if only is None or any(one is None for _, one in named):
        yield from _members(h5py, file, "")
    for name, one in named:
        if one is not None:
            yield name, one
        if isinstance(one, h5py.Group):
            yield from _members(h5py, one, f"{name}/")


def _at(h5py: Any, file: Any, name: str) -> Any:
    """Return what a path leads to, also by soft links; a text where it leaves the file."""
    place, rest, links = file, [*name.split("/")], 0
    while rest:
        first = rest.pop(0)
        if not isinstance(place, h5py.Group) or (first and first not in {*place}):
            return None
        link: Any = place.get(first, getlink=True) if first else None
        if isinstance(link, h5py.ExternalLink):
            return "is a link to another file"
        if isinstance(link, h5py.SoftLink):
            links += 1
            if links > DEPTH_MAX:
                return "is a link that leads back to itself"
            start = file if link.path.startswith("/") else place
            place, rest = start, [*link.path.strip("/").split("/"), *rest]
        elif first and first != ".":
            place = place.get(first)
    return place


def _members(h5py: Any, group: Any, start: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield arrays and groups below a group by path; a text where one cannot be followed."""
    for name in group:
        path = f"{start}{name}"
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            yield path, "is a link to another file"
            continue
        if isinstance(link, h5py.SoftLink):
            continue  # another name of what is there; `_at` follows it
        one = group.get(name)
        if isinstance(one, h5py.Group):
            if depth >= DEPTH_MAX:
                yield path, f"is below {DEPTH_MAX} groups"
                continue
            yield path, one
            yield from _members(h5py, one, f"{path}/", depth + 1)
        elif isinstance(one, h5py.Dataset):
            yield path, one


def _why_not(h5py: Any, array: Any) -> str | None:
    """Return why an array cannot be read; None if it can."""
    if array.is_virtual or array.external:
        return "is kept in other files"
    if array.shape is None:
        return "is empty, without a shape"
    if h5py.check_ref_dtype(array.dtype) is not None:
        return "has references"
    promised = math.prod(array.shape) * array.dtype.itemsize
    stored = max(1, array.id.get_storage_size())
    if promised > PROMISED_MIN_NBYTES and promised > PROMISED_MAX_RATIO * stored:
        return f"promises {promised:,} bytes, of which the file has {stored:,}"
    return None


def _array(h5py: Any, array: Any) -> StoredArray:
    items: np.dtype | str | None = None
    names: tuple[str, ...] | None = None
    if h5py.check_string_dtype(array.dtype) is not None:
        items = "str"
    elif (inner := h5py.check_vlen_dtype(array.dtype)) is not None:
        items = np.dtype(inner)
    elif (values := h5py.check_enum_dtype(array.dtype)) is not None:
        by_code = {int(code): name for name, code in values.items()}
        if sorted(by_code) == [*range(len(values))]:
            names = tuple(by_code[code] for code in range(len(values)))
    return StoredArray(
        shape=array.shape,
        dtype=array.dtype,
        read=lambda start, stop: array[start:stop],
        items=items,
        names=names,
        chunk=array.chunks,
    )
