"""Reading versions: snapshots, selections of their rows, and the reader of samples."""

from tensorlake.reading.fetch.read_ahead import ReadAhead
from tensorlake.reading.index.chunk_cache import ChunkCache, ChunkKey, nbytes_in_memory
from tensorlake.reading.index.extent_table import Located
from tensorlake.reading.index.index import ChunkIndex
from tensorlake.reading.reader import Reader
from tensorlake.reading.snapshot import MATERIALISED_ROWS_MAX, Selection, Snapshot, Zones
from tensorlake.reading.transfer import (
    column_nbytes,
    exported_type,
    read_exported,
    read_links,
    row_spans,
)

__all__ = [
    "MATERIALISED_ROWS_MAX",
    "ChunkCache",
    "ChunkIndex",
    "ChunkKey",
    "Located",
    "ReadAhead",
    "Reader",
    "Selection",
    "Snapshot",
    "Zones",
    "column_nbytes",
    "exported_type",
    "nbytes_in_memory",
    "read_exported",
    "read_links",
    "row_spans",
]
