"""Rows that servers decode: requests, their batches on the wire, and the pass that reads them."""

from tensorlake.loader.sources.remote.mixed import (
    MixedBatches,
    SourceRows,
    SourceShare,
    listed_rows,
)
from tensorlake.loader.sources.remote.remote_pass import (
    RemotePass,
    RemoteSetup,
    SentBatches,
    checked_server,
    collated,
    presented,
)
from tensorlake.loader.sources.remote.streams import (
    BatchServer,
    Listing,
    SentBatch,
    ServerBatches,
    StreamSetup,
)

__all__ = [
    "BatchServer",
    "Listing",
    "MixedBatches",
    "RemotePass",
    "RemoteSetup",
    "SentBatch",
    "SentBatches",
    "ServerBatches",
    "SourceRows",
    "SourceShare",
    "StreamSetup",
    "checked_server",
    "collated",
    "listed_rows",
    "presented",
]
