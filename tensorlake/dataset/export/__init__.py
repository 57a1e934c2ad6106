"""Out of a dataset: into other libraries' tables and into files that others read."""

from tensorlake.dataset.export.arrays.hdf5 import to_hdf5
from tensorlake.dataset.export.arrays.numpy import to_npz, to_numpy
from tensorlake.dataset.export.arrays.zarr import to_zarr
from tensorlake.dataset.export.arrow.dataset import arrow_dataset, to_duckdb
from tensorlake.dataset.export.arrow.stream import arrow_schema, check_columns, to_arrow, to_reader
from tensorlake.dataset.export.buckets import destination
from tensorlake.dataset.export.coco import to_coco
from tensorlake.dataset.export.croissant import to_croissant
from tensorlake.dataset.export.destinations import check_outside
from tensorlake.dataset.export.huggingface import to_hf
from tensorlake.dataset.export.lerobot import to_lerobot
from tensorlake.dataset.export.pandas import to_pandas
from tensorlake.dataset.export.parquet import to_parquet
from tensorlake.dataset.export.plug_ins import exporter
from tensorlake.dataset.export.records.litdata import to_litdata
from tensorlake.dataset.export.records.mds import to_mds
from tensorlake.dataset.export.records.tfrecord import to_tfrecord
from tensorlake.dataset.export.records.webdataset import (
    to_webdataset,
)
from tensorlake.dataset.export.text import to_csv, to_jsonl

__all__ = [
    "arrow_dataset",
    "arrow_schema",
    "check_columns",
    "check_outside",
    "destination",
    "exporter",
    "to_arrow",
    "to_coco",
    "to_croissant",
    "to_csv",
    "to_duckdb",
    "to_hdf5",
    "to_hf",
    "to_jsonl",
    "to_lerobot",
    "to_litdata",
    "to_mds",
    "to_npz",
    "to_numpy",
    "to_pandas",
    "to_parquet",
    "to_reader",
    "to_tfrecord",
    "to_webdataset",
    "to_zarr",
]
