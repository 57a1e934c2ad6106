"""Sample types and columns: a tensor's samples in Python and in memory.

The package also exports everything that a plug-in needs to define its own type: the class, the
columns, the casts and the errors (docs/how-to/add-a-type.md).

A `SampleType` converts Python values to a `Column` and a column to the values that users read.
Types are declarations; they decode only their own media, import their codecs on first use, and are
independent of storage.
"""

from tensorlake.types.annotation import (
    SAME_PLACE,
    check_scaled,
    have_one_shape,
    have_places,
    voxels_apart,
)
from tensorlake.types.audio.audio import Audio
from tensorlake.types.audio.containers.parse import container_of
from tensorlake.types.audio.containers.track import Container
from tensorlake.types.audio.map import AudioHead, read_head
from tensorlake.types.audio.waveform import FrameSpan, Seconds, Waveform
from tensorlake.types.base.base import NO_DEFAULT, Layout, QueryKind, SampleType, check_default
from tensorlake.types.base.buffers import join_adjoining
from tensorlake.types.base.casting import ragged_column, to_array, uniform_values
from tensorlake.types.base.column import (
    Buffer,
    Column,
    EncodedColumn,
    PackedSamples,
    RaggedColumn,
    SampleMap,
    UniformColumn,
    as_ragged,
    concat,
    null_count,
    offsets_of,
    slice_rows,
    take,
)
from tensorlake.types.base.descriptors import (
    AT_ONCE,
    BINARY,
    ON_WINDOWS,
    pread,
    preadv,
    pwrite,
    readv,
    writev,
)
from tensorlake.types.base.dtypes import (
    DTYPE_NAMES,
    NARROW_FLOATS,
    holds_floats,
    is_narrow_float,
    parse_dtype,
    widened_column,
    widened_dtype,
    widened_floats,
)
from tensorlake.types.base.errors import (
    STATEMENTS,
    Place,
    describe_value,
    dtype_mismatch,
    shape_mismatch,
    unreadable,
)
from tensorlake.types.base.file import (
    BLOCK_NBYTES,
    File,
    FileView,
    OwnedBlock,
    given_bytes,
    only_regular,
    opened_at_once,
    refuse_special,
)
from tensorlake.types.base.parts import (
    Each,
    MemorySample,
    PartSource,
    SampleHandle,
    SampleParts,
    read_request,
)
from tensorlake.types.base.ragged import Ragged
from tensorlake.types.base.registry import as_type, from_json, loaded_plug_in, register
from tensorlake.types.builtin import BUILT_IN  # this import fills the registry
from tensorlake.types.comparing import in_same_terms
from tensorlake.types.links.link import Link, LinkedFile
from tensorlake.types.links.record import LinkRecord, read_record, write_record
from tensorlake.types.links.source import LinkedSample, LinkOpener, OpenedLink
from tensorlake.types.meshes.forms import MeshForm, mesh_form
from tensorlake.types.meshes.handle import MeshHandle
from tensorlake.types.meshes.mesh import Mesh
from tensorlake.types.points.handle import PointCloudHandle
from tensorlake.types.points.levels import level_counts
from tensorlake.types.points.points import PointCloud
from tensorlake.types.points.request import PointRequest
from tensorlake.types.scalar.array import Array
from tensorlake.types.scalar.binary import Bytes
from tensorlake.types.scalar.class_label import ClassLabel
from tensorlake.types.scalar.embedding import Embedding
from tensorlake.types.scalar.json import Json, StoredJson
from tensorlake.types.scalar.labels import Label, LabelArray, unknown_class
from tensorlake.types.scalar.nested import arrow_type_text, decode_rows, encode_rows
from tensorlake.types.scalar.scalar import Bool, Scalar
from tensorlake.types.scalar.sequence import Sequence
from tensorlake.types.scalar.struct import Struct, expand_structs
from tensorlake.types.scalar.tags import Tags
from tensorlake.types.scalar.text import Text
from tensorlake.types.scalar.timestamp import Timestamp
from tensorlake.types.scalar.uuid import Uuid
from tensorlake.types.tiles import (
    ClassTable,
    Overview,
    TiledSamples,
    box_of,
    untiled,
    untiled_column,
    with_tiles_of,
)
from tensorlake.types.unsupported import Unsupported
from tensorlake.types.video.encode import VideoCodec, encode_frames
from tensorlake.types.video.handle import VideoHandle
from tensorlake.types.video.video import Video
from tensorlake.types.vision.binary_mask import BinaryMask
from tensorlake.types.vision.boxes import BBox, BBox3D, BoxFormat, convert_boxes
from tensorlake.types.vision.codecs import codec_of, too_many_pixels
from tensorlake.types.vision.headers.encoded import parse_jpeg_header, parse_png_header
from tensorlake.types.vision.headers.header import ImageHeader
from tensorlake.types.vision.image import Image, ImageCodec
from tensorlake.types.vision.instance_mask import InstanceMask, store_masks
from tensorlake.types.vision.keypoints import Keypoints
from tensorlake.types.vision.polygon import Polygon
from tensorlake.types.vision.raster import fill_polygons, polygon_runs
from tensorlake.types.vision.resample import Resampler, choose_resampler, resampled_by
from tensorlake.types.vision.rle import (
    RunTable,
    decode_run_lengths,
    encode_run_lengths,
    pack_runs,
    run_table,
)
from tensorlake.types.vision.segment_mask import SegmentMask
from tensorlake.types.vision.segmentations import segmentation_runs
from tensorlake.types.volumes.dicom import Dicom
from tensorlake.types.volumes.dicom_series import DicomFacts, dicom_facts
from tensorlake.types.volumes.dicom_volume import DicomVolume
from tensorlake.types.volumes.nifti import Nifti
from tensorlake.types.volumes.volume import NiftiVolume
from tensorlake.types.widening import is_widening, widened

