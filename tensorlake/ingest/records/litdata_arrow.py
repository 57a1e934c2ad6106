"""LitData's chunks of plain values: the rows are a file of Arrow behind the table of offsets.

    rows u32 · offsets u32 (rows + 1), all alike · Arrow IPC · its bytes u32 · `MAGIC`

LitData (0.2.76) writes them where a sample has numbers, texts and bytes alone. Columns are
the members of a sample, and dicts in it are structs. Other chunks are read by offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.records.parts import FieldParts
from tensorlake.ingest.records.shards import Shard, ShardReader
from tensorlake.storage import public_url

__all__ = ["ArrowRows"]

Arrow = Any  # pyarrow ships no types

MAGIC = b"LDARW01\0"
TAIL_NBYTES = 4 + len(MAGIC)

CHUNKS_IN_MEMORY = 4


class ArrowRows:
    """Reads the rows of chunks, whichever of the two forms they have.

    Args:
        files: Opens the files.
        reader: Reads chunks by offsets.
        paths: The keys that lead to each leaf of a sample; none for a sample that is one value.
    """

    def __init__(
        self, files: SourceFiles, reader: ShardReader, paths: Sequence[Sequence[str]]
    ) -> None:
        self._files, self._reader, self._paths = files, reader, paths
        self._opened = lru_cache(CHUNKS_IN_MEMORY)(self._open)

    def rows(self, shard: Shard, start: int, stop: int) -> Iterator[list[Any] | str]:
        """Yield rows [start, stop): the bytes of each field, or its value where it is one of Arrow.

        Raises:
            InvalidInputError: The chunk is damaged.
        """
        columns = self._opened(shard)
        if columns is None:
            yield from self._reader.rows(shard, start, stop)
            return
        parts = [one.slice(start, stop - start).to_pylist() for one in columns]
        yield from (list(row) for row in zip(*parts, strict=True))

    def columns(self, shard: Shard, start: int, stop: int) -> Sequence[FieldParts | Any] | None:
        """Return the fields of rows [start, stop), or their values; None where one is damaged."""
        columns = self._opened(shard)
        if columns is None:
            return self._reader.columns(shard, start, stop)
        return [_values(one.slice(start, stop - start)) for one in columns]

    def _open(self, shard: Shard) -> list[Arrow] | None:
        """Return the leaves of a chunk as columns; None where it is not Arrow."""
        import pyarrow as pa

        if not self._is_arrow(shard):
            return None
        place = public_url(shard.path)
        content = self._files.content(shard.path)
        nbytes = int.from_bytes(content[-TAIL_NBYTES : -len(MAGIC)], "little")
        start = len(content) - TAIL_NBYTES - nbytes
        try:
            if start < 0:
                raise ValueError("it is cut off")  # noqa: TRY301 - told below
            source = pa.py_buffer(memoryview(content)[start : len(content) - TAIL_NBYTES])
            table = pa.ipc.open_file(source).read_all()
            table.validate(full=True)
            columns = [_leaf(table, path) for path in self._paths]
        except (pa.ArrowException, ValueError, KeyError, OSError, MemoryError) as error:
            message = f"{place!r} is damaged: {error}"
            raise InvalidInputError(message, src=place) from error
        if table.num_rows != shard.rows:
            message = f"{place!r} is damaged: it has {table.num_rows:,} rows, not {shard.rows:,}"
            raise InvalidInputError(message, src=place)
        return columns

    def _is_arrow(self, shard: Shard) -> bool:
        """Whether no row has bytes, and a file of Arrow ends the chunk."""
        if shard.codec is not None:
            return False
        size = self._files.nbytes(shard.path) or 0
        with self._files.open(shard.path) as file:
            file.seek(max(0, size - TAIL_NBYTES))
            if file.read(TAIL_NBYTES)[4:] != MAGIC:
                return False
            file.seek(4)
            offsets = np.frombuffer(file.read(4 * (shard.rows + 1)), "<u4")
        return len(offsets) == shard.rows + 1 and bool((offsets == offsets[0]).all())


def _values(column: Arrow) -> Any:
    import pyarrow as pa

    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    return column.to_numpy() if is_number and not column.null_count else column.to_pylist()


def _leaf(table: Arrow, path: Sequence[str]) -> Arrow:
    """Return the column of a leaf; ValueError where there is none."""
    import pyarrow as pa
    from pyarrow import compute

    functions: Any = compute
    if not path or path[0] not in table.column_names:
        raise ValueError(f"it has no column {'/'.join(path)!r}")
    column = table.column(path[0])
    for key in path[1:]:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(key) < 0:
            raise ValueError(f"it has no column {'/'.join(path)!r}")
        column = functions.struct_field(column, key)
    return column
