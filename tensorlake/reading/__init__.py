"""Reading versions: snapshots, selections of their rows, and the reader of samples."""

from tensorlake.reading.index.chunk_cache import ChunkCache, ChunkKey, nbytes_in_memory
from tensorlake.reading.index.extent_table import Located
from tensorlake.reading.index.index import ChunkIndex
from tensorlake.reading.reader import Reader
from tensorlake.reading.snapshot import MATERIALISED_ROWS_MAX, Selection, Snapshot, Zones

__all__ = [
    "MATERIALISED_ROWS_MAX",
    "ChunkCache",
    "ChunkIndex",
    "ChunkKey",
    "Located",
    "Reader",
    "Selection",
    "Snapshot",
    "Zones",
    "nbytes_in_memory",
]
