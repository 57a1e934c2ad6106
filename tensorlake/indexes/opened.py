"""Indexes of a version, ready to be searched.

An index NAME is the column group ``index/NAME``, whose ``covers`` has one tensor. Only rows that
it covers unchanged are looked up in it. A version opened after another keeps its indexes in memory,
and compares again only those of tensors that changed.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.errors import (
    CorruptionError,
    DamagedIndexWarning,
    IndexNotFoundError,
    SnapshotExpiredError,
    did_you_mean,
    shown,
)
from tensorlake.format import (
    INDEXES,
    ColumnGroup,
    Coverage,
    Extents,
    Root,
    TensorSpec,
    unchanged_rows,
)
from tensorlake.indexes.kind import RowRanges
from tensorlake.indexes.parts import GroupParts
from tensorlake.indexes.ranges import apart_from, common, united
from tensorlake.indexes.rewritten import unchanged_cells
from tensorlake.reading import Reader, Snapshot
from tensorlake.storage import runtime

__all__ = [
    "LENGTHS",
    "MADE",
    "PREFIX",
    "Attempt",
    "OpenIndex",
    "covered_tensor",
    "index_names",
    "open_index",
    "open_indexes",
    "scan_where_damaged",
]

PREFIX = INDEXES
"""Begins the names of column groups that are indexes."""

LENGTHS, MADE = "lengths", "made"
"""The parameters of such a group: the length of each part, and what the kind was built with."""


@dataclass(frozen=True, eq=False)
class OpenIndex:
    """An index of a version.

    Attributes:
        name: Its name.
        kind: The name of its kind.
        spec: The tensor that it is of, as the version has it.
        parts: Reads its parts.
        covered: The physical rows whose cells are as they were when it was made.
        physical: The number of physical rows of the version.
        group: The column group that it is.
        root: The tensor's index in the version.
    """

    name: str
    kind: str
    spec: TensorSpec
    parts: GroupParts
    covered: RowRanges
    physical: int
    group: ColumnGroup
    root: Root[Extents]

    @cached_property
    def share(self) -> float:
        """The share of the physical rows that it covers; 1 where there are none."""
        rows = int((self.covered[:, 1] - self.covered[:, 0]).sum())
        return rows / self.physical if self.physical else 1.0

    @cached_property
    def path(self) -> tuple[str, ...]:
        """The keys under which it has values of a JSON column; none of other columns."""
        return tuple(self.parts.parameters.get("path", ()))

    @cached_property
    def uncovered(self) -> RowRanges:
        """The physical rows that it does not cover."""
        return apart_from(self.covered, self.physical)

    def covers(self) -> npt.NDArray[np.bool_]:
        """Return for each physical row whether it is covered."""
        mask = np.zeros(self.physical, np.bool_)
        for start, stop in self.covered.tolist():
            mask[start:stop] = True
        return mask


@dataclass(slots=True)
class Attempt:
    """Whether an index could be used."""

    failed: bool = False


@contextmanager
def scan_where_damaged(what: str, *, url: str) -> Generator[Attempt]:
    """Warn of a damaged index, and continue after the block; ``failed`` tells that it was left.

    Args:
        what: The index, or the tensor that it is of.
        url: The dataset.
    """
    attempt = Attempt()
    try:
        yield attempt
    except (CorruptionError, SnapshotExpiredError) as error:
        attempt.failed = True
        first = str(error).splitlines()[0]
        warnings.warn(
            f"the index {what!r} of {url!r} cannot be read, so its column is scanned: {first}"
            "\ntensorlake check --repair builds it again",
            DamagedIndexWarning,
            stacklevel=4,
        )


def index_names(snapshot: Snapshot, tensor_id: str | None = None) -> list[str]:
    """List the indexes of a version, or of one of its tensors."""
    return [
        name.removeprefix(PREFIX)
        for name, group in snapshot.state.groups.items()
        if name.startswith(PREFIX)
        and (of := covered_tensor(group)) in snapshot.state.roots
        and (tensor_id is None or of == tensor_id)
    ]


def covered_tensor(group: ColumnGroup) -> str | None:
    """Return the id of the tensor that an index is of; None where it covers none, or several."""
    return next(iter(group.covers)) if len(group.covers) == 1 else None


def open_indexes(reader: Reader, tensor: str) -> list[OpenIndex]:
    """Open the indexes of a tensor, by name.

    Raises:
        CorruptionError: One is damaged.
    """
    tensor_id = reader.snapshot.spec(tensor).id
    return [open_index(reader, name) for name in index_names(reader.snapshot, tensor_id)]


def open_index(reader: Reader, name: str) -> OpenIndex:
    """Open an index.

    Raises:
        IndexNotFoundError: There is none of this name.
        CorruptionError: It is damaged.
    """
    snapshot = reader.snapshot
    is_text = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
    group = snapshot.state.groups.get(f"{PREFIX}{name}") if is_text else None
    of = None if group is None else covered_tensor(group)
    if group is None or of is None or of not in snapshot.state.roots:
        known = index_names(snapshot)
        listed = f"it has {', '.join(map(repr, known))}" if known else "it has none"
        raise IndexNotFoundError(
            f"{snapshot.url!r} has no index {shown(name)} at {snapshot.version}"
            f"{did_you_mean(name, known) if is_text else ''}"
            f"\n{listed}; ds.create_index(column) makes one",
            name=name,
        )
    before: Any = snapshot.opened.get(name)
    root, spec = snapshot.state.roots[of], snapshot.schema.by_id(of)
    assert spec is not None, "it has a root"
    was = before if isinstance(before, OpenIndex) and _is_same(before.group, group) else None
    if was is not None and was.group is group and was.root is root and was.spec == spec:
        return was
    parts = _parts(reader, name, group, spec) if was is None else was.parts
    covered = _covered(reader, group.covers[of], spec, root, was)
    made = OpenIndex(name, group.kind, spec, parts, covered, snapshot.state.physical, group, root)
    snapshot.opened[name] = made
    return made


def _covered(
    reader: Reader,
    coverage: Coverage,
    spec: TensorSpec,
    root: Root[Extents],
    was: OpenIndex | None,
) -> RowRanges:
    """Return the rows whose cells are as they were: in place, or rewritten with equal values."""
    pages = reader.snapshot.packs.pages
    covered = runtime.run(coverage.rows(spec.to_json(), root, pages))
    if not coverage.is_read_as(spec.to_json()):
        return covered
    if was is not None and len(was.covered):
        kept = runtime.run(unchanged_rows(was.root, root, pages))
        covered = united(covered, common(was.covered, kept))
    return united(covered, unchanged_cells(reader, spec, coverage.state, root, covered))


def _is_same(one: ColumnGroup, other: ColumnGroup) -> bool:
    return one is other or (set(one.roots) == set(other.roots) and one.rows == other.rows)


def _parts(reader: Reader, name: str, group: ColumnGroup, spec: TensorSpec) -> GroupParts:
    parts = reader.group(f"{PREFIX}{name}")
    assert parts is not None, "the version has the group"
    lengths: Any = group.parameters.get(LENGTHS)
    made: Any = group.parameters.get(MADE)
    names = {spec.name for spec in parts.snapshot.schema.tensors}
    if not isinstance(lengths, dict) or not isinstance(made, dict) or {*lengths} != names:
        raise CorruptionError(
            f"the index {name!r} of {reader.snapshot.url!r} does not record how long its parts are"
            f"\ndrop it and create it again: ds.drop_index({name!r})",
            object=f"{PREFIX}{name}",
        )
    return GroupParts(parts, made, lengths, reader.snapshot.chunk_index(spec.id))
