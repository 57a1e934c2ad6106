"""``SplicedMixRows``: a mix whose sources or weights are changed while a loader reads it.

    place ─► rows that each source has given in its own pass ─► that pass is spliced there
          ─► a mix by the new weights, of the rest of each pass and the passes after it

A source that stays under its name gives each of its rows once before any of them again; one that is
added begins with its first pass. States record the pass of each source and its place there, so that
neither the earlier weights nor sources that were taken away are needed again. A place of
a packed source is a sequence, and its pass is spliced as that of packed rows alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tensorlake.errors import InvalidInputError, StateMismatchError, shown
from tensorlake.loader.plan.mix_order import (
    AnyOrder,
    MixOrder,
    SplicedMixOrder,
    SplicedSource,
    names_digest,
)
from tensorlake.loader.plan.order import Shuffle
from tensorlake.loader.plan.passes import Tail
from tensorlake.loader.plan.plan import Plan
from tensorlake.loader.plan.selection import Reader
from tensorlake.loader.plan.shuffle import derive_words
from tensorlake.loader.plan.splice import Cut, Edit, SplicedOrder
from tensorlake.loader.plan.state import LoaderState, Place, check_state
from tensorlake.loader.plan.virtual_columns import VirtualColumn
from tensorlake.loader.sources.arrangement.items import edits_of
from tensorlake.loader.sources.arrangement.mix_edits import (
    AnyMix,
    documents_of,
    edited_mix,
    edits_asked,
    given_mix,
    has_mixed_units,
    is_mix,
    places_of,
)
from tensorlake.loader.sources.arrangement.splice import (
    CUTS_NBYTES_MAX,
    GivenRows,
    SplicedRows,
    advanced_rows,
    check_digest,
    edited,
    items_of,
    returned_rows,
)
from tensorlake.loader.sources.mix import MixRows, MixSource, source_seed
from tensorlake.loader.sources.mix.plan import MixPlan, SplicedMixPlan
from tensorlake.loader.sources.mix.shares import ENDLESS
from tensorlake.loader.sources.rows import OrderedRows, SelectedRows, refuse_staged

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments

__all__ = ["SPLICED", "SplicedMixRows", "advanced", "returned"]


@dataclass(frozen=True, eq=False)
class SplicedMixRows:
    """The rows of a mix by edits, and those that the epoch under way read before.

    Attributes:
        given: The mix that the loader was made of, or was given since.
        rows: The mix now.
        before: The rows before each cut of a source's pass.
        order: The order, with the edits and the cuts.
        seed: The seed.
        place: The loader's place: in other epochs there are no cuts.
    """

    given: AnyMix
    rows: AnyMix
    before: tuple[tuple[GivenRows, ...], ...]
    order: SplicedMixOrder
    seed: int
    place: Place
    server: None = None
    source: None = None
    _plans: dict[int, SplicedMixPlan] = field(default_factory=dict[int, SplicedMixPlan])

    @property
    def selection(self) -> Any:
        """The rows of all sources now, end to end."""
        return self.rows.selection

    @property
    def reader(self) -> Reader:
        """Reader of chunks of all sources."""
        return self.rows.reader

    @property
    def virtual(self) -> Mapping[str, VirtualColumn]:
        """``_source``."""
        return self.rows.virtual

    @property
    def sources(self) -> tuple[MixSource, ...]:
        """The sources now."""
        return documents_of(self.rows).sources

    @property
    def form(self) -> Any:
        """How rows become units; None: they are not made into units."""
        return getattr(self.rows, "form", None)

    @property
    def is_endless(self) -> bool:
        """Whether an epoch never stops."""
        return self.rows.is_endless

    @property
    def num_places(self) -> int:
        """Places of the loader's epoch: those before a splice, and the rest."""
        return self.places_of(self.place.epoch)

    def places_of(self, epoch: int) -> int:
        """Return the number of places of an epoch."""
        return self.order.at(epoch).num_rows or self.rows.num_places

    def choose(
        self, shuffle: Shuffle, tensors: tuple[str, ...], *, prefetch_nbytes: int
    ) -> AnyOrder:
        """Return the order, which was chosen by the splice."""
        del shuffle, tensors, prefetch_nbytes
        return self.order

    def plan(self, order: AnyOrder, *, seed: int, epoch: int) -> Plan:
        """Return the plan of one epoch; of the spliced one it is found once."""
        del order  # of a loader that has these rows it is theirs
        here = self.order.at(epoch)
        if not here.place:
            return self.rows.plan(here.base, seed=seed, epoch=epoch)
        plan = self.spliced(seed)
        return self.rows.spliced(plan) if has_mixed_units(self.rows) else plan

    def spliced(self, seed: int) -> SplicedMixPlan:
        """Return the plan of places of the spliced epoch, which is found once."""
        if seed not in self._plans:
            self._plans[seed] = self._spliced(seed)
        return self._plans[seed]

    def _spliced(self, seed: int) -> SplicedMixPlan:
        order, places, documents = self.order, places_of(self.rows), documents_of(self.rows)
        key = seed, order.version
        tails = tuple(
            _tail(self.rows, source, before, one, key)
            for source, before, one in zip(
                documents_of(self.given).sources, self.before, order.sources, strict=True
            )
        )
        starts = tuple(documents.selection.starts[:-1])
        end = ENDLESS if documents.stop == "never" else order.num_rows
        named: Any = {"seed": seed, "epoch": order.epoch, "version": order.version}
        keys = derive_words(2, purpose="splice", stream=order.number, **named)
        units, where = places.units, (order.place, order.num_rows)
        return SplicedMixPlan(tails, starts, units, *where, end, keys)

    def recorded(self, order: AnyOrder, place: Place) -> AnyOrder:
        """Return the order as it is at a place."""
        del order
        return self.order.at(place.epoch)

    def describe(self, order: AnyOrder) -> str:
        """Describe the mix now, and where the epoch was spliced."""
        del order
        described, place = (
            self.rows.describe(self.order.base),
            self.order.at(self.place.epoch).place,
        )
        return f"{described}; spliced at place {place:,} of this epoch" if place else described

    def returned_to(self, state: LoaderState, *, seed: int | None, shuffle: Shuffle) -> OrderedRows:
        """Return to a state of the mix that the loader was made of."""
        return self.given.returned_to(state, seed=seed, shuffle=shuffle)


