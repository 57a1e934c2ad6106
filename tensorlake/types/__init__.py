"""Sample types and columns: what a tensor's samples are, in Python and in memory.

A `SampleType` turns Python values into a `Column` and a column into what users read. Types declare;
they decode only their own media, import their codecs when first used, and know nothing of storage.
"""

from tensorlake.types.base import NO_DEFAULT, Layout, QueryKind, SampleType
from tensorlake.types.bbox import BBox
from tensorlake.types.binary import Bytes
from tensorlake.types.class_label import ClassLabel
from tensorlake.types.class_names import NamesConflict, UnitedNames, unite_class_names
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
from tensorlake.types.dtypes import DTYPE_NAMES, parse_dtype
from tensorlake.types.embedding import Embedding
from tensorlake.types.file import File, OwnedBlock
from tensorlake.types.image import Image
from tensorlake.types.image_header import ImageHeader, parse_jpeg_header, parse_png_header
from tensorlake.types.json_value import Json
from tensorlake.types.labels import Label, LabelArray, unknown_class
from tensorlake.types.ndarray import Array
from tensorlake.types.ragged import Ragged
from tensorlake.types.registry import as_type, from_json, register
from tensorlake.types.scalar import Bool, Scalar
from tensorlake.types.text import Text
from tensorlake.types.widening import is_widening, widened

__all__ = [
    "DTYPE_NAMES",
    "NO_DEFAULT",
    "Array",
    "BBox",
    "Bool",
    "Buffer",
    "Bytes",
    "ClassLabel",
    "Column",
    "Embedding",
    "EncodedColumn",
    "File",
    "Image",
    "ImageHeader",
    "Json",
    "Label",
    "LabelArray",
    "Layout",
    "NamesConflict",
    "OwnedBlock",
    "QueryKind",
    "Ragged",
    "RaggedColumn",
    "SampleType",
    "Scalar",
    "Text",
    "UniformColumn",
    "UnitedNames",
    "as_ragged",
    "as_type",
    "concat",
    "from_json",
    "in_same_terms",
    "is_widening",
    "null_count",
    "offsets_of",
    "parse_dtype",
    "parse_jpeg_header",
    "parse_png_header",
    "register",
    "slice_rows",
    "take",
    "unite_class_names",
    "unknown_class",
    "widened",
]
