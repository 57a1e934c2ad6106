"""Linked samples: stored records, opened to read the files that they name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from tensorlake.reading.fetch.sample_parts import part_column
from tensorlake.storage import Buffer, LinkStore, runtime
from tensorlake.types import Column, EncodedColumn, LinkedSample, OpenedLink, PartSource, SampleMap

__all__ = ["fetch_linked", "file_column", "linked_samples", "opened_links"]

Int64Array = npt.NDArray[np.int64]


def linked_samples(
    files: LinkStore, tensor: str, found: Sequence[PartSource | None], rows: Int64Array
) -> list[LinkedSample | None]:
    """Return the samples that stored links lead to; None for NULL.

    Raises:
        CorruptSampleError: A record is damaged.
    """
    return [
        None
        if one is None
        else LinkedSample.of(one.map.head, one.shape, files, tensor=tensor, row=row)
        for one, row in zip(found, rows.tolist(), strict=True)
    ]


def opened_links(files: LinkStore, column: Column, tensor: str, rows: Int64Array) -> Column:
    """Return a column of stored links whose maps have the samples that they lead to.

    Raises:
        CorruptSampleError: A record is damaged.
    """
    assert isinstance(column, EncodedColumn), "links are stored encoded"
    maps: list[SampleMap | None] = []
    for position, (stored, row) in enumerate(zip(column.samples, rows.tolist(), strict=True)):
        if column.valid is not None and not column.valid[position]:
            maps.append(None)
            continue
        shape = None if column.shapes is None else tuple(column.shapes[position].tolist())
        sample = LinkedSample.of(bytes(stored), shape, files, tensor=tensor, row=row)
        maps.append(OpenedLink(sample.map.head, sample.map.cuts, sample))
    return EncodedColumn(column.samples, column.shapes, column.valid, maps)


def file_column(
    files: LinkStore, found: Sequence[PartSource | None], shape: tuple[int | None, ...]
) -> Column:
    """Read linked files whole, concurrently, and verify them; NULL stays NULL.

    Raises:
        CorruptSampleError: A file is gone, or has changed.
    """
    samples = [one if isinstance(one, LinkedSample) else None for one in found]
    asked = [(one, np.arange(one.map.num_parts)) for one in samples if one is not None]
    wanted = [(one.record.url, [(0, one.record.nbytes)]) for one, _ in asked]
    read = runtime.run(files.read_many(wanted))
    return _verified(
        samples, asked, [_cut(one, own) for (one, _), own in zip(asked, read, strict=True)], shape
    )


def _cut(
    sample: LinkedSample, read: list[Buffer] | FileNotFoundError | EOFError
) -> list[Buffer] | FileNotFoundError | EOFError:
    """Return the parts of a file that was read by one request."""
    if isinstance(read, list):
        (whole,) = read
        spans = map(sample.map.span, range(sample.map.num_parts))
        return [memoryview(whole)[start:stop] for start, stop in spans]
    return read


async def fetch_linked(
    files: LinkStore,
    tensor: str,
    found: Sequence[PartSource | None],
    rows: Int64Array,
    wanted: Sequence[Callable[[SampleMap, tuple[int, ...] | None], Int64Array]],
    shape: tuple[int | None, ...],
) -> Callable[[], Column]:
    """Fetch parts of linked files on the storage loop; see `Reader.fetch_parts`."""
    samples = linked_samples(files, tensor, found, rows)
    asked = [
        (one, choose(one.map, one.shape))
        for one, choose in zip(samples, wanted, strict=True)
        if one is not None
    ]
    read = await files.read_many([(one.record.url, one.ranges(parts)) for one, parts in asked])
    return partial(_verified, samples, asked, read, shape)


def _verified(
    samples: Sequence[LinkedSample | None],
    asked: Sequence[tuple[LinkedSample, Int64Array]],
    read: Sequence[list[Buffer] | FileNotFoundError | EOFError],
    shape: tuple[int | None, ...],
) -> Column:
    buffers: list[list[Buffer]] = []
    for (one, _), answer in zip(asked, read, strict=True):
        if isinstance(answer, FileNotFoundError):
            raise one.gone() from answer
        if isinstance(answer, EOFError):
            raise one.changed() from answer
        buffers.append(answer)
    return part_column(samples, asked, buffers, shape)