SPLICED = SplicedRows, SplicedMixRows
"""The rows of loaders that were advanced."""


def _advanced_mix(
    rows: AnyMix | SplicedMixRows,
    asked: Mapping[str, Any],
    arguments: LoaderArguments,
    order: AnyOrder,
    seed: int,
    place: Place,
) -> SplicedMixRows:
    """Return the rows with which a loader of a mix continues at its place.

    Args:
        rows: Its rows.
        asked: The arguments of ``advance()``.
        arguments: The loader's arguments.
        order: Its order.
        seed: Its seed.
        place: Its place.

    Raises:
        InvalidInputError: The mix cannot be spliced, or not in this way.
    """
    now = rows.rows if isinstance(rows, SplicedMixRows) else rows
    given = given_mix(rows.given if isinstance(rows, SplicedMixRows) else rows, asked["mix"])
    for one in (now, given):
        if documents_of(one).varies:
            raise InvalidInputError(
                "advance(): a mix with stages, or with weights that are functions of the place,"
                " is not spliced\ngive the later weights as stages: tl.mix(…, stages=[(place,"
                " mix), …])",
                argument="mix",
            )
    refuse_staged(now.selection.snapshot)
    earlier = _Earlier(rows, now, order, seed, place)
    new = edits_asked(documents_of(given), earlier.edits, asked)
    own = edited_mix(documents_of(given), new)
    mixed = own if isinstance(given, MixRows) else given.of(own)
    base, places = _chosen(mixed, arguments, order), places_of(mixed)
    if not place.position:
        sources = tuple(
            SplicedSource(0, 0, number, 0, SplicedOrder(one.order, new[one.name]))
            for number, one in enumerate(base.sources)
        )
        begun = SplicedMixOrder(base, sources)
        return SplicedMixRows(given, mixed, ((),) * len(new), begun, seed, place)
    free = 1 + max(earlier.streams.values())
    pairs: list[tuple[SplicedSource, tuple[GivenRows, ...]]] = []
    given_sources = documents_of(given).sources
    for at, (source, chosen) in enumerate(zip(places.sources, base.sources, strict=True)):
        wanted = SplicedOrder(chosen.order, new[source.name])
        if source.name in earlier.streams:
            digest = own.sources[at].selection.digest
            pairs.append(earlier.spliced(mixed, given_sources[at], digest, wanted))
        else:
            pairs.append((SplicedSource(0, 0, free, source.selection.num_rows, wanted), ()))
            free += 1
    left = [one.left for one, _ in pairs]
    num_rows = ENDLESS if own.stop == "never" else place.position + places.end_of(left)
    if own.limit is not None:
        num_rows = min(num_rows, own.limit)
    where = place.epoch, place.position, num_rows, earlier.count
    made = SplicedMixOrder(base, tuple(one for one, _ in pairs), *where)
    if len(json.dumps(made.to_json())) > CUTS_NBYTES_MAX * (1 + len(pairs)):
        raise InvalidInputError(
            f"advance(): the {earlier.count + 1} splices of this epoch would take more than"
            f" {CUTS_NBYTES_MAX:,} bytes of a state for each source\nadvance again when the epoch"
            " is over: loader.set_epoch(loader.epoch + 1)"
        )
    return SplicedMixRows(given, mixed, tuple(before for _, before in pairs), made, seed, place)


