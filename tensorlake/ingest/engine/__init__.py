"""The engine of every importer: sources, the ledger, comparison, read-ahead, commits.

An importer of a package of its own describes its source by a `Source`, and calls `run_ingest`.
"""

from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.ingest.engine.source import LoadedRows, Source, given_settings
from tensorlake.ingest.engine.source_files import SourceFiles

__all__ = [
    "IngestOptions",
    "LoadedRows",
    "Source",
    "SourceFiles",
    "given_settings",
    "run_ingest",
    "shows_options",
]
