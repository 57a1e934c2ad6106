"""Sample types and columns: what a tensor's samples are, in Python and in memory.

What a plug-in needs to bring a type of its own is here, too: the class, the columns, the casts and
the errors (docs/how-to/add-a-type.md).

A `SampleType` turns Python values into a `Column` and a column into what users read. Types declare;
they decode only their own media, import their codecs when first used, and know nothing of storage.
"""

from tensorlake.types.adjoining import join_adjoining
from tensorlake.types.base import NO_DEFAULT, Layout, QueryKind, SampleType, check_default
from tensorlake.types.bbox import BBox
from tensorlake.types.bbox3d import BBox3D
from tensorlake.types.binary import Bytes
from tensorlake.types.binary_mask import BinaryMask
from tensorlake.types.casting import ragged_column, to_array, uniform_values
from tensorlake.types.class_label import ClassLabel
from tensorlake.types.column import (
    Buffer,
    Column,
    EncodedColumn,
    RaggedColumn,
    UniformColumn,
    as_ragged,
    concat,
    null_count,
    offsets_of,
    slice_rows,
    take,
)
from tensorlake.types.comparing import in_same_terms
from tensorlake.types.dtypes import (
    DTYPE_NAMES,
    NARROW_FLOATS,
    holds_floats,
    is_narrow_float,
    parse_dtype,
    widened_column,
    widened_dtype,
    widened_floats,
)
from tensorlake.types.embedding import Embedding
from tensorlake.types.file import (
    File,
    OwnedBlock,
    given_bytes,
    only_regular,
    opened_at_once,
    refuse_special,
)
from tensorlake.types.image import Image, ImageCodec
from tensorlake.types.image_codecs import codec_of, too_many_pixels
from tensorlake.types.image_header import parse_jpeg_header, parse_png_header
from tensorlake.types.instance_mask import InstanceMask, store_masks
from tensorlake.types.json_value import Json
from tensorlake.types.keypoints import Keypoints
from tensorlake.types.labels import Label, LabelArray, unknown_class
from tensorlake.types.ndarray import Array
from tensorlake.types.outlines import fill_polygons, polygon_runs
from tensorlake.types.picture_header import ImageHeader
from tensorlake.types.polygon import Polygon
from tensorlake.types.ragged import Ragged
from tensorlake.types.registry import as_type, from_json, register
from tensorlake.types.rejection import (
    Place,
    describe_value,
    dtype_mismatch,
    shape_mismatch,
    unreadable,
)
from tensorlake.types.run_lengths import RunTable, decode_run_lengths, encode_run_lengths, run_table
from tensorlake.types.scalar import Bool, Scalar
from tensorlake.types.segment_mask import SegmentMask
from tensorlake.types.segmentations import segmentation_runs
from tensorlake.types.sequence import Sequence
from tensorlake.types.struct import Struct, expand_structs
from tensorlake.types.tags import Tags
from tensorlake.types.text import Text
from tensorlake.types.timestamp import Timestamp
from tensorlake.types.uuid_value import Uuid
from tensorlake.types.widening import is_widening, widened

__all__ = [
    "DTYPE_NAMES",
    "NARROW_FLOATS",
    "NO_DEFAULT",
    "Array",
    "BBox",
    "BBox3D",
    "BinaryMask",
    "Bool",
    "Buffer",
    "Bytes",
    "ClassLabel",
    "Column",
    "Embedding",
    "EncodedColumn",
    "File",
    "Image",
    "ImageCodec",
    "ImageHeader",
    "InstanceMask",
    "Json",
    "Keypoints",
    "Label",
    "LabelArray",
    "Layout",
    "OwnedBlock",
    "Place",
    "Polygon",
    "QueryKind",
    "Ragged",
    "RaggedColumn",
    "RunTable",
    "SampleType",
    "Scalar",
    "SegmentMask",
    "Sequence",
    "Struct",
    "Tags",
    "Text",
    "Timestamp",
    "UniformColumn",
    "Uuid",
    "as_ragged",
    "as_type",
    "check_default",
    "codec_of",
    "concat",
    "decode_run_lengths",
    "describe_value",
    "dtype_mismatch",
    "encode_run_lengths",
    "expand_structs",
    "fill_polygons",
    "from_json",
    "given_bytes",
    "holds_floats",
    "in_same_terms",
    "is_narrow_float",
    "is_widening",
    "join_adjoining",
    "null_count",
    "offsets_of",
    "only_regular",
    "opened_at_once",
    "parse_dtype",
    "parse_jpeg_header",
    "parse_png_header",
    "polygon_runs",
    "ragged_column",
    "refuse_special",
    "register",
    "run_table",
    "segmentation_runs",
    "shape_mismatch",
    "slice_rows",
    "store_masks",
    "take",
    "to_array",
    "too_many_pixels",
    "uniform_values",
    "unknown_class",
    "unreadable",
    "widened",
    "widened_column",
    "widened_dtype",
    "widened_floats",
]
