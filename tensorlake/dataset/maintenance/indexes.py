"""Indexes for users: created, dropped and listed as staged, brought up to date by ``optimize``.

    rows of the handle ── kind.build ──► columns ──► column group index/NAME ── commit ──► a version

The group covers the tensor's chunk index as it was read, so changes staged or committed meanwhile
are never taken for indexed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tensorlake.dataset.core.session import Session
from tensorlake.errors import (
    CorruptionError,
    InvalidInputError,
    SnapshotExpiredError,
    TensorlakeError,
    shown,
)
from tensorlake.format import (
    ChunkKind,
    ColumnGroup,
    Coverage,
    Extents,
    Reads,
    Root,
    Schema,
    TensorSpec,
    tree,
)
from tensorlake.indexes import (
    KINDS,
    LENGTHS,
    MADE,
    PREFIX,
    Built,
    IndexKind,
    OpenIndex,
    Part,
    RowRanges,
    Rows,
    apart_from,
    covered_tensor,
    index_names,
    kind_for,
    open_index,
    scan_where_damaged,
    within,
)
from tensorlake.quantities import human_nbytes
from tensorlake.reading import Reader, nbytes_in_memory
from tensorlake.storage import Store, runtime
from tensorlake.types import Column, concat
from tensorlake.versions import (
    CommitRequest,
    Repair,
    distinct,
    readable_branch_names,
    resolve,
    stored_chunks,
)

__all__ = [
    "IndexInfo",
    "create_index",
    "drop_index",
    "indexes",
    "outdated",
    "rebuild_indexes",
    "rebuilt_indexes",
    "update_indexes",
]


STEP = 1 << 20
"""Physical rows that are looked up together."""


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """An index of a version.

    Attributes:
        name: Its name.
        kind: Its kind.
        column: The tensor that it is of.
        coverage: The share of the rows that it covers, 0 to 1; queries scan the others.
        nbytes: Stored bytes.
        recall: The share of the nearest that an approximate search finds, as measured when it was
            built; None of an exact kind.
        parameters: The options that it was built with, and measurements.
    """

    name: str
    kind: str
    column: str
    coverage: float
    nbytes: int
    recall: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    def __str__(self) -> str:
        recall = "" if self.recall is None else f", recall {self.recall:.3f}"
        return (
            f"{self.name}: {self.kind} of {self.column!r}, covers {self.coverage:.1%},"
            f" {human_nbytes(self.nbytes)}{recall}"
        )


def create_index(
    session: Session, column: str, kind: str | None, name: str | None, options: Mapping[str, Any]
) -> None:
    """Build an index of the handle's rows, and stage it.

    Raises:
        InvalidInputError: The name is taken, or the kind or an option does not suit the column.
    """
    for argument, value in (("column", column), ("kind", kind), ("name", name)):
        if not isinstance(value, str) and (value is not None or argument == "column"):
            raise InvalidInputError(
                f"create_index({argument}={shown(value)}): give a string", argument=argument
            )
    reader = session.reader(session.snapshot())
    spec = reader.snapshot.spec(column)
    if spec.is_virtual:
        raise InvalidInputError(
            f"create_index({shown(column)}): it is computed by an expression, and an index covers"
            " stored cells\nindex a column that it reads, or store its values by a function:"
            " add_tensor(…, compute=function, inputs=[…])",
            tensor=column,
        )
    chosen = kind_for(spec, kind)
    parameters = chosen.options(spec, options)
    name = ".".join((spec.name, *parameters.get("path", ()))) if name is None else name
    if name in index_names(reader.snapshot):
        raise InvalidInputError(
            f"{session.store.url!r} has an index {name!r} already"
            f"\ndrop it first: ds.drop_index({name!r}); or give name= another",
            name=name,
        )
    with session.lock:
        session.staging()  # it can be written
    rows = Rows(spec, _stored_rows(reader, spec), reader)
    _stage(session, name, chosen, reader, spec, chosen.build(rows, parameters))


def drop_index(session: Session, name: str) -> None:
    """Stage that an index is gone.

    Raises:
        IndexNotFoundError: There is none of this name.
    """
    session.check_open()
    snapshot = session.snapshot()
    if name not in index_names(snapshot):
        open_index(session.reader(snapshot), name)  # which raises
    session.drop_group(f"{PREFIX}{name}")


def indexes(session: Session) -> dict[str, IndexInfo]:
    """Describe the indexes of the handle's version; a damaged one covers nothing."""
    snapshot = session.snapshot()
    reader = session.reader(snapshot)
    found: dict[str, IndexInfo] = {}
    for name in index_names(snapshot):
        group = snapshot.state.groups[f"{PREFIX}{name}"]
        spec = snapshot.schema.by_id(covered_tensor(group) or "")
        coverage, nbytes, made = 0.0, 0, dict[str, Any]()
        with scan_where_damaged(name, url=session.store.url):
            opened = open_index(reader, name)
            missing = _shown(reader, opened.uncovered)
            coverage = 1 - missing / max(snapshot.num_rows, 1)
            made = dict(opened.parts.parameters)
            nbytes = _nbytes(opened)
        column = "" if spec is None else spec.name
        recall = made.get("recall")
        found[name] = IndexInfo(name, group.kind, column, coverage, nbytes, recall, made)
    return found


