"""Reading versions: snapshots, selections of their rows, and the reader of samples."""

from tensorlake.reading.index.chunk_cache import ChunkCache, ChunkKey
from tensorlake.reading.index.extent_table import Located
from tensorlake.reading.index.index import ChunkIndex
from tensorlake.reading.index.row_map import MATERIALISED_ROWS_MAX
from tensorlake.reading.reader import Reader
from tensorlake.reading.selection import Selection
from tensorlake.reading.snapshot import Snapshot, Zones

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
]
