"""Register the built-in types, and the short forms of a schema."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorlake.types.audio.audio import Audio
from tensorlake.types.base.base import SampleType
from tensorlake.types.base.registry import fill
from tensorlake.types.links.link import Link
from tensorlake.types.meshes.mesh import Mesh
from tensorlake.types.points.points import PointCloud
from tensorlake.types.scalar.array import Array
from tensorlake.types.scalar.binary import Bytes
from tensorlake.types.scalar.class_label import ClassLabel
from tensorlake.types.scalar.embedding import Embedding
from tensorlake.types.scalar.json import Json
from tensorlake.types.scalar.scalar import Bool, Scalar
from tensorlake.types.scalar.sequence import Sequence
from tensorlake.types.scalar.struct import Struct
from tensorlake.types.scalar.tags import Tags
from tensorlake.types.scalar.text import Text
from tensorlake.types.scalar.timestamp import Timestamp
from tensorlake.types.scalar.uuid import Uuid
from tensorlake.types.video.video import Video
from tensorlake.types.vision.binary_mask import BinaryMask
from tensorlake.types.vision.boxes import BBox, BBox3D
from tensorlake.types.vision.image import Image
from tensorlake.types.vision.instance_mask import InstanceMask
from tensorlake.types.vision.keypoints import Keypoints
from tensorlake.types.vision.polygon import Polygon
from tensorlake.types.vision.segment_mask import SegmentMask
from tensorlake.types.volumes.dicom import Dicom
from tensorlake.types.volumes.nifti import Nifti

BUILT_IN: tuple[type[SampleType], ...] = (
    Array,
    Audio,
    BBox,
    BBox3D,
    BinaryMask,
    Bool,
    Bytes,
    ClassLabel,
    Dicom,
    Embedding,
    Image,
    InstanceMask,
    Json,
    Keypoints,
    Link,
    Mesh,
    Nifti,
    PointCloud,
    Polygon,
    Scalar,
    SegmentMask,
    Sequence,
    Tags,
    Text,
    Timestamp,
    Uuid,
    Video,
)
SHORT: dict[Any, type[SampleType]] = {
    "str": Text,
    "text": Text,
    "json": Json,
    "bytes": Bytes,
    "bool": Bool,
    str: Text,
    bytes: Bytes,
    bool: Bool,
}


def _scalar(dtype: Any) -> SampleType:
    if dtype is np.bool_ or dtype == np.dtype(np.bool_):
        return Bool()
    return Scalar(dtype)


fill(BUILT_IN, short=SHORT, groups=(Struct,), scalar=_scalar)
