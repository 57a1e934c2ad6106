"""Codecs of image files, by file name suffix."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tensorlake.types import ImageCodec

__all__ = ["IMAGE_ENDINGS", "codec_of_files", "common_codec"]

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
