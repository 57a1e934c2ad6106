"""Ingestion: from the files people have to a dataset, committed, restartable.

Every function takes its sources first and the destination last, commits by itself, and returns the
dataset with ``ds.ingest_report``. The same call after a kill continues where the last commit
stands: each batch of source files has a key, and a key is never committed twice.
"""

from tensorlake.dataset.ingest.arrays import huggingface, numpy, torch
from tensorlake.dataset.ingest.coco import coco
from tensorlake.dataset.ingest.idx import idx
from tensorlake.dataset.ingest.images import images
from tensorlake.dataset.ingest.report import IngestReport, SkippedItem
from tensorlake.dataset.ingest.tables import arrow, parquet
from tensorlake.dataset.ingest.text_tables import csv, jsonl
from tensorlake.dataset.ingest.voc import voc
from tensorlake.dataset.ingest.webdataset import webdataset
from tensorlake.dataset.ingest.yolo import yolo

__all__ = [
    "IngestReport",
    "SkippedItem",
    "arrow",
    "coco",
    "csv",
    "huggingface",
    "idx",
    "images",
    "jsonl",
    "numpy",
    "parquet",
    "torch",
    "voc",
    "webdataset",
    "yolo",
]