def outdated(session: Session) -> list[str]:
    """List the indexes that do not cover rows which the handle's version shows."""
    reader = session.reader(session.snapshot())
    found: list[str] = []
    for name in index_names(reader.snapshot):
        with scan_where_damaged(name, url=session.store.url) as attempt:
            if _shown(reader, open_index(reader, name).uncovered):
                found.append(name)
        if attempt.failed:
            found.append(name)
    return found


def update_indexes(session: Session) -> list[str]:
    """Bring the indexes of the newest version up to date, in one commit; return their names.

    A damaged index is built again. Rows that did not change keep their entries.
    """
    names = outdated(session)
    if not names:
        return []
    reader = session.reader(session.snapshot())
    done: list[str] = []
    for name in names:
        group = reader.snapshot.state.groups[f"{PREFIX}{name}"]
        spec = reader.snapshot.schema.by_id(covered_tensor(group) or "")
        kind = KINDS.get(group.kind)
        if spec is None or kind is None:
            continue  # of another version of tensorlake
        _stage(session, name, kind, reader, spec, _updated(session, reader, name, kind, spec))
        done.append(name)
    if done:
        message = f"optimize: the index{'es' if len(done) > 1 else ''} {', '.join(done)}"
        session.commit(CommitRequest(message))
    return done


def rebuild_indexes(session: Session) -> list[str]:
    """Build all indexes of the newest version again, from nothing; return their names."""
    return [one.what for one in _rebuilt(session, index_names(session.committed))]


def rebuilt_indexes(store: Store) -> list[Repair]:
    """Build damaged indexes of each branch's newest version again, as commits; report them."""
    done: list[Repair] = []
    for branch in runtime.run(readable_branch_names(store)):
        try:
            session = Session(store, runtime.run(resolve(store, branch)))
            names = [name for name in index_names(session.committed) if _is_damaged(session, name)]
            done += _rebuilt(session, names)
        except TensorlakeError as error:
            first = str(error).splitlines()[0]
            done.append(Repair(f"indexes of {branch!r}", first, is_recovered=False))
    return done


def _rebuilt(session: Session, names: Sequence[str]) -> Iterator[Repair]:
    reader = session.reader(session.committed)
    built: list[str] = []
    for name in names:
        group = reader.snapshot.state.groups[f"{PREFIX}{name}"]
        spec = reader.snapshot.schema.by_id(covered_tensor(group) or "")
        kind = KINDS.get(group.kind)
        if spec is not None and kind is not None:
            _stage(session, name, kind, reader, spec, _built_again(reader, group, kind, spec))
            built.append(name)
    if built:
        session.commit(CommitRequest(f"repair: the indexes {', '.join(built)} are built again"))
    version = f"{session.branch}@{session.head.seq}"
    for name in built:
        yield Repair(version, f"index {name!r} built again", is_recovered=True)


def _is_damaged(session: Session, name: str) -> bool:
    """Whether an index, its state, or any chunk of its parts cannot be read."""
    try:
        parts = open_index(session.reader(session.committed), name).parts
        for part in parts.lengths:
            for start in range(0, parts.rows(part), STEP):
                parts.run(part, start, min(start + STEP, parts.rows(part)))
    except (CorruptionError, SnapshotExpiredError):
        return True
    return False


def _updated(
    session: Session, reader: Reader, name: str, kind: IndexKind, spec: TensorSpec
) -> Built:
    group = reader.snapshot.state.groups[f"{PREFIX}{name}"]
    stored = _stored_rows(reader, spec)
    with scan_where_damaged(name, url=session.store.url):
        opened = open_index(reader, name)
        if len(opened.covered):
            new = Rows(spec, _without(stored, opened.covered), reader)
            return _whole(kind.merge(opened.parts, new, opened.covered))
    return _built_again(reader, group, kind, spec)


