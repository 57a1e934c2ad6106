"""Exports to other libraries and to files, as methods of Dataset and View."""

from tensorlake.dataset.handles.exporting.files import (
    to_coco,
    to_croissant,
    to_csv,
    to_hdf5,
    to_jsonl,
    to_lerobot,
    to_litdata,
    to_mds,
    to_parquet,
    to_tfrecord,
    to_webdataset,
)
from tensorlake.dataset.handles.exporting.libraries import (
    arrow_dataset,
    arrow_schema,
    arrow_stream,
    to_arrow,
    to_duckdb,
    to_hf,
    to_numpy,
    to_pandas,
    to_zarr,
)

__all__ = [
    "arrow_dataset",
    "arrow_schema",
    "arrow_stream",
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
    "to_numpy",
    "to_pandas",
    "to_parquet",
    "to_tfrecord",
    "to_webdataset",
    "to_zarr",
]
