"""InstanceMask: any number of masks per row, one for each object, stored as RLE.

    objects, height, width    u32 each
    counts                    u32 (objects,), the number of runs of each
    runs                      u32, of zeros and ones in turn, columns first (`vision/rle.py`)

An image's masks take a few bytes per edge, not a bit per pixel, and COCO's are ingested and
exported unchanged. Decoding returns bool (objects, height, width).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from tensorlake.errors import CorruptSampleError
from tensorlake.quantities import is_whole_number
from tensorlake.types.base.base import Layout, QueryKind, SampleType, check_default
from tensorlake.types.base.column import Buffer, Column, EncodedColumn, RaggedColumn, offsets_of
from tensorlake.types.base.errors import Place, shape_mismatch, unreadable
from tensorlake.types.base.region import Region, part_of
from tensorlake.types.vision.pixels import as_bools, mask_array
from tensorlake.types.vision.rle import MAX_PIXELS, RunTable, parse_run_lengths, runs_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["InstanceMask", "StoredMasks", "store_masks"]

_NDIM = 3
_U32 = np.dtype("<u4")


@dataclass(frozen=True, slots=True)
class StoredMasks:
    """One row's masks as stored, from runs that are known to fill them."""

    sample: Buffer
    shape: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class InstanceMask(SampleType):
    """Masks that may overlap: bool (objects, height, width).

    Accepts arrays of three axes, and lists of masks: arrays, PNG files, PIL images, COCO's RLE; []
    means no objects. Also the RLE of all objects of one size: {"size": [height, width], "counts":
    [[…], …]}, as exports to tables have them.

    >>> column = InstanceMask().convert([[{"size": [1, 2], "counts": [1, 1]}], []], tensor="mask")
    >>> column.shapes
    array([[1, 1, 2],
           [0, 0, 0]])

    Attributes:
        of: The image tensor that they annotate.
        per: The tensor whose items (boxes) have one mask each.
    """

    kind: ClassVar[str] = "instance_mask"

    of: str | None = None
    per: str | None = None

    def __post_init__(self) -> None:
        check_default(self)

    @property
    def layout(self) -> Layout:
        """Runs."""
        return "encoded"

    @property
    def dtype(self) -> np.dtype:
        """Bool, once decoded."""
        return np.dtype(np.bool_)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Objects, height and width."""
        return (None, None, None)

    @property
    def query_kind(self) -> QueryKind:
        """An array of booleans."""
        return "bool"

    @property
    def is_media(self) -> bool:
        """Pixels are decoded from stored samples."""
        return True

    @property
    def codec_default(self) -> None:
        """None: runs are small numbers, which compress well."""
        return

    def describe(self) -> str:
        """Show the image: ``InstanceMask(of=image)``."""
        return f"InstanceMask(of={self.of})" if self.of else "InstanceMask"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept masks in any of the forms above."""
        shapes = np.zeros((len(samples), _NDIM), dtype=np.int64)
        encoded: list[Buffer] = []
        for position, sample in enumerate(samples):
            if isinstance(sample, StoredMasks):
                shapes[position] = sample.shape
                encoded.append(sample.sample)
                continue
            size, runs = _runs(sample, place, position)
            shapes[position] = len(runs), *size
            encoded.append(_join(size, runs))
        return EncodedColumn(encoded, shapes)

    def decode(
        self, column: Column, *, tensor: str, rows: Sequence[int] | np.ndarray | None = None
    ) -> Column:
        """Return the masks, ragged bool; NULL has no pixels.

        Raises:
            CorruptSampleError: A sample is not as it was stored.
        """
        if not isinstance(column, EncodedColumn):
            return column
        valid = np.ones(len(column), np.bool_) if column.valid is None else column.valid
        shapes = np.zeros((len(column), _NDIM), dtype=np.int64)
        parts: list[np.ndarray] = []
        for position in np.flatnonzero(valid).tolist():
            try:
                masks = _split(column.samples[position])
            except ValueError as error:
                row = position if rows is None else int(rows[position])
                raise _damaged(tensor, row, error) from error
            shapes[position] = masks.shape
            parts.append(masks.reshape(-1))
        values = np.concatenate([np.zeros(0, np.bool_), *parts])
        return RaggedColumn(values, shapes, column.valid)

    def present_region(self, column: Column, region: Region, *, tensor: str, row: int) -> Any:
        """Return a part of some masks; only these objects' runs are filled."""
        if not isinstance(column, EncodedColumn) or not region or not _names_objects(region[0]):
            # zero-argument super() fails in a slotted dataclass, which is created anew
            return SampleType.present_region(self, column, region, tensor=tensor, row=row)
        if column.valid is not None and not column.valid[0]:
            return None
        refused = self.refusal(tensor, row)
        try:
            size, counts, runs = _parse(column.samples[0])
        except ValueError as error:
            raise _damaged(tensor, row, error) from error
        objects = part_of(np.arange(len(counts)), region[:1], refused)
        owners = np.repeat(np.arange(len(counts)), counts)
        chosen = np.atleast_1d(objects)
        picked = [runs[owners == one] for one in chosen]
        masks = _fill(size, counts[chosen], np.concatenate([runs[:0], *picked]))
        first = 0 if is_whole_number(region[0]) else slice(None)
        return part_of(masks, (first, *region[1:]), refused).copy()

    def present_sample(self, sample: bytes) -> Any:
        """Return one row's masks."""
        return _split(sample)

    def parse_runs(self, sample: Buffer) -> tuple[tuple[int, int], np.ndarray, np.ndarray]:
        """Return a stored sample's size, the number of runs of each object, and all runs.

        Raises:
            CorruptSampleError: It is not a sample of masks.
        """
        try:
            return _parse(sample)
        except ValueError as error:
            message = f"a sample holds no masks: {error}; run tensorlake check"
            raise CorruptSampleError(message) from error

    def run_lengths(self, sample: Buffer) -> list[dict[str, Any]]:
        """Return a stored sample's masks as COCO's RLE, without filling them.

        Raises:
            CorruptSampleError: It is not a sample of masks.
        """
        size, counts, runs = self.parse_runs(sample)
        parts = np.split(runs, np.cumsum(counts)[:-1]) if len(counts) else []
        return [{"size": [*size], "counts": part.tolist()} for part in parts]

    def stored_runs(self, sample: Buffer) -> list[dict[str, Any]] | dict[str, Any]:
        """Return a stored sample's masks as ``extend`` takes them, with the size where none is.

        Raises:
            CorruptSampleError: It is not a sample of masks.
        """
        size, counts, _ = self.parse_runs(sample)
        return self.run_lengths(sample) if len(counts) else {"size": [*size], "counts": []}


