"""Ingestion of files into a dataset: committed in batches, restartable.

Every function takes its sources first and the destination last, commits the result, and returns
the dataset with ``ds.ingest_report``. Repeating a call after a crash continues after the last
commit, and adds nothing if the ingestion was complete. Each commit records its source: a call with
a different or changed source, or with other arguments, raises an error unless ``mode="append"``;
appending items that the dataset already contains raises an error, too.
"""

from typing import TYPE_CHECKING, Any

from tensorlake.dataset import IngestReport, SkippedItem
from tensorlake.errors import no_such_name
from tensorlake.ingest.arrays.arrays import numpy, torch
from tensorlake.ingest.arrays.hdf5 import hdf5
from tensorlake.ingest.arrays.huggingface import huggingface
from tensorlake.ingest.arrays.idx import idx
from tensorlake.ingest.arrays.zarr import zarr
from tensorlake.ingest.engine.options import IngestOptions
from tensorlake.ingest.media.audio import audio
from tensorlake.ingest.media.dicom import dicom
from tensorlake.ingest.media.lerobot import lerobot
from tensorlake.ingest.media.mesh import mesh
from tensorlake.ingest.media.nifti import nifti
from tensorlake.ingest.media.pointcloud import pointcloud
from tensorlake.ingest.media.video import video
from tensorlake.ingest.plug_ins import importer, importer_names
from tensorlake.ingest.records.deeplake import deeplake
from tensorlake.ingest.records.litdata import litdata
from tensorlake.ingest.records.mds import mds
from tensorlake.ingest.records.tfrecord import tfrecord
from tensorlake.ingest.tables.arrow import arrow, parquet
from tensorlake.ingest.tables.json_lines import jsonl
from tensorlake.ingest.tables.lance import lance
from tensorlake.ingest.tables.text import csv
from tensorlake.ingest.tables.texts import texts
from tensorlake.ingest.vision.coco import coco
from tensorlake.ingest.vision.coco_panoptic import coco_panoptic
from tensorlake.ingest.vision.folders import images
from tensorlake.ingest.vision.kitti import kitti
from tensorlake.ingest.vision.voc import voc
from tensorlake.ingest.vision.webdataset import webdataset
from tensorlake.ingest.vision.yolo import yolo

__all__ = [
    "IngestOptions",
    "IngestReport",
    "SkippedItem",
    "arrow",
    "audio",
    "coco",
    "coco_panoptic",
    "csv",
    "deeplake",
    "dicom",
    "hdf5",
    "huggingface",
    "idx",
    "images",
    "jsonl",
    "kitti",
    "lance",
    "lerobot",
    "litdata",
    "mds",
    "mesh",
    "nifti",
    "numpy",
    "parquet",
    "pointcloud",
    "texts",
    "tfrecord",
    "torch",
    "video",
    "voc",
    "webdataset",
    "yolo",
    "zarr",
]

_AS_TORCH_DATASET = (
    "read the files it was made from, or a torch dataset: tl.ingest.torch(dataset, url)"
)
_LATER = {
    "ffcv": _AS_TORCH_DATASET,
    "pack": "rows of one length are packed when they are read: ds.torch(collate=…)",
}
"""Formats of a later version, and how to ingest them today."""

_NEIGHBOURS = {
    **{
        name: f"not available before a later version\n{instead}" for name, instead in _LATER.items()
    },
    **dict.fromkeys(("folder", "image_folder", "imagefolder"), "image folders are images()"),
    **dict.fromkeys(("pandas", "polars", "duckdb", "dataframe"), "tables in memory are arrow()"),
    **dict.fromkeys(("json", "ndjson", "text"), "objects and strings, one per line, are jsonl()"),
    **dict.fromkeys(("hf", "datasets"), "its datasets are huggingface()"),
    **dict.fromkeys(("wds", "tar"), "tar shards are webdataset()"),
    **dict.fromkeys(("tfrecords", "tfds"), "TensorFlow's records are tfrecord()"),
    **dict.fromkeys(("mnist", "fashion_mnist"), "MNIST's files are idx()"),
    **dict.fromkeys(("mosaicml", "streaming"), "MosaicML's shards are mds()"),
    **dict.fromkeys(("npy", "npz"), "NumPy's files are numpy()"),
    **dict.fromkeys(("h5", "h5py", "hdf"), "files of HDF5 are hdf5()"),
    **dict.fromkeys(
        ("points", "point_cloud", "las", "laz", "ply", "pcd"), "point clouds are pointcloud()"
    ),
}
"""Names from other libraries, and the equivalent here."""


if not TYPE_CHECKING:  # a type checker is to refuse such names, not to take them for Any

    def __getattr__(name: str) -> Any:
        found = None if name.startswith("_") else importer(name)
        if found is None:
            raise no_such_name("tl.ingest", name, __all__, _NEIGHBOURS)
        return found


def __dir__() -> list[str]:
    return sorted({*__all__, *importer_names(), "__doc__", "__file__", "__name__"})
