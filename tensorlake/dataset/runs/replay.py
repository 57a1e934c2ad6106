"""The rows, places and batches of a step, made again from the record alone.

    step ─► stretch (the pass that made it) ─► the loader's state, moved on ─► its next batch

The loader of a recorded pass is made again at the state that the pass began with; nothing is read
before its first batch. A global batch is the batch of one rank of as many rows.
"""

from __future__ import annotations

import json
import warnings
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.computed import Computed
from tensorlake.dataset.core.connect import connect
from tensorlake.dataset.core.row_identity import ids_of, rows_of_ids
from tensorlake.dataset.core.rowset import RowSet
from tensorlake.dataset.runs.arguments import arguments_from_json, digest_of, unrecorded
from tensorlake.dataset.runs.record import Record, Segment, software
from tensorlake.dataset.runs.timeline import Stretch
from tensorlake.dataset.transform.loaders import loader_of_state, resumed
from tensorlake.errors import (
    InvalidInputError,
    ReplayMismatchError,
    ReplayWarning,
    SnapshotExpiredError,
    ViewNotFoundError,
)
from tensorlake.loader import HOLE, LoaderState, decode
from tensorlake.reading import Selection, Snapshot

if TYPE_CHECKING:
    from tensorlake.loader import EpochOrder, Framework, Loader, ShownOrder

__all__ = ["PLAIN_ORDERS", "CanLoad", "Replay", "Seen", "check_rank", "check_whole_rows"]

Int64Array = npt.NDArray[np.int64]
FEW_PLACES = 64
"""Places whose steps are looked up one by one."""
MAX_PLACES = 200_000_000
"""Places whose rows are listed at once: 16 bytes of memory each."""
FUNCTIONS = ("transform", "batch_transform")
OF_BATCHES = frozenset({*FUNCTIONS, "columns", "decode", "null", "collate"})
"""Arguments that do not change which rows are in a batch."""
ROW, VALID = "_row", "_valid"
PLAIN_ORDERS = ("none", "full", "window")
"""Orders that need no values of rows: others are not the same without some."""
DECODERS = ("simplejpeg", "pillow", "opencv-python", "opencv-python-headless")
"""Software whose versions change the pixels of a batch; recorded with the library that resizes."""


