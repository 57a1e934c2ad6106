"""Two sets of schema changes as one: a pure function of three schemas, tensor by tensor.

A tensor is followed by its id. What one side changed is taken, what neither changed stays; two
changes of one tensor conflict unless they are the same change. Class names are the exception
(docs/reference/format.md, "Identity"): names that both sides added are united by name, mine after
theirs, so codes of mine may change. The result keeps every number that theirs' extents are read
as; ``Combined.numbers`` says what mine are read as.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tensorlake.format import Extents, Schema, TensorSpec
from tensorlake.types import ClassLabel, NamesConflict, unite_class_names
from tensorlake.versions.combine import Conflict

__all__ = ["CombinedSchema", "OnConflict", "ReadAs", "combine_schemas", "is_narrower"]

OnConflict = Literal["error", "ours", "theirs"]
"""Who wins where both changed one thing: nobody, the staged changes, the published ones."""


@dataclass(frozen=True, slots=True)
class ReadAs:
    """How extents that were made for one spec are read under another one.

    Attributes:
        numbers: The new number of each encoding, by its old one.
        codes: What each class code becomes; None where codes stay.
    """

    numbers: tuple[int, ...]
    codes: tuple[int, ...] | None = None

    @property
    def is_same(self) -> bool:
        """Whether nothing changes."""
        return self.codes is None and self.numbers == tuple(range(len(self.numbers)))

    def of(self, extents: Extents) -> Extents:
        """The extents as the new spec reads them."""
        return extents if self.is_same else extents.with_read_as(self.numbers, codes=self.codes)


@dataclass(frozen=True, slots=True)
class CombinedSchema:
    """A schema that holds the changes of both sides, or why there is none.

    Attributes:
        schema: Theirs with mine on top; where ``conflicts`` is not empty, with theirs instead.
        read_as: By tensor id, how mine's extents are read now.
        conflicts: What both changed, and no side was to win.
    """

    schema: Schema
    read_as: Mapping[str, ReadAs] = field(default_factory=dict[str, ReadAs])
    conflicts: tuple[Conflict, ...] = ()


def combine_schemas(
    base: Schema,
    mine: Schema,
    theirs: Schema,
    *,
    on_conflict: OnConflict = "error",
    branch: str = "main",
    kept: Collection[str] = (),
) -> CombinedSchema:
    """Apply the changes from ``base`` to ``mine`` to ``theirs``.

    Args:
        base: What both started from.
        mine: The schema with the changes that are to be applied.
        theirs: The schema with the changes that stand.
        on_conflict: Which side wins where both changed one tensor.
        branch: Names the side that loses a name: ``score~main``.
        kept: Ids of tensors that stay although mine dropped them.
    """
    if mine == base:
        return CombinedSchema(theirs)
    conflicts: list[Conflict] = []
    combined: list[TensorSpec] = []
    read_as: dict[str, ReadAs] = {}
    for their_spec in theirs.tensors:
        before, my_spec = base.by_id(their_spec.id), mine.by_id(their_spec.id)
        if before is None:
            combined.append(their_spec)
        elif my_spec is None:
            if their_spec.id not in kept and (their_spec == before or on_conflict == "ours"):
                continue
            combined.append(their_spec)
            if on_conflict == "error":
                conflicts.append(Conflict("schema", before.id))
        else:
            spec, found = _of_one_tensor(before, my_spec, their_spec, on_conflict)
            if spec is None or found is None:
                conflicts.append(Conflict("schema", before.id))
                spec, found = their_spec, ReadAs(tuple(range(len(before.encodings))))
            combined.append(spec)
            read_as[spec.id] = found
    for my_spec in mine.tensors:
        before = base.by_id(my_spec.id)
        if before is None:
            combined.append(my_spec)
        elif theirs.by_id(my_spec.id) is None and my_spec != before and on_conflict != "theirs":
            conflicts.append(Conflict("schema", before.id))  # they dropped what I changed
    combined, clashes = _apart(combined, base, theirs, on_conflict, branch)
    schema = replace(theirs, tensors=_recited(combined, mine, theirs)) if not clashes else theirs
    return CombinedSchema(schema, read_as, (*conflicts, *clashes))


def is_narrower(after: TensorSpec, before: TensorSpec) -> bool:
    """Whether values that fitted a tensor need not fit it any more: NULL, or a class, is gone."""
    if before.type.nullable and not after.type.nullable:
        return True
    if not (isinstance(before.type, ClassLabel) and isinstance(after.type, ClassLabel)):
        return False
    return not set(after.type.dropped) <= set(before.type.dropped)


def _of_one_tensor(
    base: TensorSpec, mine: TensorSpec, theirs: TensorSpec, on_conflict: OnConflict
) -> tuple[TensorSpec | None, ReadAs | None]:
    """One spec for two, and how mine's extents are read under it; None where they conflict."""
    same = ReadAs(tuple(range(len(mine.encodings))))
    if mine in (base, theirs):
        return theirs, same
    if theirs == base:
        return mine, same
    united = _with_united_names(base, mine, theirs)
    if united is not None:
        return united
    if on_conflict == "error":
        return None, None
    if base.encodings not in (mine.encodings, theirs.encodings):
        return None, None  # two other ways to store: no preference makes one readable as the other
    loser, winner = (theirs, mine) if on_conflict == "ours" else (mine, theirs)
    fields = {name: _chosen(name, base, loser, winner) for name in _FIELDS}
    if fields["encodings"] != winner.encodings and winner.type != base.type:
        return None, None  # the winner's type would be stored as the loser's
    typed = loser if fields["type"] == loser.type else winner
    return replace(theirs, **fields, class_ids=typed.class_ids), same


