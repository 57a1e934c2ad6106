"""Folders of Deep Lake's version 3: each tensor a tensor, by its htype.

image, video, audio, mesh   files as they are stored; arrays become PNG
class_label, bbox           ClassLabel, BBox in the format that ``coords`` has
text, json, list, tag       Text, Json
polygon, nifti              Polygon, Nifti
embedding, generic, …       arrays of their dtype, numbers where each is one
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Unpack

import numpy as np

from tensorlake.dataset import Dataset
from tensorlake.errors import InvalidInputError, TensorlakeError, did_you_mean
from tensorlake.ingest.engine.found_files import Piece, source_path
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.source import LoadedRows, given_settings, part_of
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.records.deeplake_chunks import (
    DeepLakeFolder,
    DeepLakeTensor,
    Sample,
    TiledSample,
    decompressed,
)
from tensorlake.ingest.tables.arrow import check_pieces, ingest_pieces
from tensorlake.types import (
    Array,
    Audio,
    BBox,
    ClassLabel,
    Embedding,
    Image,
    Json,
    Mesh,
    Nifti,
    Polygon,
    SampleType,
    SegmentMask,
    Text,
    Video,
    as_type,
)
from tensorlake.types import Sequence as SequenceType

__all__ = ["deeplake"]

PIECE_NBYTES = 8 << 20
"""Bytes of the rows that are read together."""

_CODECS = {"jpeg": "jpeg", "png": "png", "webp": "webp", "tiff": "tiff", "jpeg2000": "jpeg2000"}
_PNG = Image("png")
_FILES = {
    **dict.fromkeys(("mp4", "mkv", "avi"), Video),
    **dict.fromkeys(("mp3", "flac", "wav"), Audio),
}
_BOXES = {"LTRB": "xyxy", "LTWH": "xywh", "CCWH": "cxcywh"}
_ARRAYS = (
    "generic",
    "segment_mask",
    "embedding",
    "binary_mask",
    "instance_label",
    "keypoints_coco",
    "point_cloud",
)


@dataclass(frozen=True, slots=True)
class _Column:
    """A tensor's type, and what makes a value of a sample."""

    tensor: DeepLakeTensor
    type: SampleType
    value: Callable[[Any], Any]


