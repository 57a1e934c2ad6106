"""Out of a dataset: into other libraries' tables and into files that others read."""

from tensorlake.dataset.export.arrow_columns import TYPE_KEY, arrow_type
from tensorlake.dataset.export.arrow_dataset import arrow_dataset, to_duckdb
from tensorlake.dataset.export.arrow_stream import arrow_schema, check_columns, to_arrow, to_reader
from tensorlake.dataset.export.coco import to_coco
from tensorlake.dataset.export.frames import to_pandas
from tensorlake.dataset.export.mds import to_mds
from tensorlake.dataset.export.parquet import to_parquet
from tensorlake.dataset.export.webdataset import to_webdataset

__all__ = [
    "TYPE_KEY",
    "arrow_dataset",
    "arrow_schema",
    "arrow_type",
    "check_columns",
    "to_arrow",
    "to_coco",
    "to_duckdb",
    "to_mds",
    "to_pandas",
    "to_parquet",
    "to_reader",
    "to_webdataset",
]