@dataclass(frozen=True, eq=False)
class _Earlier:
    """A mix before a splice: the pass of each source, and its place there."""

    rows: AnyMix | SplicedMixRows
    now: AnyMix
    order: AnyOrder
    seed: int
    place: Place

    @cached_property
    def names(self) -> list[str]:
        """Names of the sources."""
        return [source.name for source in documents_of(self.now).sources]

    @cached_property
    def sources(self) -> tuple[SplicedSource, ...]:
        """Each source at the splice before, of this epoch or an earlier one."""
        order = self.order
        return order.at(self.place.epoch).sources if isinstance(order, SplicedMixOrder) else ()

    @property
    def count(self) -> int:
        """How often this epoch was spliced before."""
        order = self.order
        here = order.at(self.place.epoch) if isinstance(order, SplicedMixOrder) else None
        return here.number + 1 if here is not None and here.place else 0

    @cached_property
    def edits(self) -> dict[str, Edit]:
        """The rows that were read of each source."""
        if self.sources:
            return {
                name: one.order.edit for name, one in zip(self.names, self.sources, strict=True)
            }
        sources = documents_of(self.now).sources
        return {one.name: Edit(one.selection.snapshot.version) for one in sources}

    @cached_property
    def streams(self) -> dict[str, int]:
        """The number by which each source's orders were seeded."""
        numbers = [one.stream for one in self.sources] if self.count else range(len(self.names))
        return dict(zip(self.names, numbers, strict=True))

    @cached_property
    def plan(self) -> MixPlan | SplicedMixPlan:
        """The order of the epoch so far, of places."""
        order, epoch = self.order, self.place.epoch
        if isinstance(self.rows, SplicedMixRows):
            if self.count:
                return self.rows.spliced(self.seed)
            order = self.rows.order.base
        return places_of(self.now).plan(order, seed=self.seed, epoch=epoch)

    @cached_property
    def taken(self) -> tuple[int, ...]:
        """Rows of each source until the splice."""
        return self.plan.taken_at(self.place.position)

    def spliced(
        self, mixed: AnyMix, given: MixSource, digest: str, order: SplicedOrder
    ) -> tuple[SplicedSource, tuple[GivenRows, ...]]:
        """Splice the pass of a source; return also the rows before each of its cuts.

        Args:
            mixed: The mix from here on.
            given: The source as it was given.
            digest: The digest of its rows now.
            order: The order of later passes.

        Raises:
            InvalidInputError: Another mix has other rows under its name.
        """
        number = self.names.index(given.name)
        was, edit = documents_of(self.now).sources[number], self.edits[given.name]
        count_before = places_of(self.now).sources[number].selection.num_rows
        base = self.order.base if isinstance(self.order, SplicedMixOrder) else self.order
        assert isinstance(base, MixOrder), "of a mix"
        old_order = base.sources[number].order
        plan, count = self.plan, self.taken[number]
        cuts: tuple[Cut, ...] = ()
        before: tuple[GivenRows, ...] = ()
        if isinstance(plan, MixPlan):
            left = count_before - count + plan.taken_at(0)[number]
            tail, count = plan.tail_of(number, count), 0
        else:
            assert isinstance(self.rows, SplicedMixRows), "spliced before"
            tail, left = plan.tails[number], self.sources[number].left - count
            cuts, before = self.sources[number].order.cuts, self.rows.before[number]
        passed, under_way, inside = tail.after(count)
        if passed != tail.number:
            cuts, before = (), ()
        old = edits_of(given).rows(edit)
        if old.selection.digest != was.selection.digest:
            raise InvalidInputError(
                f"advance(): source {given.name!r} of the new mix has other rows of"
                f" {was.selection.snapshot.version} than the one before, so its rest is unknown"
                "\ngive it another name, or change it by where=",
                argument="mix",
                actual=given.name,
            )
        is_same = was.selection.digest == digest and old_order == order.base
        if inside and not is_same:
            named = edit, was.selection.digest, old_order
            cuts = (*cuts, Cut(inside, under_way.num_rows, *named))
            before = (*before, _given_rows(mixed, old))
        stream = self.streams[given.name]
        one = SplicedSource(passed, inside, stream, 0, replace(order, epoch=passed, cuts=cuts))
        key = self.seed, order.version
        after = _tail(mixed, given, before, one, key).plan
        return replace(one, left=max(0, left + after.num_rows - under_way.num_rows)), before