def _built_again(reader: Reader, group: ColumnGroup, kind: IndexKind, spec: TensorSpec) -> Built:
    """Build an index again, with the options that it was made with."""
    made: Any = group.parameters.get(MADE, {})
    known = kind.options(spec, {"path": made["path"]} if "path" in made else {})  # has no default
    options = kind.options(spec, {key: value for key, value in made.items() if key in known})
    return kind.build(Rows(spec, _stored_rows(reader, spec), reader), options)


def _whole(built: Built) -> Built:
    """Make all pieces, so that damage of what they are read from shows before they are staged."""
    parts = {name: replace(part, pieces=list(part.pieces)) for name, part in built.parts.items()}
    return replace(built, parts=parts)


def _stored_rows(reader: Reader, spec: TensorSpec) -> RowRanges:
    """Return the physical rows that have a sample, also those that are not shown."""
    extents = reader.snapshot.extents(spec.id)
    is_hole = np.flatnonzero(extents.kind == ChunkKind.HOLE)
    starts = extents.stops - extents.rows.astype(np.int64)
    holes = np.stack((starts[is_hole], extents.stops[is_hole]), axis=1)
    return apart_from(holes, extents.num_rows)


def _without(ranges: RowRanges, others: RowRanges) -> RowRanges:
    """Return the rows of ranges that are in none of some others."""
    borders = distinct(np.concatenate((ranges.reshape(-1), others.reshape(-1))))
    pieces = np.stack((borders[:-1], borders[1:]), axis=1)
    pieces = pieces[within(ranges, pieces[:, 0]) & ~within(others, pieces[:, 0])]
    is_first = np.concatenate(([True], pieces[1:, 0] > pieces[:-1, 1]))[: len(pieces)]
    stops = pieces[np.append(is_first[1:], [True])[: len(pieces)], 1]
    return np.stack((pieces[is_first, 0], stops), axis=1)


def _shown(reader: Reader, ranges: RowRanges) -> int:
    """Count the rows that the version shows among some physical rows."""
    return sum(
        int(
            np.count_nonzero(
                reader.snapshot.rows_of(np.arange(start, min(start + STEP, last))) >= 0
            )
        )
        for first, last in ranges.tolist()
        for start in range(first, last, STEP)
    )


def _nbytes(opened: OpenIndex) -> int:
    snapshot = opened.parts.reader.snapshot
    tables = (snapshot.extents(spec.id) for spec in snapshot.schema.tensors)
    return sum(int(stored_chunks(extents).nbytes.sum()) for extents in tables)


def _stage(
    session: Session, name: str, kind: IndexKind, reader: Reader, spec: TensorSpec, built: Built
) -> None:
    """Store the parts, and stage the group; parts of the group that it replaces are dropped."""
    specs: dict[str, TensorSpec] = {}
    for part, one in built.parts.items():
        own = replace(one.type, personal=spec.type.personal)
        specs[part] = TensorSpec.new(part, own, codecs=one.codecs, chunk_nbytes=one.chunk_nbytes)
    with session.lock:
        staging = session.staging()
        roots: dict[str, Root[Extents]] = {}
        lengths: dict[str, int] = {}
        for part, one in built.parts.items():
            root: Root[Extents] = Root.of(Extents.empty())
            for column in _joined(one, specs[part].chunk_nbytes):
                root = tree.grown(root, staging.place_column(specs[part], column))
            roots[part], lengths[part] = root, root.rows
        rows = max(lengths.values())
        for part, root in roots.items():
            if root.rows < rows:  # the parts of a group are of one length
                fill = Extents.without_bytes(ChunkKind.FILL, rows - root.rows)
                roots[part] = tree.grown(root, fill)
        parameters = {LENGTHS: lengths, MADE: dict(built.parameters)}
        group = ColumnGroup.empty(kind.name, Schema(tuple(specs.values())), parameters)
        coverage = Coverage(reader.snapshot.state.roots[spec.id], Reads.of(spec.to_json()))
        staging.stage_group(
            f"{PREFIX}{name}",
            replace(
                group,
                roots={specs[part].id: root for part, root in roots.items()},
                rows=rows,
                covers={spec.id: coverage},
            ),
        )


def _joined(part: Part, chunk_nbytes: int) -> Iterator[Column]:
    """Join small pieces to chunks."""
    held: list[Column] = []
    nbytes = 0
    for piece in part.pieces:
        held.append(piece)
        nbytes += nbytes_in_memory(piece)
        if nbytes >= chunk_nbytes:
            yield concat(held)
            held, nbytes = [], 0
    if held and sum(map(len, held)):
        yield concat(held)
