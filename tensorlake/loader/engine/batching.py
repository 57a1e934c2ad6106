"""``batch_by=``, ``balance=``, ``placement=``: batches by tokens, and the ranks of their rows.

    arguments ─► the column of tokens, and whether batches are padded by it
              ─► the lengths of all rows, from the headers of chunks, before the first batch
              ─► the batches of an epoch (``plan/token_batches.py``)

A row counts its stored elements of the column, and at least 1. A batch that is padded counts rows
times the longest of them, which is what it holds; over all ranks together, so that its places do
not depend on their number.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.config.collate import Pad, quoted
from tensorlake.loader.engine.composed.rows import ComposedPlan, ComposedSelection, form_of
from tensorlake.loader.plan.balance import Balance, BalancedShares
from tensorlake.loader.plan.placement import Homes, HomeShares, Ring
from tensorlake.loader.plan.sharding import Batches, RowBatches
from tensorlake.loader.plan.token_batches import Borders, Padding, PlaceLengths, TokenBatches
from tensorlake.loader.sources.arrangement import SplicedMixRows
from tensorlake.loader.sources.column_values import row_lengths, token_column
from tensorlake.loader.sources.mix import MixRows
from tensorlake.loader.sources.mix.reader import MixSelection
from tensorlake.loader.sources.read_strategy import row_nbytes_of
from tensorlake.quantities import human_nbytes
from tensorlake.storage import ForkLock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.engine.composed.rows import ComposedShare
    from tensorlake.loader.plan.plan import Plan
    from tensorlake.loader.plan.selection import Int64Array, Reader
    from tensorlake.loader.plan.sharding import Sharding, Share
    from tensorlake.loader.sources.batch_group import Keeps
    from tensorlake.loader.sources.rows import OrderedRows

__all__ = ["Batching", "batching_of", "homes_of", "kept_rows"]

LENGTH_NBYTES = 8
LOCAL_RANKS = "LOCAL_WORLD_SIZE"  # ranks of a node, which share its disk; set by torchrun
KEPT_BORDERS = 2  # len() counts from the first place, a pass from the place of a state


@runtime_checkable
class DividedRows(Protocol):
    """Rows that come in batches of their own."""

    @property
    def batches(self) -> Batches:
        """All batches of an epoch."""
        ...


class _KeptBorders:
    """The borders of an epoch's batches: from its first place on, and from a state's."""

    def __init__(self) -> None:
        self._kept: deque[tuple[Hashable, Borders, int]] = deque(maxlen=KEPT_BORDERS)
        self._lock = ForkLock()

    def of(
        self, key: Hashable, start: int, make: Callable[[], tuple[Borders, int]]
    ) -> tuple[Borders, int, int]:
        """Return borders of which a place is one, its number, and the rows that batches have."""
        with self._lock:
            for kept, borders, least_rows in self._kept:
                index = borders.index(start) if kept == key else None
                if index is not None:
                    return borders, index, least_rows
            made, least_rows = make()
            self._kept.append((key, made, least_rows))
        return made, 0, least_rows


@dataclass(frozen=True, eq=False)
class Batching:
    """How a loader divides its rows into batches, and these among ranks.

    Attributes:
        rows: The rows.
        by_tokens: Whether a batch has a budget of tokens; otherwise it has a number of rows.
        balance: The quantity that ranks get equal sums of; None: they get equal numbers of rows.
        column: The column of tokens; None if only rows count.
        padding: How batches are padded by it; None: they are not.
        null_tokens: Tokens of a row that is NULL.
        place: Returns the ranks whose caches hold rows, to which they go; None: they do not.
        parts: Divisor of the number of rows of a batch by tokens.
    """

    rows: OrderedRows
    by_tokens: bool = False
    balance: Balance | None = None
    column: str | None = None
    padding: Padding | None = None
    null_tokens: int = 0
    place: Callable[[], Homes] | None = None
    parts: int = 1

    def batches(
        self, sharding: Sharding, start: int, epoch: Hashable, plan: Callable[[], Plan]
    ) -> Batches:
        """Return the batches from a place of an epoch on.

        Args:
            sharding: The ranks.
            start: The place.
            epoch: Identifies the plan; the borders of batches by tokens are kept by it.
            plan: Makes the plan of the epoch.

        Raises:
            InvalidInputError: A row has more tokens than the budget.
        """
        rows = self.rows
        if isinstance(rows, DividedRows):
            return rows.batches
        if self.by_tokens:
            return self._token_batches(sharding, start, epoch, plan)
        balanced = self._placed(sharding, plan)
        if self.balance is not None and sharding.world_size > 1:
            balanced = BalancedShares(
                PlaceLengths(plan(), self.lengths, start),
                self.balance,
                equal_rows=True,
                rows_per_batch=sharding.global_batch_size,
                placed=balanced,
            )
        return RowBatches(sharding, rows.num_places, start, rows.is_endless, balanced)

    def _token_batches(
        self, sharding: Sharding, start: int, epoch: Hashable, plan: Callable[[], Plan]
    ) -> TokenBatches:
        budget = sharding.global_batch_size
        borders, first, least_rows = self._borders.of(
            (epoch, budget, sharding.drop_last),
            start,
            lambda: (
                Borders(
                    PlaceLengths(plan(), self.lengths, start),
                    start,
                    self.rows.num_places,
                    budget=budget,
                    padding=self.padding,
                    drop_last=sharding.drop_last,
                    parts=self.parts,
                ),
                self._least_rows(budget),
            ),
        )
        balanced = self._placed(sharding, plan)
        if self.balance is not None and sharding.world_size > 1:
            rows = max(budget // max(int(self.lengths.mean()), 1), 1) if len(self.lengths) else 1
            balanced = BalancedShares(
                borders.lengths,
                self.balance,
                equal_rows=self.parts > 1,
                rows_per_batch=rows,
                placed=balanced,
            )
        return TokenBatches(sharding, borders, first, self.rows.is_endless, least_rows, balanced)

    def _placed(self, sharding: Sharding, plan: Callable[[], Plan]) -> HomeShares | None:
        """Return the shares by the homes of rows, or of the rows that lead units."""
        if self.homes is None or sharding.world_size == 1:
            return None
        own = plan()
        return HomeShares(self.homes, own.leads if isinstance(own, ComposedPlan) else own.at)

    @property
    def num_drawn(self) -> int:
        """Number of rows that an epoch reads; of a mix that never stops, of its sources."""
        rows = self.rows
        is_whole = rows.is_endless or form_of(rows) is not None
        return rows.selection.num_rows if is_whole else rows.num_places

    def check(self, what: str) -> None:
        """Refuse to count the batches of rows that do not tell.

        Raises:
            TypeError: The rows are of a mix that never stops, or of a mix in batches by tokens.
        """
        if self.rows.is_endless:
            raise TypeError(
                f"{what}: this mix never stops (stop='never')\ncount batches in your own loop"
            )
        if self.by_tokens and isinstance(self.rows, MixRows | SplicedMixRows):
            raise TypeError(
                f"{what}: the batches of a mix by tokens differ from epoch to epoch"
                "\ncount batches in your own loop"
            )

    def check_last(self, sharding: Sharding, start: int = 0) -> None:
        """Refuse a short last batch that cannot be divided as a sharding requires."""
        if self.rows.is_endless:
            return
        if self.by_tokens:  # all others have multiples of as many rows
            alone = {"rank": 0, "world_size": 1, "equal_parts": self.parts}
            sharding = replace(sharding, global_batch_size=self.parts, **alone)
        sharding.check_last(self.rows.num_places, start)

    def recorded(self, ask: Callable[[], Sharding]) -> dict[str, Any] | None:
        """Return what a state records, so that the batches of a run can be found again."""
        if self.homes is None and self.column is None:
            return None
        sharding, padding = ask(), self.padding
        homes = None if self.homes is None else self.homes.to_json()
        is_by_world = homes is not None or self.balance is not None
        return {
            **({} if self.column is None else {"column": self.column}),
            **({"tokens": sharding.global_batch_size} if self.by_tokens else {}),
            **({"parts": self.parts} if self.parts > 1 else {}),
            **({} if padding is None else {"multiple_of": padding.multiple_of, "to": padding.to}),
            **({} if self.balance is None else {"balance": self.balance}),
            **({} if homes is None else {"placement": homes}),
            **({"world_size": sharding.world_size} if is_by_world else {}),
        }

    def describe(
        self, sharding: Sharding, count: Callable[[], int], *, is_priced: bool = False
    ) -> str:
        """Describe the batches of an epoch; those by tokens are not counted, which would read.

        Args:
            sharding: The ranks.
            count: Counts batches of a number of rows.
            is_priced: Whether to add what reading the lengths costs.
        """
        size, padded = f"{sharding.global_batch_size:,}", "" if self.padding is None else ", padded"
        if self.by_tokens:
            described = f"batches of up to {size} tokens of {self.column!r}{padded}"
        else:
            number = "endless" if self.rows.is_endless else f"{count():,}"
            described = f"{number} batches of {size} rows"
        if self.balance is not None:
            described += f", balanced by {self.balance} over {sharding.world_size} ranks"
        if self.homes is not None:
            described += f", placed on {sharding.world_size} ranks that can each cache"
            described += f" {self.homes.capacity:.0%}"
        if is_priced and self.column is not None:
            memory = human_nbytes(LENGTH_NBYTES * self.rows.selection.num_rows)
            described += (
                f" (a first pass reads the headers of chunks of {self.column!r}; takes {memory} of"
                " memory)"
            )
        return described

    @cached_property
    def homes(self) -> Homes | None:
        """The ranks whose caches hold rows."""
        return None if self.place is None else self.place()

    @cached_property
    def _borders(self) -> _KeptBorders:
        return _KeptBorders()

    @cached_property
    def lengths(self) -> Int64Array:
        """The tokens of each row, by position, at least 1."""
        assert self.column is not None, "batching_of() has chosen it"
        rows, null = self.rows, self.null_tokens
        return np.maximum(row_lengths(rows.selection, rows.reader, self.column, null=null), 1)

    def _least_rows(self, budget: int) -> int:
        """Return the rows that fit a batch in any case.

        Raises:
            InvalidInputError: The longest row does not fit.
        """
        lengths = self.lengths
        if not len(lengths):
            return 1
        costs = lengths if self.padding is None else self.padding.padded(lengths)
        longest = int(np.argmax(costs))
        most = int(costs[longest])
        if most * self.parts > budget and self.parts > 1:
            raise InvalidInputError(
                f"batches are divided into {self.parts} equal parts, and {self.parts} rows as long"
                f" as {self._named(longest)} have {most * self.parts:,} tokens of {self.column!r},"
                f" where a batch of all ranks holds {budget:,}\nraise batch_size or"
                f" global_batch_size to at least {most * self.parts:,} tokens",
                argument="batch_size",
                expected=budget,
                actual=most * self.parts,
            )
        if most > budget:
            row = self._named(longest)
            padded = "" if self.padding is None else ", with padding"
            fitting = budget if self.padding is None else self.padding.longest_within(budget)
            raise InvalidInputError(
                f"{row} has {most:,} tokens of {self.column!r}{padded}, and a batch of all"
                f" ranks holds {budget:,}\nraise batch_size or global_batch_size to at least"
                f" {most:,} tokens"
                + (
                    ", or leave longer rows out:"
                    f" view.where('LENGTH({quoted(self.column or '')}) <= {fitting}')"
                    if fitting
                    else ": padding leaves room for no row"
                ),
                argument="batch_size",
                expected=budget,
                actual=most,
            )
        return budget // most

    def _named(self, position: int) -> str:
        """Name a row for an error."""
        selection, at = self.rows.selection, np.array([position])
        (row,) = selection.row_numbers(at).tolist()
        if not isinstance(self.rows, MixRows | SplicedMixRows):
            return f"row {row}"
        (number,) = self.rows.selection.source_of(at).tolist()
        return f"row {row} of source {self.rows.sources[number].name!r}"


def batching_of(
    rows: OrderedRows, arguments: LoaderArguments, columns: tuple[str, ...], *, equal_parts: int
) -> Batching:
    """Return how a loader's arguments divide its rows into batches.

    Args:
        rows: The rows.
        arguments: The arguments.
        columns: The columns that are read.
        equal_parts: Parts of equal size that a sharding needs.

    Raises:
        InvalidInputError: The rows have no column of tokens, or the arguments exclude each other.
    """
    place = None if arguments.placement is None else _homes_of(rows, arguments, columns)
    by, parts = arguments.batch_by, 1
    if by is None and arguments.balance is None:
        return Batching(rows, place=place)
    if isinstance(by, Mapping):
        by, parts = str(by["column"]), int(by["parts"])
    name = "batch_by" if arguments.batch_by is not None else "balance"
    value = shown(getattr(arguments, name))
    if (form := form_of(rows)) is not None:
        raise InvalidInputError(
            f"{name}={value}: {form.noun} have one length"
            f"\n{'give batch_size=' if arguments.batch_by is not None else f'leave {name}= out'}",
            argument=name,
        )
    column = token_column(rows.selection, f"{name}={value}", by or "tokens")
    by_tokens, padding, null_tokens = by is not None, None, 0
    parts = math.lcm(parts, equal_parts) if by_tokens else 1
    if column in columns:
        padding = _padding((arguments.collate or {}).get(column))
        null = (arguments.null or {}).get(column, 0)
        null_tokens = len(null) if np.ndim(null) else 0  # a number fills an empty row
    return Batching(rows, by_tokens, arguments.balance, column, padding, null_tokens, place, parts)


def _homes_of(
    rows: OrderedRows, arguments: LoaderArguments, columns: tuple[str, ...]
) -> Callable[[], Homes]:
    """Return how to find the homes of rows, which looks up their sizes.

    All sources of a mix have one capacity, so that their rows fill a disk together.

    Raises:
        InvalidInputError: A recorded placement is of another number of sources, or rows are cut
            elsewhere in every epoch.
    """
    given, nbytes = arguments.placement, arguments.placement_nbytes
    form = form_of(rows)
    if form is not None and form.is_cut:
        raise InvalidInputError(
            f"placement={shown(given)}: {form.noun} with split=True are cut elsewhere in every"
            " epoch, so that no rank has them, and two ranks would read a document that is cut"
            "\npack whole documents: pack(…, split=False)",
            argument="placement",
        )
    counts, readers = _parts_of(rows)
    if isinstance(given, Mapping):
        units = given["rows_per_unit"]
        each = list(units) if isinstance(units, Sequence) else [units] * len(counts)
        if len(each) != len(counts):
            raise InvalidInputError(
                f"placement is of a mix of {len(each)} sources, and the rows have {len(counts)}"
                "\ngive placement='home', or the mix that the state is of",
                argument="placement",
                expected=len(counts),
                actual=len(each),
            )
        capacity = float(given["capacity"])
        rings = tuple(Ring(count, capacity, own) for count, own in zip(counts, each, strict=True))
        return lambda: Homes(rings)
    local = int(os.environ.get(LOCAL_RANKS) or 1)
    extent = 1 if form is None else form.extent

    def found() -> Homes:
        sizes = [max(row_nbytes_of(reader, columns), 1) for reader in readers]
        stored = sum(size * count for size, count in zip(sizes, counts, strict=True))
        capacity = min((nbytes or 0) / local / max(stored, 1), 1.0)
        pairs = zip(counts, sizes, strict=True)
        return Homes(tuple(Ring.of(*one, capacity, extent=extent) for one in pairs))

    return found


def _parts_of(rows: OrderedRows) -> tuple[list[int], list[Reader]]:
    """Return the numbers of rows of a selection, or of the sources of a mix, and their readers."""
    selection = rows.selection
    if isinstance(selection, ComposedSelection):
        selection = selection.rows
    if isinstance(selection, MixSelection):
        counts = [one.selection.num_rows for one in selection.sources]
        return counts, [one.reader for one in selection.sources]
    return [selection.num_rows], [rows.reader]


def homes_of(batches: Batches) -> Homes | None:
    """Return the homes by which batches are divided among ranks, if they are."""
    shares = batches.balanced if isinstance(batches, RowBatches | TokenBatches) else None
    return shares.homes if isinstance(shares, HomeShares | BalancedShares) else None


def kept_rows(plan: Plan, homes: Homes | None, sharding: Sharding) -> Keeps | None:
    """Return which rows of shares the disk of a rank keeps; None: whatever comes first.

    Rows that only fill up its part of a batch would take the room of those that come back to it.
    """
    if homes is None:
        return None
    if isinstance(plan, ComposedPlan):
        return _kept_of_units
    return lambda _, positions: homes.holds(sharding.rank, sharding.world_size, positions)


def _kept_of_units(shares: Sequence[Share], positions: Int64Array) -> NDArray[np.bool_]:
    """Return which rows of shares of units are kept: it depends on the units that have them."""
    del positions
    own = cast("Sequence[ComposedShare]", shares)
    return np.concatenate([share.kept for share in own if share.kept is not None])


def _padding(collate: object) -> Padding | None:
    if isinstance(collate, Pad):
        return Padding(collate.multiple_of or 1, collate.to)
    return Padding() if collate == "pad" else None