def store_masks(table: RunTable, objects: np.ndarray) -> list[StoredMasks]:
    """Store the masks of many rows at once.

    Args:
        table: Their runs, row after row; the masks of one row have one size.
        objects: The number of masks of each row, at least one.

    >>> table = RunTable(np.array([[1, 2]]), np.array([2]), np.array([1, 1]))
    >>> store_masks(table, np.array([1]))[0].shape
    (1, 1, 2)
    """
    firsts = offsets_of(objects)
    bounds = offsets_of(table.counts)[firsts].tolist()
    counts, runs = table.counts.astype(_U32).data, table.runs.astype(_U32).data
    heads = np.column_stack((objects, table.sizes[firsts[:-1]])).astype(_U32)
    stops = firsts.tolist()
    stored: list[StoredMasks] = []
    for row, (count, height, width) in enumerate(heads.tolist()):
        parts = (
            heads[row].data,
            counts[stops[row] : stops[row + 1]],
            runs[bounds[row] : bounds[row + 1]],
        )
        stored.append(StoredMasks(b"".join(parts), (count, height, width)))
    return stored


def _runs(sample: Any, place: Place, position: int) -> tuple[tuple[int, int], list[np.ndarray]]:
    if isinstance(sample, Mapping):
        return _runs_of_objects(cast("Mapping[str, Any]", sample), place, position)
    if isinstance(sample, (list, tuple)) and any(map(_is_mask, cast("list[Any]", sample))):
        found = [_run_of(item, place, position) for item in cast("list[Any]", sample)]
    else:
        stack = mask_array(sample, place, position, ndim=_NDIM)
        if not len(stack):
            return (stack.shape[1], stack.shape[2]), []
        found = [_run_of(mask, place, position) for mask in stack]
    sizes = {size for size, _ in found}
    if len(sizes) > 1:
        shown = ", ".join(f"{height} × {width}" for height, width in sorted(sizes))
        raise shape_mismatch(place, position, f"masks of different sizes: {shown}")
    return sizes.pop(), [runs for _, runs in found]