def _returned_mix(
    rows: AnyMix | SplicedMixRows,
    state: LoaderState,
    arguments: LoaderArguments,
    place: Place,
) -> OrderedRows:
    """Return the rows of a state of a mix, which may be spliced.

    Raises:
        StateMismatchError: It belongs to other rows.
    """
    order, given = state.order, rows.given if isinstance(rows, SplicedMixRows) else rows
    if not isinstance(order, SplicedMixOrder):
        return given.returned_to(state, seed=arguments.seed, shuffle=arguments.shuffle)
    refuse_staged(given.selection.snapshot)
    names = [source.name for source in documents_of(given).sources]
    if order.base.names_digest != names_digest(names):
        known = [one.name for one in order.base.sources]
        raise StateMismatchError(
            f"the state belongs to a mix of {shown(known)}, given {shown(names)}"
            "\nmake the loader of the mix to which it advanced, or start over without"
            " load_state_dict()",
            expected=known,
            actual=names,
        )
    edits = {name: one.order.edit for name, one in zip(names, order.sources, strict=True)}
    own, befores = edited_mix(documents_of(given), edits), list[tuple[GivenRows, ...]]()
    mixed = own if isinstance(given, MixRows) else given.of(own).weighed(order.base.span.weights)
    for source, one in zip(documents_of(given).sources, order.sources, strict=True):
        before = tuple(edits_of(source).rows(cut.edit) for cut in one.order.cuts)
        for cut, old in zip(one.order.cuts, before, strict=True):
            check_digest(cut.edit, cut.selection, old.selection.digest)
        befores.append(tuple(_given_rows(mixed, old) for old in before))
    spliced = SplicedMixRows(given, mixed, tuple(befores), order, state.seed, place)
    weights = order.base.span.weights, places_of(mixed).weights
    check_state(
        state,
        version=mixed.selection.snapshot.version,
        selection=mixed.selection.digest,
        num_rows=None if own.is_endless else spliced.places_of(state.epoch),
        seed=arguments.seed,
        shuffle=arguments.shuffle,
        others={} if weights[0] == weights[1] else {"weights": weights},
    )
    return spliced


def _chosen(mixed: AnyMix, arguments: LoaderArguments, order: AnyOrder) -> MixOrder:
    """Return the order of a mix, of the version of the plan by which the epoch began."""
    tensors = tuple(mixed.selection.columns)
    base = mixed.choose(arguments.shuffle, tensors, prefetch_nbytes=arguments.prefetch_nbytes)
    assert isinstance(base, MixOrder), "of a mix"
    sources = tuple(
        replace(one, order=replace(one.order, version=order.version)) for one in base.sources
    )
    return replace(base, sources=sources, version=order.version)


def _given_rows(mixed: AnyMix, rows: SelectedRows) -> GivenRows:
    """Return the rows of a source, or its units."""
    return mixed.units_of(rows) if has_mixed_units(mixed) else rows


def _tail(
    mixed: AnyMix,
    given: MixSource,
    before: tuple[GivenRows, ...],
    one: SplicedSource,
    key: tuple[int, int],
) -> Tail[Any]:
    """Return the passes of a source from a splice of its mix on: of rows, or of units."""
    seed = source_seed(key[0], one.stream, key[1])
    now = _given_rows(mixed, edits_of(given).rows(one.order.edit))
    make = SplicedRows(now, now, before, one.order, seed, Place()).pass_of
    return Tail(make(one.number), one.given, one.number, make, items_of(now).length)


def advanced(
    rows: OrderedRows,
    asked: Mapping[str, Any],
    arguments: LoaderArguments,
    order: AnyOrder,
    seed: int,
    place: Place,
) -> SplicedRows | SplicedMixRows:
    """Return the rows with which a loader continues at its place.

    Args:
        rows: Its rows.
        asked: The arguments of ``advance()``.
        arguments: The loader's arguments.
        order: Its order.
        seed: Its seed.
        place: Its place.

    Raises:
        InvalidInputError: Rows of this order cannot be spliced, or not in this way.
    """
    if isinstance(rows, SplicedMixRows) or is_mix(rows):
        return _advanced_mix(rows, asked, arguments, order, seed, place)
    given = dict(asked)
    if given.pop("mix") is not None:
        raise InvalidInputError(
            "advance(mix=…) is for the loader of a mix, and this one reads one dataset"
            "\nbegin with tl.mix({'web': (web, 1.0)}), to which other sources can be added",
            argument="mix",
        )
    return advanced_rows(rows, partial(edited, **given), arguments, order, seed, place)


def returned(
    rows: OrderedRows, state: LoaderState, arguments: LoaderArguments, place: Place
) -> OrderedRows:
    """Return the rows of a state, which may be spliced.

    Raises:
        StateMismatchError: It belongs to other rows.
    """
    if isinstance(rows, SplicedMixRows) or is_mix(rows):
        return _returned_mix(rows, state, arguments, place)
    return returned_rows(rows, state, arguments, place)
