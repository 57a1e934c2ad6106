"""Shards of rows with a table of offsets, as MDS and LitData have them.

    shard   rows u32 · offsets u32 (rows + 1), from the start of the file · header · row 0 · …
    row     sizes u32, of the columns whose size varies · values, one after another

Numbers are little-endian. Neither format has NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.core.indexing import not_null
from tensorlake.dataset.export.files import stored_rows
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.types import SampleType

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["ShardColumn", "shards_of", "unsupported", "write_shard"]

_U32 = np.dtype("<u4")
_SHARD_NBYTES_MAX = (1 << 32) - 1  # offsets are u32


@dataclass(frozen=True, slots=True)
class ShardColumn:
    """How one tensor is written.

    Attributes:
        name: Its name.
        encoding: The format's name of the encoding.
        nbytes: Bytes of each value, where rows do not say it.
        encode: From a value to its bytes.
    """

    name: str
    encoding: str
    nbytes: int | None
    encode: Callable[[Any], bytes]


def shards_of(
    view: RowSet, columns: Sequence[ShardColumn], shard_nbytes: int, format_name: str
) -> Iterator[list[bytes]]:
    """Yield the encoded rows of each shard, of about ``shard_nbytes``; one shard at least.

    Raises:
        InvalidInputError: A value is NULL, or a shard would be larger than 4 GiB.
    """
    if not 0 < shard_nbytes <= _SHARD_NBYTES_MAX:
        message = f"a shard of {shard_nbytes:,} bytes\ngive at most 4GiB: offsets have 32 bits"
        raise InvalidInputError(message, actual=shard_nbytes)
    rows: list[bytes] = []
    nbytes = number = 0
    for row, values in enumerate(stored_rows(view, [one.name for one in columns])):
        encoded = _row(columns, values, row, format_name)
        if rows and nbytes + len(encoded) > shard_nbytes:
            yield rows
            number += 1
            rows, nbytes = [], 0
        rows.append(encoded)
        nbytes += len(encoded) + _U32.itemsize
    if rows or not number:
        yield rows


def _row(columns: Sequence[ShardColumn], values: dict[str, Any], row: int, name: str) -> bytes:
    encoded: list[bytes] = []
    for column in columns:
        value = values[column.name]
        if value is None:
            raise InvalidInputError(
                f"row {row} of {column.name!r} is NULL, which {name} does not support"
                f"\nwrite rows that have it: ds.where({not_null(column.name)}), or leave the"
                " tensor out: columns=[…]",
                tensor=column.name,
                row=row,
            )
        encoded.append(column.encode(value))
    varying = [len(one) for one, how in zip(encoded, columns, strict=True) if how.nbytes is None]
    return np.array(varying, dtype=_U32).tobytes() + b"".join(encoded)


def write_shard(path: Path, rows: Sequence[bytes], header: bytes, format_name: str) -> int:
    """Write a shard; return its size in bytes."""
    begin = _U32.itemsize * (2 + len(rows)) + len(header)
    offsets = begin + np.cumsum([0, *map(len, rows)])
    nbytes = int(offsets[-1])
    if nbytes > _SHARD_NBYTES_MAX:
        message = f"a row takes {nbytes:,} bytes, and a shard of {format_name} has at most 4 GiB"
        raise UnsupportedFeatureError(message, actual=nbytes)
    with path.open("wb") as shard:
        shard.write(np.array(len(rows), dtype=_U32).tobytes())
        shard.write(offsets.astype(_U32).tobytes())
        shard.write(header)
        shard.writelines(rows)
    return nbytes


def unsupported(name: str, sample_type: SampleType, format_name: str) -> UnsupportedFeatureError:
    """Return the error for a tensor that the format has no encoding for."""
    return UnsupportedFeatureError(
        f"{format_name} does not support {name!r} ({sample_type.describe()})"
        "\nleave it out: columns=[…]",
        tensor=name,
    )