@shows_options
def deeplake(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    schema: Mapping[str, Any] | None = None,
    branch: str = "main",
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a folder of Deep Lake's versions 2 and 3, without its library.

    The newest commit of a branch is read, with the rows written since. Images, videos and audio
    stay as they are stored, and so do meshes; arrays, and PNG files, that are in tiles are joined.
    Tensors of links, of tiles that are compressed otherwise, of chunks that are compressed as one
    image, and of the htype dicom are refused by name.

    Args:
        src: The folder, by path or URL.
        dst: Path or URL of the dataset.
        columns: Only these tensors.
        schema: Types by tensor; they override those of the htypes.
        branch: The branch.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions. The same
        call again adds rows that were appended since.

    Raises:
        InvalidInputError: It is of another version (Deep Lake 4 writes another format), or damaged;
            tensors have different lengths; or one is not read here: name the others by ``columns``.

    Example:
        >>> import deeplake  # of version 3, which wrote the folder; ingestion does without it
        >>> import tensorlake as tl
        >>> with deeplake.empty("numbers") as made:
        ...     _ = made.create_tensor("x", dtype="int64")
        ...     made.x.extend([1, 2])
        >>> len(tl.ingest.deeplake("numbers", "memory://doc-deeplake"))
        2
    """
    files = SourceFiles(options.get("storage_options"))
    folder = DeepLakeFolder(source_path(src), files, branch)
    chosen = _chosen(folder, columns)
    given = {name: as_type(one) for name, one in (schema or {}).items()}
    unknown = next((name for name in given if name not in chosen), None)
    if unknown is not None:
        message = f"schema names the unknown tensor {unknown!r}{did_you_mean(unknown, chosen)}"
        raise InvalidInputError(f"{message}\ntensors: {', '.join(chosen)}", tensor=unknown)
    made = {name: _column(one) for name, one in chosen.items()}
    types = {name: given.get(name, one.type) for name, one in made.items()}
    pieces = _pieces(folder, [*chosen.values()])
    check_pieces("deeplake", pieces, types)
    stamps = {
        piece.path: " ".join(folder.stamp(one, piece.start, piece.stop) for one in chosen.values())
        for piece in pieces
    }

    def load(items: Sequence[Piece]) -> LoadedRows:
        values: dict[str, list[Any]] = {name: [] for name in types}
        for piece in items:
            for name, column in made.items():
                rows = folder.rows(column.tensor, piece.start, piece.stop)
                values[name] += [
                    _value(column, row, at) for at, row in enumerate(rows, piece.start)
                ]

        def row_name(row: int) -> str:
            part, row = part_of(row, [piece.stop - piece.start for piece in items])
            return f"row {items[part].start + row} of {folder.place}"

        return LoadedRows(values, (), row_name)

    return ingest_pieces(
        "deeplake",
        pieces,
        types,
        load,
        dst,
        options,
        files=files,
        settings=given_settings(
            schema, columns=None if columns is None else [*columns], branch=branch
        ),
        src=src,
        stamp=stamps.__getitem__,
        names_classes=False,
    )


def _chosen(folder: DeepLakeFolder, columns: Sequence[str] | None) -> dict[str, DeepLakeTensor]:
    names = [*folder.tensors] if columns is None else [*columns]
    for name in names:
        if name not in folder.tensors:
            known = ", ".join(folder.tensors)
            message = f"columns names {name!r}, which {folder.place!r} has not"
            hint = f"{did_you_mean(name, folder.tensors)}\ntensors: {known}"
            raise InvalidInputError(f"{message}{hint}", argument="columns", actual=name)
    chosen = {name: folder.tensors[name] for name in names}
    lengths = {one.length for one in chosen.values()}
    if len(lengths) > 1:
        counts = ", ".join(f"{name}: {one.length:,}" for name, one in chosen.items())
        raise InvalidInputError(
            f"the tensors of {folder.place!r} have different lengths: {counts}"
            "\nname those of one length: columns=[…]",
            src=folder.place,
        )
    return chosen


def _pieces(folder: DeepLakeFolder, tensors: Sequence[DeepLakeTensor]) -> list[Piece]:
    """Cut the rows into pieces; their number of rows is a power of 2, so that it seldom changes."""
    count = tensors[0].length if tensors else 0
    nbytes = max(1, sum(map(folder.nbytes, tensors)) // max(1, count))
    step = 1 << max(0, (PIECE_NBYTES // nbytes).bit_length() - 1)
    return [
        Piece(f"{folder.place}#{start}", start, min(start + step, count), nbytes * step)
        for start in range(0, count, step)
    ]


def _column(tensor: DeepLakeTensor) -> _Column:
    """Return the type of a tensor.

    Raises:
        InvalidInputError: It is not read here.
    """
    meta = tensor.meta
    htype = str(meta.get("htype") or "generic")
    compression = meta.get("sample_compression")
    if meta.get("is_link"):
        raise _refused(tensor, "its samples are links")
    if meta.get("chunk_compression") not in {None, "lz4"}:
        raise _refused(tensor, f"its chunks are compressed as {meta['chunk_compression']}")
    has_none = 0 in meta["min_shape"]  # a sample of nothing, which is Deep Lake's None

    if tensor.tiles and compression not in {None, "lz4", "png"}:
        raise _refused(tensor, f"its samples are in tiles that are {compression}")

    def content_of_file(sample: Sample | TiledSample) -> bytes | np.ndarray | None:
        if isinstance(sample, TiledSample):
            return sample.joined(_pixels)
        return sample[0] or None

    if compression in _FILES and htype in {"video", "audio"}:
        return _of(tensor, _FILES[compression](nullable=has_none), content_of_file)
    if compression in _CODECS and htype.startswith(("image", "segment_mask")):
        codec: Any = _CODECS[compression]
        if htype.startswith("image"):
            return _of(tensor, Image(codec, nullable=has_none), content_of_file)
        return _of(tensor, SegmentMask(_names(tensor), nullable=has_none), content_of_file)
    if compression == "ply" and htype == "mesh":
        return _of(tensor, Mesh(nullable=has_none), content_of_file)
    if compression in {"nii", "nii.gz"} and htype == "nifti":
        return _of(tensor, Nifti(nullable=has_none), content_of_file)
    if compression not in {None, "lz4"}:
        raise _refused(tensor, f"its samples are {compression} of the htype {htype!r}")

    def content(sample: Sample) -> bytes:
        return decompressed(sample[0]) if compression == "lz4" else sample[0]

    if htype == "text":
        return _of(tensor, Text(), lambda sample: content(sample).decode())
    if htype in {"json", "list", "tag"}:
        return _of(tensor, Json(), lambda sample: json.loads(content(sample)))
    dtype = np.dtype(str(meta.get("dtype")))

    def array(sample: Sample | TiledSample) -> np.ndarray:
        if isinstance(sample, TiledSample):
            return sample.joined(array)
        return np.frombuffer(content(sample), dtype).reshape(sample[1])

    def array_or_none(sample: Sample | TiledSample) -> np.ndarray | None:
        return array(sample) if isinstance(sample, TiledSample) or 0 not in sample[1] else None

    if htype == "polygon" and dtype == np.float32 and meta["max_shape"][2:] in ([0], [2]):
        return _of(tensor, Polygon(), lambda sample: polygons(content(sample)))
    if htype == "class_label" and dtype.kind in "iu" and _names(tensor):
        is_single = meta["min_shape"] == meta["max_shape"] == [1]
        kind = ClassLabel(_names(tensor), multi=not is_single)
        return _of(tensor, kind, lambda sample: array(sample)[0] if is_single else array(sample))
    if htype == "bbox":
        coords = meta.get("coords") or {}
        mode = _BOXES.get(str(coords.get("mode", "LTWH")))
        if mode is None or coords.get("type", "pixel") != "pixel":
            raise _refused(tensor, f"its boxes are {coords}")
        box: Any = mode
        return _of(tensor, BBox(box), lambda sample: array(sample).reshape(-1, 4))
    if htype.startswith("image") and dtype == np.uint8:
        return _of(tensor, Image("png", nullable=has_none), array_or_none)
    if htype == "segment_mask" and (codes := _codes(tensor, dtype)) is not None:
        mask = SegmentMask(_names(tensor), dtype=codes, nullable=has_none)
        return _of(tensor, mask, array_or_none)
    if htype not in (*_ARRAYS, "class_label") and not htype.startswith("image"):
        raise _refused(tensor, f"it is of the htype {htype!r}")
    least, most = meta["min_shape"], meta["max_shape"]
    if not most:
        return _of(tensor, as_type(dtype), lambda sample: array(sample).reshape(()))
    shape = tuple(low if low == high else None for low, high in zip(least, most, strict=True))
    if htype == "embedding" and dtype == np.float32 and len(shape) == 1 and shape[0]:
        return _of(tensor, Embedding(shape[0]), array)
    return _of(tensor, Array(dtype, shape), array)


def _of(tensor: DeepLakeTensor, kind: SampleType, value: Callable[[Sample], Any]) -> _Column:
    if tensor.items is None:
        return _Column(tensor, kind, value)
    if not isinstance(kind, Image | Text):
        raise _refused(tensor, f"it is a sequence of {kind.describe()}")
    return _Column(tensor, SequenceType(kind), lambda row: [value(sample) for sample in row])


def _pixels(tile: Sample) -> np.ndarray:
    """Return the pixels of a tile that is a PNG file; ValueError where it is damaged."""
    try:
        column = _PNG.convert([tile[0]], tensor="tile")
        pixels = np.asarray(_PNG.present_one(_PNG.decode(column, tensor="tile"), 0))
    except TensorlakeError as error:
        raise ValueError(error.message) from error
    return pixels.reshape(tile[1])


def _value(column: _Column, row: Any, at: int) -> Any:
    try:
        return column.value(row)
    except (ValueError, OSError, IndexError, RecursionError) as error:
        name = column.tensor.name
        message = f"row {at} of {name!r} is damaged: {error}"
        raise InvalidInputError(message, tensor=name, row=at) from error


def polygons(content: bytes) -> list[np.ndarray]:
    """Return the polygons of a sample: their number u16 · points of each u16 · points, 2 × float32.

    Raises:
        ValueError: It is cut off.
    """
    if not content:
        return []
    counts = np.frombuffer(content, "<u2", int.from_bytes(content[:2], "little"), 2)
    points = np.frombuffer(content, "<f4", offset=2 + counts.nbytes).reshape(-1, 2)
    if counts.sum() != len(points):
        raise ValueError(f"it has {len(points)} points, not {counts.sum()}")
    return np.split(points, np.cumsum(counts)[:-1])


def _codes(tensor: DeepLakeTensor, dtype: np.dtype) -> np.dtype | None:
    """Return the dtype of a mask's codes: uint32 is Deep Lake's default; None: it is an array."""
    if dtype.name in {"uint8", "uint16"}:
        return dtype
    if not _names(tensor):
        return None
    return np.min_scalar_type(max(0, len(_names(tensor)) - 1))


def _names(tensor: DeepLakeTensor) -> list[str]:
    return [str(one) for one in tensor.meta.get("class_names") or ()]


def _refused(tensor: DeepLakeTensor, reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"{tensor.name!r} is not read here: {reason}\nname the other tensors: columns=[…],"
        " or read it by Deep Lake: tl.ingest.torch(dataset.pytorch(), url)",
        tensor=tensor.name,
    )
