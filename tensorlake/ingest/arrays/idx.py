"""IDX files, the format of MNIST: one array per file, big-endian, often gzipped.

http://yann.lecun.com/exdb/mnist/: two zero bytes, a dtype code, the number of axes, a u32 length of
each axis, then the elements in C order.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from tensorlake.dataset import Dataset
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.arrays.arrays import rows_hash
from tensorlake.ingest.engine.found_files import full_place, source_path
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.ingest.engine.source import Source, given_settings
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.storage import public_url
from tensorlake.types import Array, ClassLabel, Scalar

__all__ = ["idx"]

DTYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
GZIP_MAGIC = b"\x1f\x8b"
HEADER_NBYTES = 4
LABELS_MAX = 1000
"""Integers from 0 up to this are taken for classes named "0", "1", …"""


@shows_options
def idx(
    images: str | PathLike[str],
    labels: str | PathLike[str] | None,
    dst: str | PathLike[str],
    *,
    names: Sequence[str] | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest IDX arrays, as MNIST is published: ``image`` and ``label``.

    Args:
        images: The file of samples, gzipped or not; a path or URL.
        labels: The file of integers, one a sample; None for none.
        dst: Path or URL of the dataset.
        names: Class names by code; default "0", "1", ….
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: A file is not IDX, is cut short, or the two differ in length.

    Example:
        >>> from pathlib import Path
        >>> import tensorlake as tl
        >>> _ = Path("x.idx").write_bytes(bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9]))
        >>> tl.ingest.idx("x.idx", None, "memory://doc-idx")["image"][:]
        array([[7, 8, 9]], dtype=uint8)
    """
    files = SourceFiles(options.get("storage_options"))
    samples = read_idx(source_path(images), files)
    columns: dict[str, np.ndarray] = {"image": samples}
    schema: dict[str, Any] = {"image": _sample_type(samples)}
    if labels is not None:
        codes = read_idx(source_path(labels), files)
        if len(codes) != len(samples) or codes.ndim != 1:
            raise InvalidInputError(
                f"{public_url(str(labels))!r} holds {codes.shape} values for the {len(samples)}"
                f" samples of {public_url(str(images))!r}; give one label for each sample"
            )
        columns["label"] = codes.astype(np.int64)
        schema["label"] = ClassLabel(_class_names(codes, names))
    source = Source(
        kind="idx",
        schema=schema,
        items=range(len(samples)),
        sizes=[samples[:1].nbytes] * len(samples),
        name=lambda row: f"{Path(images).name}[{row}]",
        load=lambda rows: {name: column[np.asarray(rows)] for name, column in columns.items()},
        file=lambda _: Path(images).name,
        by_position=True,
        fingerprint=lambda rows: rows_hash(columns, rows),
        where=full_place(images),
        settings=given_settings(None, names=None if names is None else [*names]),
    )
    return run_ingest(source, dst, **options)


def read_idx(file: str, files: SourceFiles) -> np.ndarray:
    """Read one IDX file into an array of the machine's byte order."""
    data = files.content(file)
    try:
        data = gzip.decompress(data) if data[:2] == GZIP_MAGIC else data
    except (EOFError, OSError) as error:
        raise _damaged(file, f"its compression is damaged ({error})") from error
    if len(data) < HEADER_NBYTES or data[:2] != b"\0\0" or data[2] not in DTYPES:
        raise _damaged(file, "it does not begin as an IDX file")
    dtype, ndim = np.dtype(DTYPES[data[2]]), data[3]
    start = HEADER_NBYTES + 4 * ndim
    if ndim == 0 or len(data) < start:
        raise _damaged(file, "its header is cut short")
    shape = tuple(np.frombuffer(data, ">u4", ndim, HEADER_NBYTES).tolist())
    if len(data) - start != math.prod(shape) * dtype.itemsize:
        raise _damaged(
            file,
            f"{len(data) - start:,} bytes of elements where {shape} of {dtype.name} takes"
            f" {math.prod(shape) * dtype.itemsize:,}",
        )
    return np.frombuffer(data, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def _sample_type(samples: np.ndarray) -> Any:
    if samples.ndim == 1:
        return Scalar(samples.dtype.name)
    return Array(samples.dtype.name, samples.shape[1:])


def _class_names(codes: np.ndarray, names: Sequence[str] | None) -> list[str]:
    low, high = (int(codes.min()), int(codes.max())) if len(codes) else (0, 0)
    if low < 0 or high >= LABELS_MAX:
        raise InvalidInputError(
            f"labels must be class codes from 0 to {LABELS_MAX - 1}, got {low} to {high}"
        )
    if names is not None and len(names) <= high:
        raise InvalidInputError(f"{len(names)} names for class codes up to {high}; name every code")
    return list(names) if names is not None else [str(code) for code in range(high + 1)]


def _damaged(file: str, why: str) -> InvalidInputError:
    shown = public_url(file)
    return InvalidInputError(f"{shown!r} cannot be ingested: {why}", src=shown)