class CanLoad(Protocol):
    """Rows that a loader reads: a Dataset, a View, a Mix, packed rows, windows."""

    def __loader__(self, framework: Framework, arguments: dict[str, Any]) -> Loader: ...


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The rows of a stretch of steps.

    Attributes:
        snapshot: The version that was read.
        rows: Their numbers in it, int64, in the order of places.
        steps: The step of each.
    """

    snapshot: Snapshot
    rows: Int64Array
    steps: Int64Array


@dataclass(frozen=True, slots=True)
class Replay:
    """Makes the loaders of a run's passes again.

    Attributes:
        name: The run's name.
        moved: The URL at which the run read its dataset, and where that is now.
        storage_options: Credentials and endpoint.
        record: The run's record.
        rows: The rows that the run read, where its states do not identify them.
        opened: Loaders that have been made, for their plans.
        holes: By selection, which of its positions had rows that are forgotten.
        moved_states: By selection, what states of what is left of it have in its place.
        reaches_out: Whether a record may name another dataset than the one that it is beside, and
            its queries functions of this process.
    """

    name: str
    moved: tuple[str, str]
    storage_options: Mapping[str, Any]
    record: Record
    rows: CanLoad | None = None
    opened: dict[str, Loader] = field(default_factory=dict[str, "Loader"], repr=False)
    holes: dict[str, npt.NDArray[np.bool_]] = field(
        default_factory=dict[str, npt.NDArray[np.bool_]], repr=False
    )
    moved_states: dict[str, dict[str, Any]] = field(
        default_factory=dict[str, dict[str, Any]], repr=False
    )
    reaches_out: bool = True

    def batch(
        self,
        stretch: Stretch,
        step: int,
        rank: int | None,
        *,
        exact: bool,
        given: Mapping[str, Any],
    ) -> Any:
        """Return the batch of a step: of a rank, or of all ranks together.

        Raises:
            ReplayMismatchError: Functions or libraries that make batches differ from the run's.
        """
        segment = stretch.segment
        if exact:
            self._check_same(segment, given)
        missing = [name for name in unrecorded(segment.arguments) if name not in given]
        left_out = [name for name in missing if name in FUNCTIONS]
        if left_out:
            warnings.warn(
                ReplayWarning(
                    f"the batch is the one before {', '.join(f'{name}=' for name in left_out)}:"
                    " functions are not recorded\ngive them to run.batch() again"
                ),
                stacklevel=3,
            )
        with self.loader(segment, rank, dict(given)) as loader:
            loader.skip(step - stretch.start)
            return next(iter(loader))

    def places(self, stretch: Stretch, step: int, rank: int | None) -> tuple[Loader, Int64Array]:
        """Return a step's places in its epoch, and a loader that has the epoch's plan."""
        segment = stretch.segment
        loader = self.at(segment) if rank is None else self._ordered(segment, rank)
        return loader, loader.places_of(step - stretch.start)

    def ids_of(self, stretch: Stretch, rows: Int64Array) -> npt.NDArray[Any]:
        """Return the ids of rows, by their numbers in the version that a stretch read.

        Raises:
            InvalidInputError: The version has no such row.
        """
        plan = self.at(stretch.segment).plan
        check_whole_rows(plan, f"steps_of() of run {self.name!r}")
        snapshot = cast("Snapshot", plan.selection.snapshot)
        wrong = rows[rows >= snapshot.num_rows]
        if len(wrong):
            raise InvalidInputError(
                f"row {wrong[0]} is not one of the {snapshot.num_rows:,} rows of"
                f" {snapshot.version}, which run {self.name!r} read first"
            )
        return ids_of(snapshot, snapshot.physical(rows))

    def steps_of(self, stretch: Stretch, ids: npt.NDArray[Any]) -> tuple[Int64Array, Int64Array]:
        """Return the steps of a stretch whose batches have a row of some ids, ascending.

        Returns:
            For each, which of the ids it is; and the step. A batch may have a row several times.
        """
        segment = stretch.segment
        loader = self.at(segment)
        plan = loader.plan
        check_whole_rows(plan, f"steps_of() of run {self.name!r}")
        start = int(segment.state["position"])
        batches = loader.batches_from(start, size=segment.global_batch_size)
        stop = batches.count if stretch.stop is None else stretch.stop - stretch.start
        rows = rows_of_ids(ids, cast("Snapshot", plan.selection.snapshot))
        which, places = plan.places_with(rows)
        is_seen = places >= start
        if str(segment.state["selection"]) in self.holes:
            is_seen &= self._rows_at(segment, plan, places) >= 0
        which, places = which[is_seen], places[is_seen]
        if len(places) <= FEW_PLACES:
            found = [bisect_right(range(stop), one, key=batches.stop) for one in places.tolist()]
            numbers = np.array(found, dtype=np.int64)
        else:
            stops = np.fromiter(map(batches.stop, range(stop)), np.int64, stop)
            numbers = np.searchsorted(stops, places, "right")
        is_in = numbers < stop
        return which[is_in], stretch.start + numbers[is_in]

    def seen(self, stretch: Stretch, steps: range | None = None) -> Seen:
        """List the rows of a stretch: its places are passed over, and no data is read.

        Args:
            stretch: The stretch.
            steps: Only these steps of it; None: all.

        Raises:
            InvalidInputError: There are too many; or they are of a mix, in which a row number does
                not identify a row.
        """
        segment = stretch.segment
        loader = self.at(segment)
        start = int(segment.state["position"])
        batches = loader.batches_from(start, size=segment.global_batch_size)
        count = batches.count if stretch.stop is None else stretch.stop - stretch.start
        first, last = 0, count
        if steps is not None:
            first = min(max(steps.start - stretch.start, 0), count)
            last = max(min(steps.stop - stretch.start, count), first)
        begin = batches.stop(first - 1) if first else start
        ends = np.fromiter(map(batches.stop, range(first, last)), np.int64, last - first)
        ends = np.concatenate([[begin], ends])
        if ends[-1] - begin > MAX_PLACES:
            raise InvalidInputError(
                f"steps {stretch.start + first:,} to {stretch.start + last - 1:,} of run"
                f" {self.name!r} have {ends[-1] - begin:,} rows, and at most {MAX_PLACES:,} are"
                " listed\nask for single rows or steps: run.steps_of(row), run.rows_at(step)"
            )
        plan = loader.plan
        places = np.arange(begin, ends[-1])
        listed = plan.rows_at(places)
        numbers = np.repeat(stretch.start + np.arange(first, last), np.diff(ends))
        if isinstance(listed, list):  # a place of packed rows, or of a window, has several
            numbers = np.repeat(numbers, [len(rows) for rows in listed])
        plan.refuse_mix("the rows of a run")
        rows = self._rows_at(segment, plan, places)
        snapshot = cast("Snapshot", plan.selection.snapshot)
        return Seen(snapshot, rows[rows >= 0], numbers[rows >= 0])

    def at(self, segment: Segment) -> Loader:
        """Return a loader at the state that a pass began with, for its plan: one for many passes.

        Raises:
            InvalidInputError: The record lacks an argument, or does not identify the rows.
        """
        state = segment.state
        cuts: list[Any] = state["order"].get("cuts", [])
        first = cuts[0]["edit"] if cuts else state["order"].get("edit", state)
        key = json.dumps(
            [first["version"], state.get("source"), segment.arguments, segment.global_batch_size]
        )
        loader = self.opened.get(key)
        if loader is None or segment.is_staged or segment.is_redacted:
            loader = self.opened[key] = self._ordered(segment, None)
        else:
            loader.load_state_dict({**state, **self.moved_states.get(state["selection"], {})})
        return loader

    def _ordered(self, segment: Segment, rank: int | None) -> Loader:
        """Make a loader for the order of a pass: without what makes batches, nor its framework."""
        if self.rows is not None:
            return self.loader(segment, rank, {})
        kept = {name: one for name, one in segment.arguments.items() if name not in OF_BATCHES}
        alike = replace(segment, arguments=kept | {"columns": [ROW]})
        return self._made(alike, rank, {}, "numpy", ())

    def loader(
        self,
        segment: Segment,
        rank: int | None,
        given: Mapping[str, Any],
        *,
        framework: Framework | None = None,
        columns: Sequence[str] = (),
    ) -> Loader:
        """Make the loader of a pass again, where the pass began, with the library that resized.

        Args:
            segment: The pass.
            rank: A rank of it; None: all ranks together, unless arguments tell a rank.
            given: Arguments beside the recorded ones.
            framework: Another framework than the recorded one.
            columns: Columns of batches beside the recorded ones.

        Raises:
            InvalidInputError: The record lacks an argument, or does not identify the rows.
        """
        with decode.resampled_by(segment.software.get("resampler")):
            return self._made(segment, rank, given, framework or segment.framework, columns)

    def _made(
        self,
        segment: Segment,
        rank: int | None,
        given: Mapping[str, Any],
        framework: str,
        columns: Sequence[str],
    ) -> Loader:
        arguments: dict[str, Any] = {**arguments_from_json(segment.arguments), **given}
        if "columns" in arguments:
            arguments["columns"] = [*dict.fromkeys([*arguments["columns"], *columns])]
        for name in ("weights", "null", "collate", "decode"):
            if name in unrecorded(segment.arguments) and name not in given:
                raise InvalidInputError(
                    f"{name}= of run {self.name!r} is too large or has functions, and was not"
                    f" recorded\ngive it again: run.batch(step, {name}=…)",
                    argument=name,
                )
        if rank is None:
            arguments = dict[str, Any](rank=0, world_size=1) | arguments
        else:
            check_rank(rank, segment)
            arguments |= {"rank": rank, "world_size": segment.world_size}
        arguments["global_batch_size"] = segment.global_batch_size
        if segment.is_staged:
            raise InvalidInputError(
                f"run {self.name!r} read staged changes, which are in no version: its batches"
                " cannot be made again, nor its rows be found\ncommit before run.loader() next time"
            )
        if segment.is_redacted and not self._has_rest(segment):
            raise InvalidInputError(
                f"the query of run {self.name!r} named values of rows that were forgotten since,"
                " and is not recorded any more: its batches cannot be made again, nor its rows be"
                " found"
            )
        state = dict(segment.state)
        source = state.get("source")
        if self.rows is not None or source is None:
            if self.rows is None:
                raise InvalidInputError(
                    f"run {self.name!r} read rows that its record does not say how to find: a mix,"
                    " packed rows, windows, or rows that were chosen by hand\ngive them again:"
                    " ds.runs[name].of(view)"
                )
            if (placed := (state.get("batches") or {}).get("placement")) is not None:
                arguments["placement"] = placed  # what "home" was, without a cache here
            loader = self.rows.__loader__(cast("Framework", framework), arguments)
            loader.load_state_dict(state)
            return loader
        was, now = self.moved
        if not self.reaches_out and source["url"] not in self.moved:
            raise InvalidInputError(
                f"run {self.name!r} read rows of another dataset than the one that it is recorded"
                " beside, which a server does not open\nopen the run where it was recorded:"
                " tl.runs(url)"
            )
        moved = now if source["url"] == was else source["url"]
        state["source"] = {**source, "url": moved, "framework": framework}
        for name in ("shuffle", "seed", "weights", "stratify", "group", "limit", "repeat"):
            arguments.pop(name, None)  # the state has them
        arguments.pop("batch_by", None)
        arguments.pop("balance", None)
        arguments.pop("placement", None)
        if not segment.is_redacted:
            try:
                return loader_of_state(
                    state, self.storage_options, arguments, reaches_out=self.reaches_out
                )
            except (SnapshotExpiredError, ViewNotFoundError):
                if not self._has_rest(segment):
                    raise
        return self._with_holes(LoaderState.from_json(state), arguments)

    def _has_rest(self, segment: Segment) -> bool:
        """Whether a pass is replayed from what is left of its rows."""
        is_plain = segment.state["order"]["kind"] in PLAIN_ORDERS
        return is_plain and self.record.redacted(segment.state["selection"]) is not None

    def _with_holes(self, state: LoaderState, arguments: dict[str, Any]) -> Loader:
        """Make a loader of what is left of a selection, with holes in the places of other rows."""
        import tensorlake_query as tql

        found, source = self.record.redacted(state.selection), state.source
        assert found is not None, "the caller has looked"
        assert source is not None, "likewise"
        version, rows = found
        session = connect(
            str(source["url"]), version, read_only=True, storage_options=self.storage_options
        )
        snapshot = session.committed
        if not snapshot.num_rows:
            raise InvalidInputError(f"of the rows of run {self.name!r} none is left")
        is_hole = rows < 0
        names = snapshot.schema.stored
        selection = Selection(snapshot, names, np.where(is_hole, 0, rows))
        column = Computed(tql.ColumnType("bool", "bool", ()), tql.UniformBatch(is_hole))
        if "columns" in arguments:
            arguments["columns"] = [*dict.fromkeys([*arguments["columns"], ROW, VALID, HOLE])]
        left = RowSet(session, selection, computed={HOLE: column})
        moved = {"version": snapshot.version, "selection": selection.digest, "num_rows": len(rows)}
        self.holes[state.selection] = is_hole
        self.moved_states[state.selection] = moved
        return resumed(
            left, replace(state, **moved), source["framework"], arguments, source.get("order", {})
        )

    def rows_of(self, segment: Segment) -> tuple[Int64Array, Snapshot]:
        """Return the rows that a pass selected, −1 for those that are gone, and their version."""
        plan = self.at(segment).plan
        selection = cast("Selection", plan.selection)
        rows = selection.row_numbers(selection.all_positions())
        return self._without_holes(segment, rows, selection.all_positions()), selection.snapshot

    def _without_holes(
        self, segment: Segment, rows: Int64Array, positions: Int64Array
    ) -> Int64Array:
        """Return rows at positions of the selection, −1 where there is a hole."""
        is_hole = self.holes.get(str(segment.state["selection"]))
        return rows if is_hole is None else np.where(is_hole[positions], -1, rows)

    def rows_at(self, stretch: Stretch, step: int, rank: int | None) -> Int64Array:
        """Return the rows of a step's batch, or of a rank's part; −1 for those that are gone."""
        loader, places = self.places(stretch, step, rank)
        return self._rows_at(stretch.segment, loader.plan, places)

    def _rows_at(self, segment: Segment, plan: ShownOrder, places: Int64Array) -> Int64Array:
        found = plan.rows_at(places)
        if isinstance(found, list):
            return np.concatenate([np.zeros(0, np.int64), *found])
        if str(segment.state["selection"]) not in self.holes:
            return found
        return self._without_holes(segment, found, cast("EpochOrder", plan).plan.at(places))

    def _check_same(self, segment: Segment, given: Mapping[str, Any]) -> None:
        here = software()
        resampler = segment.software.get("resampler")
        compared = () if resampler is None else DECODERS
        if resampler == "torch":
            compared = (*compared, "torch")
        different = [
            f"{name}: recorded {segment.software.get(name)}, here {here.get(name)}"
            for name in compared
            if here.get(name) != segment.software.get(name)
        ]
        for name, recorded in unrecorded(segment.arguments).items():
            if name in given and digest_of(given[name]) != recorded["digest"]:
                different.append(f"{name}=: its source is not that of {recorded.get('function')!r}")
        if different:
            raise ReplayMismatchError(
                f"run {self.name!r} cannot be replayed exactly; what makes batches differs\n   "
                + "\n   ".join(different)
                + "\nuse the recorded ones, or take the nearest: run.batch(step, exact=False)"
            )


def check_rank(rank: int, segment: Segment) -> None:
    """Refuse a rank that a pass did not have.

    Raises:
        InvalidInputError: It is one.
    """
    if not 0 <= rank < segment.world_size:
        raise InvalidInputError(
            f"rank {rank} is not one of the {segment.world_size} ranks of these steps",
            actual=rank,
        )


def check_whole_rows(plan: ShownOrder, what: str) -> None:
    """Refuse orders in which a row number does not name a place: of a mix, or of parts of rows.

    Raises:
        InvalidInputError: It is one.
    """
    plan.refuse_mix(what)
    if isinstance(plan.rows_at(()), list):
        raise InvalidInputError(
            f"{what}: it read packed rows or windows, of which a step has parts of rows"
            "\nask for the rows of a step: run.rows_at(step)"
        )
