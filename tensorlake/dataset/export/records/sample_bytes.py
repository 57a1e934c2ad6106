"""Samples as bytes, for formats of records that have bytes, strings and JSON: MDS, TFRecord."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

from tensorlake.types import (
    Audio,
    Bytes,
    Image,
    InstanceMask,
    Json,
    Mesh,
    Nifti,
    PointCloud,
    SampleType,
    Tags,
    Text,
    Uuid,
)

__all__ = ["bytes_of"]


def bytes_of(
    sample_type: SampleType,
) -> tuple[Literal["bytes", "str", "json"], Callable[[Any], bytes]] | None:
    """Return how a tensor's samples, as `stored_rows` reads them, become bytes.

    Returns:
        The kind of the bytes, and the function that makes them; None for numbers and for types that
        have no bytes of their own.
    """
    runs = isinstance(sample_type, InstanceMask)
    match sample_type:
        case Text() | Uuid():
            return "str", lambda value: str(value).encode()
        case Json() | Tags():
            return "json", lambda value: json.dumps(value).encode()
        case Audio() | Bytes() | Image() | Mesh():
            return "bytes", bytes
        case PointCloud():
            return "bytes", sample_type.npz
        case Nifti():
            return "bytes", sample_type.file_of
        case _ if sample_type.is_media and sample_type.layout == "encoded" and not runs:
            return "bytes", bytes  # media of a plug-in, as stored
        case _:
            return None
