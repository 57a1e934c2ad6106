"""Link: samples that stay in their files; the dataset stores where these are, and how to read them.

    {"clip": "s3://films/0001.mp4"}     the URL of a file in a store
    {"clip": Path("/data/0001.mp4")}    a local file, stored as its absolute path
    {"clip": "films/0001.mp4"}          a file below the dataset's own URL: a relative link

A file is read once, when it is linked: it is checked as a sample of the linked type, and its map is
stored, with a sum for each part. A row then reads as one of that type does, by the ranges that it
needs, and bytes that are not those of the linked file are an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from tensorlake.errors import AccessError, SchemaError
from tensorlake.types.base.base import MEDIA_CHUNK_NBYTES, SampleType
from tensorlake.types.base.column import Buffer, Column, EncodedColumn, SampleMap
from tensorlake.types.base.errors import Place, describe_value, dtype_mismatch, unreadable
from tensorlake.types.base.file import Content, FileView
from tensorlake.types.base.mixins import Media
from tensorlake.types.base.parts import MemorySample
from tensorlake.types.base.region import part_of
from tensorlake.types.base.registry import as_type, from_json
from tensorlake.types.links.record import read_record, record_of, write_record
from tensorlake.types.links.source import LinkedSample, LinkOpener, OpenedLink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensorlake.types.base.parts import SampleHandle, SampleParts

__all__ = ["Link", "LinkedFile"]

_HEAD_NBYTES = 4096  # by which types tell formats apart
_CHUNK_NBYTES = MEDIA_CHUNK_NBYTES // 8


@dataclass(frozen=True, slots=True)
class LinkedFile:
    """A file that was read to be linked; see `Link.link`.

    Attributes:
        record: Its record, as it is stored.
        shape: Shape of its sample, if the type has one.
    """

    record: bytes = field(repr=False)
    shape: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Link(Media, SampleType):
    """Samples of another type in files that stay where they are.

    >>> import tensorlake as tl
    >>> tl.Link(tl.Video()).describe(), tl.Link(tl.Image("jpeg")).shape
    ('Link(Video)', (None, None, 3))

    Attributes:
        of: The type of the files: one that stores a file as it is, such as `Video`, `Audio`, `Mesh`
            and `Image`; or its short form.
    """

    kind: ClassVar[str] = "link"

    of: Any = field()  # Any: an argument of as_type(); a SampleType after __init__

    def __post_init__(self) -> None:
        linked = from_json(self.of) if isinstance(self.of, Mapping) else as_type(self.of)
        if not linked.keeps_files:
            raise SchemaError(
                f"Link({linked.describe()}): its samples are not stored as files, so that none"
                " can be linked\nlink Video, Audio, Mesh or Image; ingest others:"
                " tl.ingest.nifti(src, dst)",
                actual=linked,
            )
        if linked.has_default:
            raise SchemaError(
                f"Link({linked.describe()}): the linked type has nullable= or default="
                "\ngive nullable= to the Link",
                actual=linked,
            )
        object.__setattr__(self, "of", linked)

    @property
    def linked(self) -> SampleType:
        """The type of the files."""
        return cast("SampleType", self.of)

    @property
    def file_type(self) -> SampleType:
        """The type of a tensor that has the files themselves, NULL where the link is."""
        is_personal = self.personal or self.linked.personal
        return replace(self.linked, nullable=self.nullable, personal=is_personal)

    @property
    def dtype(self) -> np.dtype | None:
        """Dtype of the linked samples."""
        return self.linked.dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Shape of the linked samples."""
        return self.linked.shape

    @property
    def is_lazy(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - as the linked type is
        """Whether a row gives a handle, as one of the linked type does."""
        return self.linked.is_lazy

    @property
    def has_parts(self) -> bool:
        """Links have maps."""
        return True

    @property
    def handle_class(self) -> type[SampleHandle]:
        """The class of the linked type's handles."""
        return self.linked.handle_class

    @property
    def handle_type(self) -> SampleType:
        """The linked type, as which a handle reads the file."""
        return self.linked

    @property
    def drawn_as(self) -> str:
        """As the files are drawn, by a server that follows links."""
        return self.linked.drawn_as

    @property
    def media_type(self) -> str:
        """A record is of no MIME type; see `media_type_of`."""
        return "application/octet-stream"

    def media_type_of(self, sample: Buffer) -> str:
        """Return the MIME type of the linked file."""
        try:
            return read_record(bytes(sample)).media_type
        except ValueError:
            return self.media_type

    @property
    def chunk_nbytes(self) -> int:
        """Records are small, and their maps are in the chunk's header."""
        return _CHUNK_NBYTES

    def to_json(self) -> dict[str, Any]:
        """Return the type as JSON, the linked type within."""
        return {**SampleType.to_json(self), "of": self.linked.to_json()}

    def describe(self) -> str:
        """Show the linked type: ``Link(Video)``."""
        return f"Link({self.linked.describe()})"

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        return f"the URL or Path of a file ({self.describe()})"

    # ---- writing

    def link(
        self, file: FileView, place: Place, position: int, *, url: str, etag: str
    ) -> LinkedFile:
        """Check a file as a sample of the linked type, and make its record.

        Args:
            file: The file.
            place: Where its link was given, for errors.
            position: Which of the samples there it is.
            url: The URL to store.
            etag: The store's tag of the file's content; "" if unknown.

        Raises:
            InvalidInputError: It is not a sample of the linked type.
        """
        if not len(file):
            raise unreadable(place, position, f"cannot link {url!r}: it is empty")
        content: Content = file
        place = replace(place, declared=self.linked)
        mapped = self.linked.map_file(file, place, position)
        if mapped is None:
            content = bytes(file)
            mapped = self._map_of(content, place, position, url=url)
        own, shape = mapped
        media_type = self.linked.media_type_of(bytes(content[:_HEAD_NBYTES])) or self.media_type
        record = record_of(content, own, url=url, etag=etag, media_type=media_type)
        return LinkedFile(write_record(record), shape if self.shape else None)

    def _map_of(
        self, content: bytes, place: Place, position: int, *, url: str
    ) -> tuple[SampleMap, tuple[int, ...] | None]:
        """Return the map and the shape of a sample that is checked in memory."""
        row = place.row(position) - place.row_start
        column = self.linked.convert_values([content], place.without(np.array([row])))
        assert isinstance(column, EncodedColumn), "the linked type keeps files"
        if bytes(column.samples[0]) != content:
            hint = "store it in the dataset: use the linked type itself"
            reason = f"cannot link {url!r}: {self.linked.describe()} would change the file"
            raise unreadable(place, position, reason, hint=hint)
        own = None if column.maps is None else column.maps[0]
        shape = None if column.shapes is None else tuple(column.shapes[0].tolist())
        return own or SampleMap(b"", np.array([len(content)])), shape

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept files that were read to be linked, which the calls that stage rows do."""
        records: list[Buffer] = []
        shapes: list[tuple[int, ...]] = []
        for position, sample in enumerate(samples):
            if not isinstance(sample, LinkedFile):
                hint = "give a URL or Path to append(), extend() or ds[name][row] = …"
                raise dtype_mismatch(place, position, describe_value(sample), hint=hint)
            records.append(sample.record)
            if sample.shape is not None:
                shapes.append(sample.shape)
        table = None
        if self.shape and len(shapes) == len(records):
            table = np.array(shapes, np.int64).reshape(-1, len(self.shape))
        maps = [SampleMap(bytes(one), np.array([len(one)])) for one in records]
        return EncodedColumn(records, table, None, maps)

    # ---- reading

    def map_of(self, sample: Buffer, *, tensor: str, row: int) -> SampleMap:
        """Make the map of a stored record: the record itself, and no cuts."""
        del tensor, row
        return SampleMap(bytes(sample), np.array([len(sample)]))

    def wanted_parts(
        self, sample_map: SampleMap, request: Any, *, tensor: str, row: int
    ) -> np.ndarray:
        """Return the parts of the file that a request needs; all, of a type without parts."""
        if self.linked.has_parts:
            return self.linked.wanted_parts(sample_map, request, tensor=tensor, row=row)
        return np.arange(sample_map.num_parts)

    def decode_parts(self, sample: SampleParts, request: Any, *, tensor: str, row: int) -> Any:
        """Decode what a request asks for, as the linked type does.

        Raises:
            CorruptSampleError: The parts cannot be decoded.
        """
        if self.linked.has_parts:
            return self.linked.decode_parts(sample, request, tensor=tensor, row=row)
        content = sample.read(0, sample.map.nbytes)
        whole = self.linked.decode_sample(content, tensor=tensor, row=row)
        return part_of(whole, request, self.refusal(tensor, row)) if request else whole

    def decode(
        self, column: Column, *, tensor: str, rows: Sequence[int] | np.ndarray | None = None
    ) -> Column:
        """Read the files of links that are opened, of a type whose rows are not handles.

        Raises:
            CorruptSampleError: A file is gone, has changed, or cannot be decoded.
        """
        if not isinstance(column, EncodedColumn) or self.is_lazy:
            return column
        contents: list[Buffer] = []
        for position in range(len(column)):
            if column.valid is not None and not column.valid[position]:
                contents.append(b"")
                continue
            contents.append(_opened(self, column, position).content)
        files = EncodedColumn(contents, column.shapes, column.valid)
        return self.linked.decode(files, tensor=tensor, rows=rows)

    def open_sample(self, files: LinkOpener, sample: Buffer, *, tensor: str, row: int) -> Any:
        """Return a handle of the file that a stored record names.

        Raises:
            CorruptSampleError: The record is damaged.
        """
        linked = LinkedSample.of(bytes(sample), None, files, tensor=tensor, row=row)
        return self.handle_class(self.linked, linked)

    def present_one(self, column: Column, position: int) -> Any:
        """Return a handle of the linked file, or its decoded sample; None when it is NULL."""
        if not isinstance(column, EncodedColumn):
            return self.linked.present_one(column, position)
        if column.valid is not None and not column.valid[position]:
            return None
        return self.handle_class(self.linked, _opened(self, column, position))


def _opened(kind: Link, column: EncodedColumn, position: int) -> LinkedSample:
    own = None if column.maps is None else column.maps[position]
    if isinstance(own, OpenedLink) and own.sample is not None:
        return own.sample
    stored = MemorySample.of(kind, column, position)
    raise AccessError(
        f"a link of {kind.describe()} ({stored.map.nbytes:,} bytes) was read without its dataset"
        "\nread it from the dataset: ds[name][row]"
    )
