"""``MixRows``: the rows of several sources in one order, by weights."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tensorlake.errors import InvalidInputError
from tensorlake.loader.config.arrangement import Arrangement
from tensorlake.loader.plan.mix_order import (
    MixOrder,
    MixStop,
    SourceOrder,
    Span,
    names_digest,
)
from tensorlake.loader.plan.order import Shuffle
from tensorlake.loader.plan.state import LoaderState, NewerVersionWarning, Place, check_state
from tensorlake.loader.plan.virtual_columns import VirtualColumn
from tensorlake.loader.sources.column_values import row_lengths
from tensorlake.loader.sources.mix.checks import common_columns, common_computed
from tensorlake.loader.sources.mix.plan import MixPlan, PlannedSource, first_span
from tensorlake.loader.sources.mix.reader import (
    MixedColumn,
    MixReader,
    MixSelection,
    MixSource,
    SourceColumn,
)
from tensorlake.loader.sources.mix.shares import ENDLESS, MixNode, Shares
from tensorlake.loader.sources.mix.weights import SPAN_PLACES, Spans, units_of
from tensorlake.loader.sources.rows import chosen_order, refuse_staged, rows_of_version

__all__ = ["SOURCE", "MixRows"]

SOURCE = "_source"
LISTED = 8  # sources that an error names of a stage


@dataclass(frozen=True, eq=False)
class MixRows:
    """Several sources, their weights, and the end of an epoch.

    Attributes:
        sources: The views of the mix, and of mixes inside it.
        root: How they are mixed.
        first: The span that a state recorded, if weights depend on the place.
        tokens: The column of tokens, if some weights are by tokens.
        mean: The mean tokens of a unit of a source, where places are not rows.
        limit: The most places of an epoch.
        described: Name of the sources in ``explain()``, if they follow from one view.
        remade: Makes the mix of that view at another version, with weights and ``limit``.
    """

    sources: tuple[MixSource, ...]
    root: MixNode
    first: Span | None = field(default=None, kw_only=True)
    tokens: str | None = field(default=None, kw_only=True)
    mean: Callable[[MixSource], float] | None = field(default=None, kw_only=True)
    limit: int | None = field(default=None, kw_only=True)
    described: str = field(default="", kw_only=True)
    remade: Callable[[str], MixRows] | None = field(default=None, kw_only=True)

    @property
    def stop(self) -> MixStop:
        """The end of an epoch."""
        return self.root.stop

    @property
    def selection(self) -> MixSelection:
        """The rows of all sources, end to end."""
        return self._selection

    @property
    def reader(self) -> MixReader:
        """Reader of chunks of all sources."""
        return MixReader(self.sources)

    @property
    def num_places(self) -> int:
        """Number of places until the first, or each, source has yielded its rows, or ``limit``."""
        return self._num_places if self.limit is None else min(self.limit, self._num_places)

    @cached_property
    def _selection(self) -> MixSelection:
        hasher = hashlib.blake2b(digest_size=20, person=b"tl-mix-1")
        for source in self.sources:
            hasher.update(f"{source.name}\0{source.selection.digest}\n".encode())
        names = common_columns(self.sources)
        return MixSelection(self.sources, names, hasher.hexdigest())

    @property
    def virtual(self) -> Mapping[str, VirtualColumn]:
        """``_source``, and the columns that are computed in all sources."""
        computed = {
            name: MixedColumn(self.selection, name) for name in common_computed(self.sources)
        }
        return {SOURCE: SourceColumn(self.selection), **computed}

    @property
    def server(self) -> None:
        """None: each source has its own, or none."""
        return

    @property
    def is_endless(self) -> bool:
        """Whether an epoch never stops."""
        return self.stop == "never" and self.limit is None

    def arranged(self, arrangement: Arrangement) -> MixRows:
        """Return the same mix with at most ``limit`` places per epoch.

        Raises:
            InvalidInputError: Another order is requested.
        """
        if arrangement != Arrangement(limit=arrangement.limit):
            raise InvalidInputError(
                f"{arrangement.argument}= is for the rows of one view, and a mix is ordered by the"
                " weights of its sources\ngive sources for the classes or groups, with weights:"
                " tl.mix({'cat': (view.where(…), 2.0), …}); for k epochs in one,"
                " tl.mix(…, stop='never') and limit=k * len(mix)",
                argument=arrangement.argument,
            )
        return replace(self, limit=arrangement.limit)

    @cached_property
    def _num_places(self) -> int:
        return self._shares.num_places([source.selection.num_rows for source in self.sources])

    def end_of(self, left: Sequence[int]) -> int:
        """Return how many places follow until sources with some rows left are used up."""
        return self._shares.num_places(left)

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of the sources at place 0, by rows."""
        return self._first_weights

    @property
    def units(self) -> tuple[int, ...]:
        """The shares of the sources, whose weights are constant."""
        return units_of(self._first_weights)

    @property
    def varies(self) -> bool:
        """Whether weights depend on the place."""
        return self._varies

    def choose(
        self, shuffle: Shuffle, tensors: tuple[str, ...], *, prefetch_nbytes: int
    ) -> MixOrder:
        """Choose the order of each source by its own rows and bytes.

        Their windows are in memory together: each has a part of ``prefetch``, as large as its part
        of all bytes, so that they last as long; the same part, if weights depend on the place.
        """
        parts = self._parts_of_bytes(tensors)
        sources = tuple(
            SourceOrder(
                source.name,
                source.selection.snapshot.version,
                chosen_order(
                    shuffle,
                    source.selection,
                    source.reader,
                    tensors,
                    prefetch_nbytes=int(prefetch_nbytes * part),
                ),
            )
            for source, part in zip(self.sources, parts, strict=True)
        )
        return MixOrder(self.stop, sources, Span(0, (0,) * len(sources), self._first_weights))

    def plan(self, order: Any, *, seed: int, epoch: int) -> MixPlan:
        """Return the plan of one epoch."""
        assert isinstance(order, MixOrder)
        planned = tuple(
            PlannedSource(
                digest=source.selection.digest,
                order=own.order,
                num_rows=source.selection.num_rows,
                first_position=start,
            )
            for source, own, start in zip(
                self.sources, order.sources, self.selection.starts[:-1], strict=True
            )
        )
        length = self.num_places
        if self.stop != "never":
            return MixPlan(planned, self._spans(epoch), seed, epoch, length, order.version)
        begin, spans = self._begin(epoch), self._one_epoch
        return MixPlan(planned, spans, seed, 0, length, order.version, begin, ENDLESS)

    def _begin(self, epoch: int) -> int:
        """Return the place of a mix that never stops where an epoch of ``limit`` places begins.

        Raises:
            InvalidInputError: A place of the epoch is 2**62 or more.
        """
        if self.limit is None:
            return 0
        begin = epoch * self.limit
        if begin + self.limit > ENDLESS:
            raise InvalidInputError(
                f"epoch {epoch} of limit={self.limit} goes beyond 2**62 places of the mix"
                "\ngive a smaller epoch",
                argument="limit",
            )
        return begin

    def recorded(self, order: Any, place: Place) -> MixOrder:
        """Return the order with the weights at a place."""
        assert isinstance(order, MixOrder)
        if not self._varies:
            return order
        return replace(order, span=self._one_epoch.at(self._begin(place.epoch) + place.position))

    def describe(self, order: Any) -> str:
        """List the sources, their weights and orders."""
        assert isinstance(order, MixOrder)
        units = units_of(order.span.weights)
        parts = [
            f"{named.name} {own / sum(units):.1%} {source.order.describe()}"
            for named, source, own in zip(self.sources, order.sources, units, strict=True)
        ]
        until = {"first": "the first", "all": "every one", "never": "none"}[self.stop]
        by = "" if self.tokens is None else f" by elements of {self.tokens!r}, in rows"
        if self.mean is not None:
            by = " by tokens, in sequences"
        later = [self._stage(one) for one, _ in self.root.stages if one > order.span.start]
        limited = "" if self.limit is None else f", {self.limit:,} places an epoch at most"
        what = self.described or "mixed"
        return f"{what}{by} until {until} is used up{limited}: {'; '.join([*parts, *later])}"

    def _stage(self, place: int) -> str:
        """Describe the weights from a place on; functions are asked when it is reached."""
        if any(node.has_functions for node in self.root.all()):
            return f"from place {place:,} other weights"
        return f"from place {place:,} {self._listed(self._shares.at(place))}"

    def _listed(self, weights: Sequence[float]) -> str:
        """List the sources that have rows, the largest of many."""
        units = units_of(weights)
        ranked = sorted(
            (number for number in range(len(units)) if units[number]), key=lambda n: -units[n]
        )
        shown = sorted(ranked[:LISTED])
        listed = [f"{self.sources[at].name} {units[at] / sum(units):.1%}" for at in shown]
        more = len(ranked) - len(shown)
        return ", ".join([*listed, *([f"{more:,} others"] if more else [])])

    @property
    def source(self) -> None:
        """None: the sources are objects of the program that mixed them."""
        return

    def returned_to(self, state: LoaderState, *, seed: int | None, shuffle: Shuffle) -> MixRows:
        """Return to the versions that the state recorded, even if branches have moved on."""
        refuse_staged(self.selection.snapshot)
        recorded = state.order
        rows = self
        if isinstance(recorded, MixOrder):
            rows = self if self.remade is None else self._remade(recorded, self.remade)
            first = recorded.span if self._varies else None
            rows = replace(rows, sources=rows._returned(recorded), first=first)  # noqa: SLF001 - of this class
        check_state(
            state,
            version=rows.selection.snapshot.version,
            selection=rows.selection.digest,
            num_rows=None if self.is_endless else rows.num_places,
            seed=seed,
            shuffle=shuffle,
            others=rows.differences(state),
        )
        return rows

    def differences(self, state: LoaderState) -> dict[str, tuple[Any, Any]]:
        """List the differences to a state's order: member, recorded, given."""
        recorded = state.order
        if not isinstance(recorded, MixOrder):
            return {"order": (recorded.kind, "mix")}
        names = [source.name for source in self.sources]
        if recorded.names_digest != names_digest(names):
            return {"sources": ([one.name for one in recorded.sources] or "others", names)}
        weights = self._shares.at(recorded.span.start)
        starts = sorted({place for node in self.root.all() for place, _ in node.stages})
        here = self._begin(state.epoch) + state.position
        passed = [place for place in starts if recorded.span.start < place < here]
        pairs: dict[str, tuple[Any, Any]] = {"stop": (recorded.stop, self.stop)}
        if not starts and recorded.span.start % SPAN_PLACES == 0:  # at most functions
            pairs["weights"] = list(recorded.span.weights), list(weights)
        elif passed or recorded.span.weights != weights:
            begun, listed = recorded.span.start, self._listed(recorded.span.weights)
            pairs["stages"] = (
                f"place {here:,} is in the stage from place {begun:,} {listed}",
                "; ".join(self._stage(place) for place in [0, *starts]),
            )
        return {name: (was, now) for name, (was, now) in pairs.items() if was != now}

    def _parts_of_bytes(self, tensors: tuple[str, ...]) -> list[float]:
        if self._varies:
            return [1 / len(self.sources)] * len(self.sources)
        units = units_of(self._first_weights)
        sizes = [max(1, sum(source.reader.row_nbytes(tensors))) for source in self.sources]
        nbytes = [own * size for own, size in zip(units, sizes, strict=True)]
        return [one / sum(nbytes) for one in nbytes]

    @cached_property
    def _first_weights(self) -> tuple[float, ...]:
        return self._shares.at(0)

    @cached_property
    def _shares(self) -> Shares:
        mean = self.mean if self.tokens is None else self._mean
        means = None if mean is None else [mean(one) for one in self.sources]
        return Shares(self.root, len(self.sources), means)

    def _mean(self, source: MixSource) -> float:
        """Return the mean number of tokens in a row."""
        assert self.tokens is not None, "only for weights by tokens"
        selection = source.selection
        total = int(row_lengths(selection, source.reader, self.tokens).sum())
        if not total:
            raise InvalidInputError(
                f"no row of source {source.name!r} has elements in {self.tokens!r}"
                "\nleave the source out"
            )
        return total / selection.num_rows

    @property
    def _varies(self) -> bool:
        return self.root.varies

    @cached_property
    def _one_epoch(self) -> Spans:
        """The spans of a mix that never stops, with or without a limit."""
        return self._spans(0)

    def _spans(self, epoch: int) -> Spans:
        if self.first is not None:
            return Spans(self._shares, self.first)
        places = 0 if self.stop == "never" else self.num_places
        return Spans(self._shares, first_span(self._first_weights, places, epoch))

    def _remade(self, recorded: MixOrder, remade: Callable[[str], MixRows]) -> MixRows:
        snapshot, version = self.sources[0].selection.snapshot, recorded.sources[0].version
        if version == snapshot.version:
            return self
        rows = rows_of_version(remade, version, given=snapshot)
        warnings.warn(
            f"continuing on {version}, which the state recorded, although {snapshot.version} was"
            " given",
            NewerVersionWarning,
            stacklevel=5,
        )
        return rows

    def _returned(self, recorded: MixOrder) -> tuple[MixSource, ...]:
        if recorded.names_digest != names_digest([source.name for source in self.sources]):
            return self.sources  # the caller lists what differs
        moved: list[str] = []
        sources: list[MixSource] = []
        for source, own in zip(self.sources, recorded.sources, strict=True):
            version = own.version
            if source.repin is None or version == source.selection.snapshot.version:
                sources.append(source)
                continue
            selection, reader = rows_of_version(
                source.repin, version, given=source.selection.snapshot
            )
            virtual = {name: column.over(selection) for name, column in source.virtual.items()}
            moved_to = replace(source, selection=selection, reader=reader, virtual=virtual)
            sources.append(moved_to)
            moved.append(f"{source.name} {version} ({source.selection.snapshot.version} given)")
        if moved:
            warnings.warn(
                f"continuing on the versions that the state recorded: {', '.join(moved)}",
                NewerVersionWarning,
                stacklevel=4,
            )
        return tuple(sources)
