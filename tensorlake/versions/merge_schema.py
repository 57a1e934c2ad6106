"""The schema of a merge: three schemas become one, tensor by tensor, known by their ids.

    base      id 9f… "label"  cat, dog
    ours      id 9f… "label"  cat, dog, owl             both added a class
    theirs    id 9f… "kind"   cat, dog, emu, owl        theirs renamed the tensor, too
    merged    id 9f… "kind"   cat, dog, owl, emu        theirs' codes: 0, 1, 2 → 3, 3 → 2

Specs that both have are united by ``format/uniting.py``: what one side changed is taken. Class
names are united by ``merge_names.py``: what both added is one class by name, ours keep their codes.
Names of tensors are settled last: of two that would share one, one becomes ``<name>~<branch>``.
What both changed differently is a ``Clash``, whether or not a preference decides it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tensorlake.format import Schema, SpecConflict, TensorSpec, unite_specs
from tensorlake.types import NO_DEFAULT, ClassLabel, SampleType
from tensorlake.versions.merge_names import ClassNames, class_names, codes_in, merge_class_names

__all__ = ["Clash", "MergedSchema", "MergedTensor", "Preference", "merge_schemas"]

Preference = Literal["ours", "theirs"]
Source = Literal["ours", "theirs", "both"]

CITING = ("of", "per")
"""Parameters of types that name another tensor."""


@dataclass(frozen=True, slots=True)
class Clash:
    """Something of the schema that both sides changed, differently.

    Attributes:
        tensor_id: The tensor.
        what: In words: "both renamed 'a': to 'b' and to 'c'".
        can_be_preferred: Whether "ours" or "theirs" decides it.
    """

    tensor_id: str
    what: str
    can_be_preferred: bool = True


@dataclass(frozen=True, slots=True)
class MergedTensor:
    """One tensor of the result.

    Attributes:
        spec: As the result has it.
        source: Which side has it.
        numbers: What each ``read_as`` of theirs is in the result.
        codes: What each class code of theirs is in the result; None: the same.
    """

    spec: TensorSpec
    source: Source
    numbers: tuple[int, ...] = ()
    codes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class MergedSchema:
    """The schema of the result, and what was decided on the way.

    Attributes:
        schema: The result.
        tensors: Its tensors, by id.
        clashes: What both changed, whether or not the preference decided it.
        changes: What ours' schema goes through to become it, as log entries record it.
    """

    schema: Schema
    tensors: Mapping[str, MergedTensor]
    clashes: tuple[Clash, ...]
    changes: tuple[Mapping[str, Any], ...]


def merge_schemas(
    bases: Sequence[Schema],
    ours: Schema,
    theirs: Schema,
    *,
    kept: Mapping[str, Source | None],
    prefer: Preference,
    branches: tuple[str, str],
) -> MergedSchema:
    """Merge the schemas of two versions.

    Args:
        bases: Of the merge bases, newest first: of each tensor the first that has it counts.
        ours: One side's.
        theirs: The other's.
        kept: For each tensor id of either, which sides have it in the result; None: dropped.
        prefer: Who decides where both changed the same.
        branches: Names of ours' and theirs' branch.
    """
    merging = _Merging(prefer, [])
    tensors: dict[str, MergedTensor] = {}
    order = [*(spec.id for spec in ours.tensors), *(spec.id for spec in theirs.tensors)]
    for tensor_id in dict.fromkeys(order):
        source = kept.get(tensor_id)
        mine, other = ours.by_id(tensor_id), theirs.by_id(tensor_id)
        if source == "ours" and mine is not None:
            tensors[tensor_id] = MergedTensor(_citing_ids(mine, ours), source)
        elif source == "theirs" and other is not None:
            numbers = tuple(range(len(other.encodings)))
            tensors[tensor_id] = MergedTensor(_citing_ids(other, theirs), source, numbers)
        elif source == "both" and mine is not None and other is not None:
            schemas = (schema for schema in bases if schema.by_id(tensor_id) is not None)
            base_schema = next(schemas, None)
            base = None if base_schema is None else base_schema.by_id(tensor_id)
            if base_schema is not None and base is not None:
                base = _citing_ids(base, base_schema)
            tensors[tensor_id] = merging.both(
                base, _citing_ids(mine, ours), _citing_ids(other, theirs)
            )
    named = _with_own_names(tensors, merging, branches)
    cited = {id_: one.spec.name for id_, one in named.items()}
    result = {
        id_: replace(one, spec=_citing_names(one.spec, cited, (ours, theirs)))
        for id_, one in named.items()
    }
    schema = replace(ours, tensors=tuple(one.spec for one in result.values()))
    return MergedSchema(schema, result, tuple(merging.clashes), tuple(_changes(ours, schema)))


@dataclass(frozen=True, slots=True)
class _Merging:
    prefer: Preference
    clashes: list[Clash]

    def both(self, base: TensorSpec | None, mine: TensorSpec, other: TensorSpec) -> MergedTensor:
        """Merge a tensor that both sides have."""
        # Without a base, what was there before is taken to be ours, with no class in common.
        before = base or replace(mine, type=_bare(mine.type))
        merged = self._names(before, mine, other)
        codes = None if merged is None or _is_same(merged.codes) else merged.codes
        if merged is not None:
            before = _in_terms(before, merged, codes_in(mine, before))
            mine = _in_terms(mine, merged, None)
            other = _in_terms(other, merged, codes)
        united = unite_specs(before, mine, other)
        while isinstance(united, SpecConflict):
            mine, other = self._decided(before, mine, other)
            united = unite_specs(before, mine, other)
        return MergedTensor(united.spec, "both", united.read_as, codes)

    def _names(self, base: TensorSpec, mine: TensorSpec, other: TensorSpec) -> ClassNames | None:
        """Unite class names; None where there are none, or nothing else than before."""
        if not (isinstance(mine.type, ClassLabel) and isinstance(other.type, ClassLabel)):
            return None
        prefer_theirs = self.prefer == "theirs"
        merged = merge_class_names(base, mine, other, prefer_theirs=prefer_theirs)
        self.clashes.extend(
            Clash(base.id, one.what, one.can_be_preferred) for one in merged.clashes
        )
        if all(one.can_be_preferred for one in merged.clashes):
            return merged
        return ClassNames(class_names(mine), tuple(range(len(class_names(other)))), mine.class_ids)

    def _decided(
        self, base: TensorSpec, mine: TensorSpec, other: TensorSpec
    ) -> tuple[TensorSpec, TensorSpec]:
        """Note a conflict, and let the preferred side alone have changed the tensor."""
        loser, winner = (other, mine) if self.prefer == "ours" else (mine, other)
        # The loser's samples must be readable as the winner's type: types only ever widen.
        is_readable = _bare(loser.type) in (_bare(base.type), _bare(winner.type))
        told = f"both changed the schema of {base.name!r}"
        self.clashes.append(Clash(base.id, told, is_readable))
        loser = replace(base, encodings=loser.encodings)
        return (winner, loser) if self.prefer == "ours" else (loser, winner)


def _bare(declared: SampleType) -> SampleType:
    """A type without what is merged by itself: its class names, one of which may be its default."""
    if not isinstance(declared, ClassLabel):
        return declared
    return replace(declared, default=NO_DEFAULT).with_names(())


def _is_same(codes: Sequence[int]) -> bool:
    return tuple(codes) == tuple(range(len(codes)))


def _in_terms(spec: TensorSpec, merged: ClassNames, codes: Sequence[int] | None) -> TensorSpec:
    """A spec with the result's class names; its codes, and how chunks are read, mapped to them."""
    declared = spec.type
    if not isinstance(declared, ClassLabel):
        return spec
    default = declared.default
    if isinstance(default, int) and codes is not None:
        default = codes[default]
    bare = replace(declared, default=NO_DEFAULT).with_names(merged.names)
    spec = replace(spec, type=replace(bare, default=default), class_ids=merged.ids)
    if codes is None or _is_same(codes):
        return spec
    mapped = [
        replace(one, codes=tuple(codes[code] for code in one.codes or range(len(codes))))
        for one in spec.encodings
    ]
    return replace(spec, encodings=(*mapped, spec.layout))  # the last is for new chunks


