"""Ingestion: from the files people have to a dataset, committed, restartable.

Every function takes its sources first and the destination last, commits by itself, and returns the
dataset with ``ds.ingest_report``. The same call after a kill continues where the last commit
stands: each batch of source files has a key, and a key is never committed twice.
"""

from tensorlake.dataset.ingest.coco import coco
from tensorlake.dataset.ingest.idx import idx
from tensorlake.dataset.ingest.images import images
from tensorlake.dataset.ingest.run import IngestReport, SkippedItem

__all__ = ["IngestReport", "SkippedItem", "coco", "idx", "images"]
