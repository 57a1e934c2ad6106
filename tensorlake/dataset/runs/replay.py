"""The rows, places and batches of a step, made again from the record alone.

    step ─► stretch (the pass that made it) ─► the loader's state, moved on ─► its next batch

The loader of a recorded pass is made again at the state that the pass began with; nothing is read
before its first batch. A global batch is the batch of one rank of as many rows.
"""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.row_identity import ids_of, rows_of_ids
from tensorlake.dataset.runs.arguments import arguments_from_json, digest_of, unrecorded
from tensorlake.dataset.runs.record import Segment, software
from tensorlake.dataset.runs.timeline import Stretch
from tensorlake.dataset.transform.loaders import loader_from_state
from tensorlake.errors import InvalidInputError, ReplayMismatchError, ReplayWarning
from tensorlake.loader import decode
from tensorlake.reading import Snapshot

if TYPE_CHECKING:
    from tensorlake.loader import Framework, Loader

__all__ = ["CanLoad", "Replay", "Seen", "check_whole_rows"]

Int64Array = npt.NDArray[np.int64]
MAX_PLACES = 200_000_000
"""Places whose rows are listed at once: 16 bytes of memory each."""
FUNCTIONS = ("transform", "batch_transform")
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
        rows: The rows that the run read, where its states do not identify them.
    """

    name: str
    moved: tuple[str, str]
    storage_options: Mapping[str, Any]
    rows: CanLoad | None = None

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
        loader = self.loader(stretch.segment, rank, {})
        return loader, loader.places_of(step - stretch.start)

    def id_of(self, stretch: Stretch, row: int) -> npt.NDArray[Any]:
        """Return the id of a row, in an array, by its number in the version that a stretch read.

        Raises:
            InvalidInputError: The stretch did not read such rows.
        """
        with self.loader(stretch.segment, None, {}) as loader:
            check_whole_rows(loader, f"steps_of() of run {self.name!r}")
            loader.plan.check_known(row)
            snapshot = cast("Snapshot", loader.plan.selection.snapshot)
            return ids_of(snapshot, snapshot.physical(np.array([row])))

    def steps_of(self, stretch: Stretch, ids: npt.NDArray[Any]) -> list[int]:
        """Return the steps of a stretch whose batches have a row of some ids, ascending."""
        segment = stretch.segment
        with self.loader(segment, None, {}) as loader:
            start = int(segment.state["position"])
            batches = loader.batches_from(start, size=segment.global_batch_size)
            stop = batches.count if stretch.stop is None else stretch.stop - stretch.start
            check_whole_rows(loader, f"steps_of() of run {self.name!r}")
            rows = rows_of_ids(ids, cast("Snapshot", loader.plan.selection.snapshot))
            found = [loader.plan.places_with(row) for row in rows.tolist()]
            places = np.concatenate([np.zeros(0, np.int64), *found])
            numbers = {
                bisect_right(range(stop), place, key=batches.stop)
                for place in places.tolist()
                if place >= start
            }
            return [stretch.start + one for one in sorted(numbers) if one < stop]

    def seen(self, stretch: Stretch) -> Seen:
        """List the rows of a stretch: its places are passed over, and no data is read.

        Raises:
            InvalidInputError: There are too many; or they are of a mix, in which a row number does
                not identify a row.
        """
        segment = stretch.segment
        with self.loader(segment, None, {}) as loader:
            start = int(segment.state["position"])
            batches = loader.batches_from(start, size=segment.global_batch_size)
            count = batches.count if stretch.stop is None else stretch.stop - stretch.start
            ends = np.array([start, *map(batches.stop, range(count))], dtype=np.int64)
            if ends[-1] - start > MAX_PLACES:
                raise InvalidInputError(
                    f"steps {stretch.start:,} to {stretch.start + count - 1:,} of run {self.name!r}"
                    f" have {ends[-1] - start:,} rows, and at most {MAX_PLACES:,} are listed"
                    "\nask for single rows or steps: run.steps_of(row), run.rows_at(step)"
                )
            plan = loader.plan
            listed = plan.rows_at(np.arange(start, ends[-1]))
            steps = np.repeat(np.arange(stretch.start, stretch.start + count), np.diff(ends))
            if isinstance(listed, list):  # a place of packed rows, or of a window, has several
                steps = np.repeat(steps, [len(rows) for rows in listed])
                listed = np.concatenate([np.zeros(0, np.int64), *listed])
            plan.refuse_mix("the rows of a run")
            snapshot = cast("Snapshot", plan.selection.snapshot)
            return Seen(snapshot, listed, steps)

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
        elif 0 <= rank < segment.world_size:
            arguments |= {"rank": rank, "world_size": segment.world_size}
        else:
            raise InvalidInputError(
                f"rank {rank} is not one of the {segment.world_size} ranks of these steps",
                actual=rank,
            )
        arguments["global_batch_size"] = segment.global_batch_size
        if segment.is_staged:
            raise InvalidInputError(
                f"run {self.name!r} read staged changes, which are in no version: its batches"
                " cannot be made again, nor its rows be found\ncommit before run.loader() next time"
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
            loader = self.rows.__loader__(cast("Framework", framework), arguments)
            loader.load_state_dict(state)
            return loader
        was, now = self.moved
        moved = now if source["url"] == was else source["url"]
        state["source"] = {**source, "url": moved, "framework": framework}
        for name in ("shuffle", "seed", "weights", "stratify", "group", "limit", "repeat"):
            arguments.pop(name, None)  # the state has them
        arguments.pop("batch_by", None)
        arguments.pop("balance", None)
        return loader_from_state(state, storage_options=self.storage_options, **arguments)

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


def check_whole_rows(loader: Loader, what: str) -> None:
    """Refuse orders in which a row number does not name a place: of a mix, or of parts of rows.

    Raises:
        InvalidInputError: It is one.
    """
    plan = loader.plan
    plan.refuse_mix(what)
    if isinstance(plan.rows_at(()), list):
        raise InvalidInputError(
            f"{what}: it read packed rows or windows, of which a step has parts of rows"
            "\nask for the rows of a step: run.rows_at(step)"
        )