__all__ = [
    "AT_ONCE",
    "BINARY",
    "BLOCK_NBYTES",
    "BUILT_IN",
    "DTYPE_NAMES",
    "NARROW_FLOATS",
    "NO_DEFAULT",
    "ON_WINDOWS",
    "SAME_PLACE",
    "STATEMENTS",
    "Array",
    "Audio",
    "AudioHead",
    "BBox",
    "BBox3D",
    "BinaryMask",
    "Bool",
    "BoxFormat",
    "Buffer",
    "Bytes",
    "ClassLabel",
    "ClassTable",
    "Column",
    "Container",
    "Dicom",
    "DicomFacts",
    "DicomVolume",
    "Each",
    "Embedding",
    "EncodedColumn",
    "File",
    "FileView",
    "FrameSpan",
    "Image",
    "ImageCodec",
    "ImageHeader",
    "InstanceMask",
    "Json",
    "Keypoints",
    "Label",
    "LabelArray",
    "Layout",
    "Link",
    "LinkOpener",
    "LinkRecord",
    "LinkedFile",
    "LinkedSample",
    "MemorySample",
    "Mesh",
    "MeshForm",
    "MeshHandle",
    "Nifti",
    "NiftiVolume",
    "OpenedLink",
    "Overview",
    "OwnedBlock",
    "PackedSamples",
    "PartSource",
    "Place",
    "PointCloud",
    "PointCloudHandle",
    "PointRequest",
    "Polygon",
    "QueryKind",
    "Ragged",
    "RaggedColumn",
    "Resampler",
    "RunTable",
    "SampleHandle",
    "SampleMap",
    "SampleParts",
    "SampleType",
    "Scalar",
    "Seconds",
    "SegmentMask",
    "Sequence",
    "StoredJson",
    "Struct",
    "Tags",
    "Text",
    "TiledSamples",
    "Timestamp",
    "UniformColumn",
    "Unsupported",
    "Uuid",
    "Video",
    "VideoCodec",
    "VideoHandle",
    "Waveform",
    "arrow_type_text",
    "as_ragged",
    "as_type",
    "box_of",
    "check_default",
    "check_scaled",
    "choose_resampler",
    "codec_of",
    "concat",
    "container_of",
    "convert_boxes",
    "decode_rows",
    "decode_run_lengths",
    "describe_value",
    "dicom_facts",
    "dtype_mismatch",
    "encode_frames",
    "encode_rows",
    "encode_run_lengths",
    "expand_structs",
    "fill_polygons",
    "from_json",
    "given_bytes",
    "have_one_shape",
    "have_places",
    "holds_floats",
    "in_same_terms",
    "is_narrow_float",
    "is_widening",
    "join_adjoining",
    "level_counts",
    "loaded_plug_in",
    "mesh_form",
    "null_count",
    "offsets_of",
    "only_regular",
    "opened_at_once",
    "pack_runs",
    "parse_dtype",
    "parse_jpeg_header",
    "parse_png_header",
    "polygon_runs",
    "pread",
    "preadv",
    "pwrite",
    "ragged_column",
    "read_head",
    "read_record",
    "read_request",
    "readv",
    "refuse_special",
    "register",
    "resampled_by",
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
    "untiled",
    "untiled_column",
    "voxels_apart",
    "widened",
    "widened_column",
    "widened_dtype",
    "widened_floats",
    "with_tiles_of",
    "write_record",
    "writev",
]
