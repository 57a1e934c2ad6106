"""Names of image files, and the names that exported files have inside."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tensorlake.types import ImageCodec

__all__ = [
    "COMPRESSED",
    "EMPTY_ROW",
    "IMAGE_ENDINGS",
    "SCHEMA_KEYWORD",
    "SHAPES",
    "VALUES",
    "codec_of_files",
    "common_codec",
    "split_member",
]

VALUES, SHAPES = ".values", ".shapes"
"""Suffixes of the arrays of a ragged tensor in an ``.npz`` file."""

COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
"""Compression by the ending of a file's name, by Arrow's names."""

SCHEMA_KEYWORD = "TENSORLAKE.schema"
EMPTY_ROW = "null"
"""The field of a row that has no other; no tensor's field ends so."""

IMAGE_ENDINGS: Mapping[str, ImageCodec] = {
    ".jpg": "jpeg",
    ".jpeg": "jpeg",
    ".jpe": "jpeg",
    ".jfif": "jpeg",
    ".png": "png",
    ".webp": "webp",
    ".avif": "avif",
    ".jp2": "jpeg2000",
    ".tif": "tiff",
    ".tiff": "tiff",
}
"""Codecs of image files, by the ending of the name."""


def codec_of_files(names: Iterable[str]) -> ImageCodec:
    """Choose the codec of a tensor that holds files of these names; "any" where they differ.

    >>> codec_of_files(["a.jpg", "B.JPEG"]), codec_of_files(["a.jpg", "b.png"])
    ('jpeg', 'any')
    """
    endings = {name[name.rfind(".") :] for name in names}
    return common_codec({IMAGE_ENDINGS.get(one.lower(), "jpeg") for one in endings}) or "jpeg"


def common_codec(codecs: Collection[ImageCodec | None]) -> ImageCodec | None:
    """Return the codec that accepts images of all of these; None if one is not an image codec."""
    if not codecs or None in codecs:
        return None
    return next(iter(codecs)) if len(codecs) == 1 else "any"


def split_member(path: str) -> tuple[str, str] | None:
    """Split a member's path into the key and the field; None if it is not part of a sample.

    >>> split_member("train/000017.seg.png"), split_member("__meta__.json")
    (('train/000017', 'seg.png'), None)
    """
    folder, slash, name = path.rpartition("/")
    stem, dot, field = name.partition(".")
    if not dot or not stem or name.startswith("__"):
        return None
    return folder + slash + stem, field