def _with_own_names(
    tensors: Mapping[str, MergedTensor], merging: _Merging, branches: tuple[str, str]
) -> dict[str, MergedTensor]:
    """Give each tensor a name of its own."""
    named = dict(tensors)
    taken: dict[str, str] = {}
    for tensor_id, one in tensors.items():
        other_id = taken.setdefault(one.spec.name, tensor_id)
        if other_id == tensor_id:
            continue
        told = f"two different tensors would be called {one.spec.name!r}"
        merging.clashes.append(Clash(tensor_id, told))
        # Ours come first, so the second of the name is the one that theirs brought.
        loser = tensor_id if merging.prefer == "ours" else other_id
        branch = branches[1] if merging.prefer == "ours" else branches[0]
        name = f"{one.spec.name}~{branch}"
        while name in taken or any(name == known.spec.name for known in tensors.values()):
            name = f"{name}~{branch}"
        taken[one.spec.name] = other_id if loser == tensor_id else tensor_id
        taken[name] = loser
        named[loser] = replace(named[loser], spec=replace(named[loser].spec, name=name))
    return named


def _citing_ids(spec: TensorSpec, schema: Schema) -> TensorSpec:
    """Let a type that names another tensor cite its id: names may change."""
    return _cited(spec, {other.name: other.id for other in schema.tensors})


def _citing_names(
    spec: TensorSpec, names: Mapping[str, str], schemas: Sequence[Schema]
) -> TensorSpec:
    known = {other.id: other.name for schema in schemas for other in schema.tensors}
    return _cited(spec, {**known, **names})


def _cited(spec: TensorSpec, names: Mapping[str, str]) -> TensorSpec:
    cited: dict[str, str] = {}
    for parameter in CITING:
        name = getattr(spec.type, parameter, None)
        if isinstance(name, str) and name in names:
            cited[parameter] = names[name]
    return replace(spec, type=replace(spec.type, **cited)) if cited else spec


def _changes(before: Schema, after: Schema) -> list[dict[str, Any]]:
    found = [_op("drop", spec) for spec in before.tensors if after.by_id(spec.id) is None]
    for spec in after.tensors:
        old = before.by_id(spec.id)
        if old is None:
            found.append(_op("add", spec))
            continue
        if old.name != spec.name:
            found.append(_op("rename", spec))
        if class_names(old) != class_names(spec):
            found.append(_op("names", spec))
        if _bare(old.type) != _bare(spec.type):
            found.append(_op("type", spec))
        if old.attributes != spec.attributes:
            found.append(_op("metadata", spec))
    return found


def _op(what: str, spec: TensorSpec) -> dict[str, Any]:
    return {"op": what, "tensor": spec.id, "name": spec.name}