def _with_united_names(
    base: TensorSpec, mine: TensorSpec, theirs: TensorSpec
) -> tuple[TensorSpec, ReadAs] | None:
    """Unite class names that both changed; None where something else of the tensor differs too."""
    before, ours, others = base.type, mine.type, theirs.type
    if not (
        isinstance(before, ClassLabel)
        and isinstance(ours, ClassLabel)
        and isinstance(others, ClassLabel)
    ):
        return None
    united = unite_class_names(before.names, others.names, ours.names)
    # What else differs, differs on one side only: the names and codes are all that is united.
    bare = [replace(spec, type=label.with_names(()), encodings=base.encodings, class_ids={})
            for spec, label in ((base, before), (mine, ours), (theirs, others))]  # fmt: skip
    if isinstance(united, NamesConflict) or any(one != bare[0] for one in bare[1:]):
        return None
    ids = {**mine.class_ids_in(united.codes), **theirs.class_ids}
    spec = replace(theirs, type=others.with_names(united.names), class_ids=ids)
    spec, numbers = spec.with_encodings_of(mine, codes=united.codes)
    return spec, ReadAs(numbers, united.codes)


_FIELDS = ("name", "type", "encodings", "fill", "chunk_nbytes", "attributes", "unknown")


def _chosen(name: str, base: TensorSpec, loser: TensorSpec, winner: TensorSpec) -> Any:
    is_untouched = getattr(winner, name) == getattr(base, name)
    return getattr(loser if is_untouched else winner, name)


def _apart(
    combined: Sequence[TensorSpec],
    base: Schema,
    theirs: Schema,
    on_conflict: OnConflict,
    branch: str,
) -> tuple[list[TensorSpec], list[Conflict]]:
    """Give two tensors that were given one name two names, or say that they conflict."""
    taken: dict[str, TensorSpec] = {}
    for spec in combined:
        other = taken.get(spec.name)
        if other is None:
            taken[spec.name] = spec
            continue
        their_spec = theirs.by_id(spec.id)
        is_mine = their_spec is None or their_spec.name != spec.name
        mine, others = (spec, other) if is_mine else (other, spec)
        if on_conflict == "error":
            return list(combined), [Conflict("name", mine.id)]
        loser = others if on_conflict == "ours" else mine
        free = f"{spec.name}~{branch}"
        while free in taken or any(one.name == free for one in combined):
            free += "~"
        apart = [replace(one, name=free) if one.id == loser.id else one for one in combined]
        return _apart(apart, base, theirs, on_conflict, branch)
    return list(combined), []


def _recited(
    combined: Sequence[TensorSpec], mine: Schema, theirs: Schema
) -> tuple[TensorSpec, ...]:
    """Let types that speak of another tensor (boxes ``of`` an image) cite it by its name now."""
    names = {spec.id: spec.name for spec in combined}
    found: list[TensorSpec] = []
    for spec in combined:
        source = theirs if theirs.by_id(spec.id) == spec else mine
        cited: dict[str, str] = {}
        for what in ("of", "per"):
            name = getattr(spec.type, what, None)
            if isinstance(name, str) and name in source:
                cited[what] = names.get(source[name].id, name)
        is_same = all(getattr(spec.type, what) == name for what, name in cited.items())
        found.append(spec if is_same else replace(spec, type=replace(spec.type, **cited)))
    return tuple(found)