def _runs_of_objects(
    sample: Mapping[str, Any], place: Place, position: int
) -> tuple[tuple[int, int], list[np.ndarray]]:
    """Parse the RLE of objects of one size, whose size is known without objects, too."""
    try:
        each = [{"size": sample["size"], "counts": one} for one in sample["counts"]]
        height, width = map(int, sample["size"])
    except (KeyError, TypeError, ValueError) as error:
        reason = f"has invalid RLE of objects: {error}"
        hint = "give {'size': [height, width], 'counts': [[…], …]}"
        raise unreadable(place, position, reason, hint=hint) from error
    if height < 0 or width < 0:
        reason = f"has masks of {height} × {width} pixels"
        raise unreadable(place, position, reason, hint="sizes are at least 0")
    return (height, width), [_run_of(one, place, position)[1] for one in each]


def _names_objects(index: Any) -> bool:
    return is_whole_number(index) or isinstance(index, slice)


def _damaged(tensor: str, row: int, error: ValueError) -> CorruptSampleError:
    message = f"row {row} of {tensor!r} holds no masks: {error}; run tensorlake check"
    return CorruptSampleError(message, tensor=tensor, row=row)


def _is_mask(item: Any) -> bool:
    return not isinstance(item, (list, tuple))


def _run_of(item: Any, place: Place, position: int) -> tuple[tuple[int, int], np.ndarray]:
    if isinstance(item, Mapping):
        try:
            return parse_run_lengths(cast("Mapping[str, Any]", item))
        except (KeyError, TypeError, ValueError) as error:
            reason = f"has invalid RLE: {error}"
            hint = "give {'size': [height, width], 'counts': …}, as COCO does"
            raise unreadable(place, position, reason, hint=hint) from error
    mask = as_bools(mask_array(item, place, position), place, position)
    return (mask.shape[0], mask.shape[1]), runs_of(mask)


def _join(size: tuple[int, int], runs: Sequence[np.ndarray]) -> bytes:
    head = np.array([len(runs), *size, *map(len, runs)], dtype=_U32)
    parts: Iterable[np.ndarray] = (one.astype(_U32) for one in runs)
    return b"".join([head.tobytes(), *(part.tobytes() for part in parts)])


def _split(sample: Buffer) -> np.ndarray:
    """Decode a stored sample; ValueError unless `_join` would produce it exactly."""
    return _fill(*_parse(sample))


def _fill(size: tuple[int, int], counts: np.ndarray, runs: np.ndarray) -> np.ndarray:
    height, width = size
    ones = (np.arange(len(runs)) - np.repeat(offsets_of(counts)[:-1], counts)) % 2 == 1
    flat = np.repeat(ones, runs)
    return flat.reshape(len(counts), width, height).transpose(0, 2, 1).copy()


def _parse(sample: Buffer) -> tuple[tuple[int, int], np.ndarray, np.ndarray]:
    """Return size, number of runs of each object, and runs; ValueError for an invalid sample."""
    if len(sample) % _U32.itemsize or len(sample) < _NDIM * _U32.itemsize:
        raise ValueError(f"{len(sample)} bytes")
    numbers = np.frombuffer(sample, _U32).astype(np.int64)
    objects, height, width = numbers[:_NDIM].tolist()
    counts = numbers[_NDIM : _NDIM + objects]
    runs = numbers[_NDIM + objects :]
    if len(counts) != objects or int(counts.sum()) != len(runs):
        raise ValueError(f"runs of {objects} objects that do not exist")
    if objects * height * width > MAX_PIXELS:
        raise ValueError(f"{objects} × {height} × {width} pixels")
    bounds = offsets_of(counts)
    covered = np.add.reduceat(np.append(runs, 0), bounds[:-1]) if objects else np.zeros(0, np.int64)
    if bool((np.where(counts == 0, 0, covered) != height * width).any()):
        raise ValueError("runs that do not fill the masks")
    return (height, width), counts, runs
