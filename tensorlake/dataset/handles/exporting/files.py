"""Exports to files of other formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from tensorlake.quantities import parse_nbytes

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import HasRows

__all__ = [
    "to_coco",
    "to_croissant",
    "to_csv",
    "to_hdf5",
    "to_jsonl",
    "to_lerobot",
    "to_litdata",
    "to_mds",
    "to_parquet",
    "to_tfrecord",
    "to_webdataset",
]


def to_parquet(  # noqa: D417 - a method: self
    self: HasRows,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a Parquet file, one row group at a time; ``tl.ingest.parquet`` reads it back.

    Args:
        dst: Path or URL of the file. It appears when it is complete.
        columns: Only these; ``_row`` and ``_row_id`` may be among them.
        overwrite: Whether to replace an earlier export of the same format.
        storage_options: As in ``tl.open``, where ``dst`` is a URL of a bucket.

    Raises:
        InvalidInputError: ``dst`` exists.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-parquet", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.to_parquet("x.parquet")
        >>> tl.ingest.parquet("x.parquet", "memory://doc-to-parquet-again")["x"][:]
        array([1, 2, 3])
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    dst = export.destination(dst, storage_options)
    export.to_parquet(self.__rowset__, dst, columns=columns, overwrite=overwrite)


def to_croissant(  # noqa: D417 - a method: self
    self: HasRows,
    dst: str | PathLike[str],
    *,
    about: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """Write a folder of ``croissant.json``, Croissant 1.1, and the rows it describes, as Parquet.

    Args:
        dst: Path or URL of the folder. It appears when it is complete.
        about: Properties of the dataset: those of Croissant (``"license"``, ``"creator"``, …), of
            its extension for responsible AI (``"rai:dataBiases"``, …), and of provenance.
            Without them, the name is the URL's last part and the version that of the rows.
        columns: Only these tensors.
        overwrite: Whether to replace an earlier export of the same format.
        storage_options: As in ``tl.open``, where ``dst`` is a URL of a bucket.

    Returns:
        Names of the properties that Croissant requires and ``about`` lacks; empty: complete.

    Raises:
        InvalidInputError: ``about`` has an unknown property, or a malformed value.
        UnsupportedFeatureError: Croissant has no type for a tensor; ``columns=`` leaves it out.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-croissant", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.to_croissant("croissant", about={"description": "three", "license": "CC0-1.0"})
        ('url', 'creator', 'datePublished')
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    dst = export.destination(dst, storage_options)
    return export.to_croissant(
        self.__rowset__, dst, about=about, columns=columns, overwrite=overwrite
    )


