"""PointCloud: points with fields, stored by levels of detail and read in parts.

    {"points": "scans/0001.laz"}                          LAS, LAZ, PLY, PCD, NPZ, NPY
    {"points": array}                                     (n, 3): x, y, z; or a structured array
    {"points": {"x": x, "y": y, "z": z, "label": label}}  columns by name
    {"points": "velodyne/000008.bin"}                     with tl.PointCloud(fields, raw="float32")

A file's columns are kept in its dtypes, and its points in another order (`levels`): three random
levels of detail, each sorted along a curve in space, in blocks. A level or a box reads its blocks
only. The points read are those of the file to the bit, as a set; ``index=True`` adds the field
``index``, the number of each point in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from tensorlake.errors import CorruptSampleError, InvalidInputError, SchemaError, shown
from tensorlake.quantities import check_flags, checked_integer, human_nbytes
from tensorlake.types.base.base import SampleType, check_default
from tensorlake.types.base.casting import to_array
from tensorlake.types.base.column import Buffer, Column, EncodedColumn, SampleMap
from tensorlake.types.base.dtypes import parse_dtype
from tensorlake.types.base.errors import (
    Place,
    damaged_before,
    describe_value,
    listed,
    shape_mismatch,
    unreadable,
)
from tensorlake.types.base.file import File, given_bytes
from tensorlake.types.base.mixins import Media
from tensorlake.types.base.parts import MemorySample, SampleParts
from tensorlake.types.points.blocks import (
    MAGIC,
    PointMap,
    map_of_points,
    read_blocks,
    read_head,
    store_points,
)
from tensorlake.types.points.cloud import AXES, Cloud, columns_of_table
from tensorlake.types.points.files.parse import form_of, parse_points, parse_raw
from tensorlake.types.points.handle import PointCloudHandle
from tensorlake.types.points.request import blocks_of, read_points, request_of

__all__ = ["PointCloud"]

INDEX = "index"
_EXPANSION = 100  # LAZ of a scan expands 5 to 20 times, a zip file at most 1,032 times
_MEDIA_TYPE = "application/vnd.tensorlake.points"


@dataclass(frozen=True, slots=True)
class PointCloud(Media, SampleType):
    """Points with fields in the dtypes of their file, read whole, by level of detail or in a box.

    >>> PointCloud(("x", "y", "z", "intensity")).describe()
    'PointCloud(x, y, z, intensity)'

    Attributes:
        fields: The fields to keep, among them x, y and z, and the names of the columns of arrays
            without names; None: all that a sample has.
        raw: Dtype of the numbers of files without a header, such as "float32" of KITTI's ``.bin``,
            which hold `fields` point after point; None: such files are refused.
        index: Whether to add the field ``index``, uint32: the number of each point in its file.
        max_nbytes: Bytes of points up to which a file may decompress without bound; a larger one
            is refused if it has less than a hundredth.
    """

    kind: ClassVar[str] = "point_cloud"
    is_lazy: ClassVar[bool] = True

    fields: tuple[str, ...] | None = None
    raw: str | None = None
    index: bool = False
    max_nbytes: int = 1 << 26

    def __post_init__(self) -> None:
        check_flags(index=self.index)
        if self.fields is not None:
            object.__setattr__(self, "fields", _field_names(self.fields))
        if self.raw is not None:
            object.__setattr__(self, "raw", parse_dtype(self.raw).name)
            if self.fields is None:
                raise SchemaError(
                    "PointCloud: raw= needs the fields of files without a header"
                    '\nname them: tl.PointCloud(("x", "y", "z", "intensity"), raw="float32")'
                )
        try:
            most = checked_integer(
                self.max_nbytes, name="PointCloud: max_nbytes", least=1, most=1 << 62
            )
        except InvalidInputError as error:
            raise SchemaError(str(error), actual=self.max_nbytes) from error
        object.__setattr__(self, "max_nbytes", most)
        check_default(self)

    @property
    def dtype(self) -> None:
        """No one dtype: each field has its own."""
        return

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Number of points."""
        return (None,)

    @property
    def handle_class(self) -> type[PointCloudHandle]:
        """The class of handles."""
        return PointCloudHandle

    @property
    def media_type(self) -> str:
        """MIME type of the stored form."""
        return _MEDIA_TYPE

    def describe(self) -> str:
        """Show the fields, if given: ``PointCloud(x, y, z, intensity)``."""
        return "PointCloud" if self.fields is None else f"PointCloud({', '.join(self.fields)})"

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        return f"a file of LAS, LAZ, PLY, PCD or NPZ, or an array of points ({self.describe()})"

    def missing_fields(self, names: Iterable[str]) -> list[str]:
        """Return those of some names that no sample has as a field; none where samples differ."""
        if self.fields is None:
            return []
        own = (*self.fields, INDEX) if self.index else self.fields
        return [name for name in names if name not in own]

    # ---- writing

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept paths, bytes, files, handles, arrays and columns by name."""
        encoded: list[Buffer] = []
        counts: list[int] = []
        maps: list[SampleMap] = []
        for position, sample in enumerate(samples):
            try:
                content, own = self._stored(sample, place, position)
                counts.append(read_head(own.head).points)
            except ValueError as error:
                if isinstance(error, InvalidInputError):
                    raise
                reason, _, hint = str(error).partition("\n")
                reason = f"cannot take {_named(sample)}: {reason}"
                raise unreadable(place, position, reason, hint=hint) from error
            encoded.append(content)
            maps.append(own)
        shapes = np.array(counts, np.int64).reshape(-1, 1)
        return EncodedColumn(encoded, shapes, None, maps)

    def _stored(self, sample: Any, place: Place, position: int) -> tuple[Buffer, SampleMap]:
        is_handle = isinstance(sample, PointCloudHandle)
        content = sample.content if is_handle else given_bytes(sample, place, position)
        if content is not None and bytes(memoryview(content)[: len(MAGIC)]) == MAGIC:
            own = map_of_points(content)
            cloud = self._cloud_of(content, own)
            if self._chosen(cloud) is cloud:
                return content, own
        elif content is not None:
            cloud = self._parsed(content)
        else:
            cloud = self._given(sample, place, position)
        return store_points(self._chosen(cloud))

    def _parsed(self, content: Buffer) -> Cloud:
        form = form_of(content)
        if form is not None:
            limit = max(self.max_nbytes, _EXPANSION * len(content))
            return parse_points(content, form, self.fields, limit=limit)
        if self.raw is not None and self.fields is not None:
            return parse_raw(content, parse_dtype(self.raw), self.fields)
        raise ValueError(
            "it is not LAS, LAZ, PLY, PCD, NPZ or NPY"
            '\nof a file without a header: tl.PointCloud(fields, raw="float32")'
        )

    def _given(self, sample: Any, place: Place, position: int) -> Cloud:
        if isinstance(sample, Mapping):
            columns = cast("Mapping[str, Any]", sample)
            arrays = {str(name): to_array(one) for name, one in columns.items()}
            return Cloud.of(arrays)
        try:
            array = to_array(sample)
        except ValueError as error:
            raise shape_mismatch(place, position, describe_value(sample)) from error
        return Cloud.of(columns_of_table(array, self.fields))

    def _chosen(self, cloud: Cloud) -> Cloud:
        """Return the fields that are kept; the same cloud if it has them."""
        names = [one.name for one in cloud.fields]
        wanted = names if self.fields is None else list(self.fields)
        if self.index and INDEX not in names:
            numbers = np.arange(len(cloud), dtype="<u4")
            columns = {one: cloud.column(one) for one in names} | {INDEX: numbers}
            scaled = {one.name: one.scaling for one in cloud.fields if one.scaling is not None}
            cloud = Cloud.of(columns, scaled, cloud.projection)
        if self.index and INDEX not in wanted:
            wanted.append(INDEX)
        return cloud if wanted == [one.name for one in cloud.fields] else cloud.only(wanted)

    def _cloud_of(self, content: Buffer, own: SampleMap) -> Cloud:
        """Decode a stored sample that came as bytes, whole."""
        known = read_head(own.head)
        promised = known.points * sum(one.nbytes for one in known.fields)
        if promised > max(self.max_nbytes, _EXPANSION * len(content)):
            raise ValueError(
                f"{len(content):,} bytes promise {human_nbytes(promised)} of points"
                "\nto accept it: tl.PointCloud(max_nbytes=…)"
            )
        parts = MemorySample(content, own).fetch(np.arange(own.num_parts))
        blocks = np.arange(own.num_parts - 1)
        names = [one.name for one in known.fields]
        columns = read_blocks(SampleParts(own, parts), known, blocks, names)
        return Cloud(known.fields, tuple(columns), known.projection)

    # ---- reading

    def npz(self, sample: Buffer) -> bytes:
        """Return a stored sample as a NumPy ``.npz`` file with an array per field."""
        own = self.map_of(sample, tensor="", row=0)
        return PointCloudHandle(self, MemorySample(sample, own)).npz()

    def map_of(self, sample: Buffer, *, tensor: str, row: int) -> SampleMap:
        """Make the map of a stored sample from its bytes."""
        try:
            return map_of_points(sample)
        except ValueError as error:
            raise self._corrupt(str(error), tensor, row) from error

    def wanted_parts(
        self, sample_map: SampleMap, request: Any, *, tensor: str, row: int
    ) -> np.ndarray:
        """Return the numbers of the parts that hold the points of a request."""
        known = self._known(sample_map, tensor, row)
        return blocks_of(known, request_of(request), self.refusal(tensor, row)) + 1

    def decode_parts(self, sample: SampleParts, request: Any, *, tensor: str, row: int) -> Any:
        """Decode the points of a request.

        Raises:
            CorruptSampleError: The parts do not decode to these points.
        """
        known = self._known(sample.map, tensor, row)
        try:
            return read_points(known, sample, request_of(request), self.refusal(tensor, row))
        except ValueError as error:
            if isinstance(error, InvalidInputError):
                raise
            raise self._corrupt(str(error), tensor, row) from error

    def _known(self, sample_map: SampleMap, tensor: str, row: int) -> PointMap:
        try:
            return read_head(sample_map.head)
        except ValueError as error:
            raise self._corrupt(str(error), tensor, row) from error

    def _corrupt(self, reason: str, tensor: str, row: int) -> CorruptSampleError:
        return damaged_before(
            "is not a whole point cloud", reason, tensor, row, expected=self.describe()
        )


def _field_names(given: Any) -> tuple[str, ...]:
    names = listed(given)
    if names is None or not all(isinstance(one, str) and one for one in names):
        raise SchemaError(
            f"PointCloud: fields are names, got {shown(given)}"
            '\nwrite tl.PointCloud(("x", "y", "z", "intensity"))',
            actual=given,
        )
    missing = [axis for axis in AXES if axis not in names]
    if missing or len(set(names)) < len(names):
        raise SchemaError(
            f"PointCloud: fields have x, y and z, each name once, got {shown(names)}", actual=given
        )
    return names


def _named(sample: Any) -> str:
    if isinstance(sample, (str, File)) or hasattr(sample, "__fspath__"):
        return repr(str(sample.path if isinstance(sample, File) else sample))
    return (
        f"{describe_value(sample)}"
        if not isinstance(sample, bytes)
        else f"a sample ({len(sample):,} bytes)"
    )
