"""Bodies of exports."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tensorlake_server.messages.messages import Message
from tensorlake_server.messages.row_request import AskedRows, Name

__all__ = ["ExportInfo", "ExportRequest"]


class ExportRequest(AskedRows):
    """Rows, and the format of the file: a format of many files is one ZIP file."""

    format: Literal[
        "parquet", "csv", "jsonl", "hdf5",
        "coco", "litdata", "mds", "tfrecord", "webdataset", "zarr",
    ]  # fmt: skip
    columns: Annotated[list[Name], Field(fail_fast=True)] | None = None


class ExportInfo(Message):
    """A file that was written; ``url`` is where to download it until it ``expires``."""

    id: str
    url: str
    file: str
    format: str
    version: str
    rows: int
    nbytes: int
    expires: str