def to_csv(  # noqa: D417 - a method: self
    self: HasRows,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    delimiter: str = ",",
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a CSV file; one whose name ends in ``.gz`` or ``.zst`` is compressed.

    Args:
        dst: Path or URL of the file. It appears when it is complete.
        columns: Only these; ``_row`` and ``_row_id`` may be among them.
        delimiter: Separator of values.
        overwrite: Whether to replace an earlier export of the same format.
        storage_options: As in ``tl.open``, where ``dst`` is a URL of a bucket.

    Raises:
        UnsupportedFeatureError: A column has arrays, lists or bytes; ``columns=`` leaves it out.

    Example:
        >>> from pathlib import Path
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-csv", {"y": tl.ClassLabel(["cat", "dog"])})
        >>> ds.extend({"y": ["dog", "cat"]})
        >>> ds.to_csv("pets.csv", columns=["_row", "y"])
        >>> print(Path("pets.csv").read_text().strip())
        "_row","y"
        0,"dog"
        1,"cat"
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    dst = export.destination(dst, storage_options)
    export.to_csv(self.__rowset__, dst, columns=columns, delimiter=delimiter, overwrite=overwrite)


def to_jsonl(  # noqa: D417 - a method: self
    self: HasRows,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write JSON lines, one object per row; a name ending in ``.gz`` or ``.zst`` is compressed.

    Args:
        dst: Path or URL of the file. It appears when it is complete.
        columns: Only these; ``_row`` and ``_row_id`` may be among them.
        overwrite: Whether to replace an earlier export of the same format.
        storage_options: As in ``tl.open``, where ``dst`` is a URL of a bucket.

    Raises:
        InvalidInputError: A number is NaN or infinite, which JSON does not support.
        UnsupportedFeatureError: A column has bytes; ``columns=`` leaves it out.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-jsonl", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.to_jsonl("x.jsonl")
        >>> from pathlib import Path
        >>> Path("x.jsonl").read_text().splitlines()
        ['{"x": 1}', '{"x": 2}', '{"x": 3}']
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    dst = export.destination(dst, storage_options)
    export.to_jsonl(self.__rowset__, dst, columns=columns, overwrite=overwrite)


def to_hdf5(  # noqa: D417 - a method: self
    self: HasRows,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write an HDF5 file with an array for each tensor; ``tl.ingest.hdf5`` reads it back.

    Ragged tensors and bytes are groups of ``values`` and ``shapes`` or ``offsets``, as
    described in docs/reference/sdk.md.

    Args:
        dst: Path or URL of the file. It appears when it is complete.
        columns: Only these tensors.
        overwrite: Whether to replace an earlier export of the same format.
        storage_options: As in ``tl.open``, where ``dst`` is a URL of a bucket.

    Raises:
        InvalidInputError: ``dst`` exists, or a text has the character NUL.
        MissingExtraError: ``h5py`` is not installed.
        UnsupportedFeatureError: HDF5 does not support a tensor; ``columns=`` leaves it out.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-hdf5", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.to_hdf5("x.h5")
        >>> tl.ingest.hdf5("x.h5", "memory://doc-to-hdf5-again")["x"][:]
        array([1, 2, 3])
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    dst = export.destination(dst, storage_options)
    export.to_hdf5(self.__rowset__, dst, columns=columns, overwrite=overwrite)


def to_webdataset(  # noqa: D417 - a method: self
    self: HasRows,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    shard_size: int | str = "256MiB",
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write WebDataset shards into a folder; images are written as stored, without re-encoding.

    Args:
        dst: Path or URL of the folder. It appears when it is complete.
        columns: Only these tensors.
        shard_size: Bytes of samples per shard.
        overwrite: Whether to replace an earlier export of the same format.
        storage_options: As in ``tl.open``, where ``dst`` is a URL of a bucket.

    Raises:
        UnsupportedFeatureError: Shards have no form for a tensor; ``columns=`` leaves it out.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-webdataset", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.to_webdataset("shards")
        >>> tl.ingest.webdataset("shards", "memory://doc-to-webdataset-again").count()
        3
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    dst = export.destination(dst, storage_options)
    nbytes = parse_nbytes(shard_size, name="shard_size", least=1)
    export.to_webdataset(
        self.__rowset__, dst, columns=columns, shard_nbytes=nbytes, overwrite=overwrite
    )


def to_mds(  # noqa: D417 - a method: self
    self: HasRows,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    shard_size: int | str = "64MiB",
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write MosaicML's MDS into a folder; images are written as stored, without re-encoding.

    Args:
        dst: Path or URL of the folder. It appears when it is complete.
        columns: Only these tensors.
        shard_size: Bytes per shard.
        overwrite: Whether to replace an earlier export of the same format.
        storage_options: As in ``tl.open``, where ``dst`` is a URL of a bucket.

    Raises:
        InvalidInputError: A value is NULL, which MDS does not support.
        UnsupportedFeatureError: MDS does not support a tensor; ``columns=`` leaves it out.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-mds", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.to_mds("mds")
        >>> from pathlib import Path
        >>> Path("mds/index.json").exists()
        True
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    dst = export.destination(dst, storage_options)
    nbytes = parse_nbytes(shard_size, name="shard_size", least=1)
    export.to_mds(self.__rowset__, dst, columns=columns, shard_nbytes=nbytes, overwrite=overwrite)


def to_litdata(  # noqa: D417 - a method: self
    self: HasRows,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    chunk_size: int | str = "64MiB",
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write LitData's chunks into a folder; images are written as stored, without re-encoding.

    ``tl.ingest.litdata`` makes the same tensors again, by the types in
    ``tensorlake-types.json``.

    Args:
        dst: Path or URL of the folder. It appears when it is complete.
        columns: Only these tensors.
        chunk_size: Bytes per chunk.
        overwrite: Whether to replace an earlier export of the same format.
        storage_options: As in ``tl.open``, where ``dst`` is a URL of a bucket.

    Raises:
        InvalidInputError: A value is NULL, which LitData does not support.
        UnsupportedFeatureError: LitData does not support a tensor; ``columns=`` leaves it out.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-litdata", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.to_litdata("litdata")
        >>> from pathlib import Path
        >>> sorted(path.name for path in Path("litdata").iterdir())
        ['chunk-0-0.bin', 'index.json', 'tensorlake-types.json']
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    dst = export.destination(dst, storage_options)
    nbytes = parse_nbytes(chunk_size, name="chunk_size", least=1)
    export.to_litdata(
        self.__rowset__, dst, columns=columns, chunk_nbytes=nbytes, overwrite=overwrite
    )


def to_lerobot(  # noqa: D417 - a method: self
    self: HasRows,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    episode: str = "episode",
    fps: float | None = None,
    codec: Literal["h264", "av1"] = "h264",
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a LeRobot dataset of version 3: a row is a step of an episode.

    Images become a video per episode and camera, encoded with a key frame at every second frame;
    numbers, text and arrays of one shape are columns. Steps of an episode are numbered in the order
    of the rows, at equal distances in time: ``t`` and ``timestamp`` are made again. A tensor
    ``task`` is the text of the step's task. Features that ``tl.ingest.lerobot`` read have their
    names again; otherwise ``state`` becomes ``observation.state``, ``reward`` ``next.reward``,
    ``frame`` ``observation.image``, and ``frame/top`` ``observation.images.top``.

    Args:
        dst: Path or URL of the folder. It appears when it is complete.
        columns: Only these tensors.
        episode: The tensor whose value is a step's episode; episodes get new numbers.
        fps: Steps per second; None: those of the LeRobot dataset that was ingested.
        codec: How frames are encoded: "h264" or "av1", which lose little.
        overwrite: Whether to replace an earlier export of the same format.
        storage_options: As in ``tl.open``, where ``dst`` is a URL of a bucket.

    Raises:
        InvalidInputError: ``fps`` is unknown, there are no rows, or a value is NULL.
        UnsupportedFeatureError: LeRobot does not support a tensor; ``columns=`` leaves it out.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-lerobot", {"episode": "int64", "action": "float32"})
        >>> ds.extend({"episode": [0, 0, 1], "action": [0.5, 1, 0]})
        >>> ds.to_lerobot("steps", fps=10)
        >>> from pathlib import Path
        >>> sorted(path.name for path in Path("steps/meta").iterdir())
        ['episodes', 'info.json', 'stats.json', 'tasks.parquet']
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    dst = export.destination(dst, storage_options)
    export.to_lerobot(
        self.__rowset__,
        dst,
        columns=columns,
        episode=episode,
        fps=fps,
        codec=codec,
        overwrite=overwrite,
    )


def to_tfrecord(  # noqa: D417 - a method: self
    self: HasRows,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    shard_size: int | str = "256MiB",
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write TFRecord files of ``tf.train.Example`` into a folder; media are written as stored.

    ``tl.ingest.tfrecord`` makes the same tensors again, by the types in
    ``tensorlake-types.json``.

    Args:
        dst: Path or URL of the folder. It appears when it is complete.
        columns: Only these tensors.
        shard_size: Bytes per file.
        overwrite: Whether to replace an earlier export of the same format.
        storage_options: As in ``tl.open``, where ``dst`` is a URL of a bucket.

    Raises:
        InvalidInputError: A number does not fit into float32 or int64, which TFRecord has.
        MissingExtraError: ``google-crc32c`` is not installed.
        UnsupportedFeatureError: TFRecord does not support a tensor; ``columns=`` leaves it out.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-to-tfrecord", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> ds.to_tfrecord("tfrecord")
        >>> from pathlib import Path
        >>> sorted(path.name for path in Path("tfrecord").iterdir())
        ['part-00000.tfrecord', 'tensorlake-types.json']
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    dst = export.destination(dst, storage_options)
    nbytes = parse_nbytes(shard_size, name="shard_size", least=1)
    export.to_tfrecord(
        self.__rowset__, dst, columns=columns, shard_nbytes=nbytes, overwrite=overwrite
    )


def to_coco(  # noqa: D417 - a method: self
    self: HasRows,
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a COCO folder: ``annotations.json``, and the stored images in ``images/``.

    The image, its boxes, their classes, masks and keypoints are found by their types;
    other tensors are left out.

    Args:
        dst: Path or URL of the folder. It appears when it is complete.
        columns: Only these tensors, if several have one of these types.
        overwrite: Whether to replace an earlier export of the same format.
        storage_options: As in ``tl.open``, where ``dst`` is a URL of a bucket.

    Raises:
        InvalidInputError: There is no image, or the numbers of classes and boxes differ.

    Example:
        >>> import numpy as np
        >>> import tensorlake as tl
        >>> schema = {"image": tl.Image("png"), "boxes": tl.BBox()}
        >>> ds = tl.create("memory://doc-to-coco", schema)
        >>> ds.append({"image": np.zeros((8, 8, 3), np.uint8), "boxes": [[0, 0, 4, 4]]})
        >>> ds.to_coco("coco")
        >>> tl.ingest.coco("coco/annotations.json", "coco/images", "memory://doc-to-coco-again").count()
        1
        >>> ds.discard()
    """
    from tensorlake.dataset import export

    dst = export.destination(dst, storage_options)
    export.to_coco(self.__rowset__, dst, columns=columns, overwrite=overwrite)
